/*
 * Which libraries are in which contexts: a library comes to a context with the first question for
 * something in it, and its memory with it. No call takes it out again alone, so what is not there
 * yet is not asked for where the tenant is above its limit already.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Starts: fork children begin with nothing. */
void library_init(void);

/* It was asked for in the context. Without memory for it, it stays unknown. */
void library_enter(const void *library, const void *ctx);

/* True when it was asked for there before. */
bool library_is_in(const void *library, const void *ctx);

/*
 * It was loaded from an image that stays where it is (NULL: from one that may go), and takes so
 * many bytes in each context, at most; 0 where that is not known (yet).
 */
void library_note(const void *library, const void *image, uint64_t bytes);

/* What was noted; zeros of an unknown one. The image is NULL where the bytes are known. */
struct library_need {
	const void *image;
	uint64_t bytes;
};
struct library_need library_need(const void *library);

/* It was unloaded, from every context. */
void library_end(const void *library);
