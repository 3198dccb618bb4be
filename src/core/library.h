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

/* It was loaded, and takes so many bytes in each context at least; 0 where nothing is known. */
void library_note(const void *library, uint64_t bytes);
uint64_t library_bytes(const void *library);

/* It was unloaded, from every context. */
void library_end(const void *library);
