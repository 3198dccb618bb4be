/*
 * Addresses that the driver freed while they were unknown here, the last few: the allocation may
 * have been on its way into the books, so whoever enters one of them asks the driver whether it is
 * still there.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Starts: fork children begin with nothing. */
void suspect_init(void);

/* Notes an address; the oldest is forgotten. */
void suspect_note(uint64_t addr);

/* True for one of those. */
bool suspect_is(uint64_t addr);
