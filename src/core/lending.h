/*
 * A call that makes a descriptor, on its way: what it is of stays charged until the descriptor is
 * marked (core/lent.h). Begin, driver call, given or named where it made something, end.
 *
 * Belongs to one thread.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

struct lending_part;

struct lending {
	struct lending_part *parts;
	unsigned count;
};

/*
 * Of the memory of a handle; of all that is mapped in a range of addresses. 0, -ENOMEM, or -ENOENT
 * where nothing is; then too lending_end() has to follow.
 */
int lending_begin_handle(struct lending *lending, uint64_t handle);
int lending_begin_range(struct lending *lending, uint64_t addr, uint64_t bytes);

/*
 * Of what is held by the address where it begins: an allocation, as core/track.h knows it; else
 * `bytes` on `dev`, which who ends it says (lent_end()), or of a graph's memory its store when it
 * gives some back (lent_end_stored()).
 */
int lending_begin_address(struct lending *lending, uint64_t addr, struct dev dev, uint64_t bytes,
			  bool is_stored);

/* The driver made the descriptor. */
void lending_given(struct lending *lending, int fd);

/* As that, of what others open memory by handle by while it lives, and which holds nothing. */
void lending_named(struct lending *lending);

void lending_end(struct lending *lending);
