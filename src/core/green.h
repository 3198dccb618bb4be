/*
 * Green contexts: what is current by one is a handle of its own, and what is made with it is the
 * primary context's.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include <stdbool.h>

/* Starts: fork children begin with nothing. */
void green_init(void);

/* `ctx` is a green context's, of this primary one. False without memory for that. */
bool green_enter(const void *ctx, const void *primary);

/* It is gone. */
void green_leave(const void *ctx);

/* Whose memory is taken while `ctx` is current: the primary context of a green one, else itself. */
const void *green_owner(const void *ctx);
