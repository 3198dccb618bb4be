#include "tools/tenant.h"

#include "tools/tenant_dir.h"
#include "tools/tenant_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_TRIES = 16 };

/* Opens the region at t->path and takes the keeper's byte. */
static int open_region(const struct region_setup *setup, struct tenant *t, char *out_error,
		       size_t error_bytes)
{
	static struct region region; /* its path alone is 4 KiB */
	struct region_setup own = *setup;
	struct region_error err;
	int rc;

	own.name = t->name;
	own.must_be_new = true;
	rc = region_open(t->path, &own, &region, &err);
	if (rc < 0) {
		snprintf(out_error, error_bytes, "%s", err.text);
		return rc;
	}
	rc = slot_keep(&region, &t->keeper);
	if (rc < 0)
		snprintf(out_error, error_bytes, "region %s cannot be kept (%s)", t->path,
			 strerror(-rc));
	region_settle(&region);
	region_close(&region);
	return rc;
}

static int create(const struct region_setup *setup, struct tenant *t, char *out_error,
		  size_t error_bytes)
{
	int turn, rc = tenant_place_make(t->dir, t->name, t->path, sizeof(t->path), &turn);

	if (rc == -EBUSY)
		snprintf(
			out_error, error_bytes,
			"the name '%s' is taken by a living tenant, or by what descriptors hold of its "
			"memory; choose another one, or end it (`ration ps` shows it)",
			t->name);
	else if (rc < 0)
		snprintf(out_error, error_bytes,
			 "the directory %s/%s" TENANT_PLACE_SUFFIX
			 " cannot be made (%s); choose another name, or a directory in RATION_DIR",
			 t->dir, t->name, strerror(-rc));
	else
		rc = open_region(setup, t, out_error, error_bytes);
	tenant_place_settle(turn);
	return rc;
}

int tenant_make(const char *name, const char *command, const struct region_setup *setup,
		struct tenant *t, char *out_error, size_t error_bytes)
{
	int rc = tenant_dir_open(TENANT_DIR_MAKE, t->dir, out_error, error_bytes);

	if (rc < 0)
		return rc;
	if (name) {
		snprintf(t->name, sizeof(t->name), "%s", name);
		return create(setup, t, out_error, error_bytes);
	}
	/* The process id is unique here, but other pid namespaces may use the directory too. */
	for (int i = 0; i < NAME_TRIES; i++) {
		tenant_dir_make_name(command, (unsigned)getpid(), t->name, sizeof(t->name));
		if (i > 0)
			snprintf(t->name + strlen(t->name), sizeof(t->name) - strlen(t->name),
				 "-%d", i + 1);
		rc = create(setup, t, out_error, error_bytes);
		if (rc != -EBUSY)
			break;
	}
	return rc;
}

void tenant_end(const struct tenant *t)
{
	tenant_place_end(t->dir, t->path);
}
