/* A change of a living tenant's limits, in its region file. */
#pragma once

#include "base/limits.h"
#include "shm/view.h"

/* What a change did to the limits of a kind; 0 = no limit. */
struct limit_change_device {
	uint64_t old[LIMITS_KINDS], new[LIMITS_KINDS]; /* in the unit of their kind */
};

struct limit_change {
	struct view before; /* the tenant as it was, under the lock; freed by limit_change_free() */
	struct limit_change_device devices[RATION_DEVICES];
	char specs[LIMITS_KINDS][RATION_SPEC_BYTES]; /* as stored now; "" = unchanged */
	uint64_t kept
		[LIMITS_KINDS]; /* what goes on to hold for devices that were not named; 0 = none */
};

/*
 * Changes the limits of the tenant whose region is at `path` to `specs`, one a kind, which were
 * checked; NULL leaves those of its kind. A limit of all devices goes on to hold for those that the new
 * ones do not name. 0 with *out filled, or -errno with a line in out_error and
 * nothing changed. -EINVAL: one names a device that the tenant does not have, or would lift a limit
 * without saying so.
 */
int limit_change_make(const char *path, const char *const specs[LIMITS_KINDS],
		      struct limit_change *out, char *out_error, size_t error_bytes);

/* Frees what limit_change_make() allocated. */
void limit_change_free(struct limit_change *change);
