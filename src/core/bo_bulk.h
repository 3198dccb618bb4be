/*
 * Objects that are used together: in each list that they are in, those of a bulk stand side by
 * side, so that all of them are marked as used just now in a time that does not depend on how many
 * they are.
 */
#pragma once

#include "core/bo.h"

/* Those in one list. Both NULL: none. */
struct bo_run {
	struct bo *first, *last;
};

/* The device's mutex. */
struct bo_bulk {
	struct bo_device *device; /* constant */
	struct bo_run runs[BO_PLACES][BO_PRIORITIES];
};

/* It is the caller's, and stays until all have left it or were given back. */
void bo_bulk_init(struct bo_bulk *bulk, struct bo_device *device);

/*
 * An object of the device belongs to the bulk (NULL: to none) and to no other. It leaves by itself
 * when nobody has it any more. Any thread.
 */
void bo_bulk_set(struct bo_bulk *bulk, struct bo *bo);

/* All of them were used just now, in the order in which each was last. Any thread. */
void bo_bulk_touch(struct bo_bulk *bulk);

/*
 * For bo_device.c, with the mutex. An object of the bulk is about to be put into a list: returns
 * after whom, NULL: last. And it is about to be taken out.
 */
struct bo *bo_bulk_enter_run(struct bo *bo);
void bo_bulk_leave_run(struct bo *bo);
