/*
 * A tenant that this process makes and keeps: its region file stands, with its limits, from before
 * the first program of it starts until the last has gone.
 */
#pragma once

#include "shm/slot.h"
#include "tools/tenant_dir.h"

struct tenant {
	char name[RATION_NAME_BYTES];
	char dir[TENANT_DIR_BYTES]; /* of the tenants, as of tenant_make() */
	char path[4096];            /* of the region file */
	struct slot keeper;         /* has the keeper's byte; the kernel drops it with us */
};

/*
 * Makes a tenant called `name`, or after `command` when name is NULL. `setup` says what it may use;
 * its name is not looked at. 0, or -errno with a line in out_error: -EBUSY for a name that is
 * taken.
 */
int tenant_make(const char *name, const char *command, const struct region_setup *setup,
		struct tenant *out_tenant, char *out_error, size_t error_bytes);

/* Ends it: what it left goes unless a process still lives in it; then who comes next removes it. */
void tenant_end(const struct tenant *tenant);
