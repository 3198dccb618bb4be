/*
 * Which libraries are in which contexts: a library comes to a context with the first question for
 * something in it, and its memory with it: the variables at once, the code with the first function
 * that is asked for. No call takes it out again alone, so what is not there yet is not asked for
 * where the tenant is above its limit already.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts: fork children begin with nothing. */
void library_init(void);

/* What of it: who has the code there has all of it. */
enum library_part { LIBRARY_DATA, LIBRARY_CODE };

/* That was asked for in the context, on that device. Without memory for it, it stays unknown. */
void library_enter(const void *library, const void *ctx, struct dev dev, enum library_part part);

/*
 * Likewise, but what it took passed the limit and the question was refused: it is there, where no
 * call takes it out, and is let in when it is asked for again and fits.
 */
void library_refuse(const void *library, const void *ctx, struct dev dev, enum library_part part);

/* True when it was asked for there before, and let in; or when it takes nothing more there. */
bool library_is_in(const void *library, const void *ctx, enum library_part part);
bool library_is_there(const void *library, const void *ctx, enum library_part part);

/*
 * What it takes in each context, at most; 0 where that is not known. With an image, which stays
 * where it is, that was not looked at yet.
 */
struct library_need {
	const void *image;
	uint64_t bytes, code_bytes; /* at once; with its first function */
	uint64_t managed_bytes;     /* of managed variables: once, for all contexts */
	uint64_t shared_bytes;      /* as lodger_enter() wants it (core/lodger.h) */
	unsigned calls;             /* enum image_calls */
};

/* It was loaded, or looked at; and what was noted, zeros of an unknown one. */
void library_note(const void *library, struct library_need need);
struct library_need library_need(const void *library);

/* True when something of any is in a context of the device. */
bool library_any(struct dev dev);

/*
 * Takes it out of all contexts before the driver unloads it: NULL when nothing is known. Then it is
 * gone, or was not unloaded and what is known of it is known again.
 */
struct library_place;
struct library_place *library_take(const void *library);
void library_over(struct library_place *taken, bool is_gone);

/* The context ended, with all that libraries had there by `mark` (context_mark() before). */
void library_end_context(const void *ctx, uint64_t mark);
