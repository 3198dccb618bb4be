#include "tools/tenant.h"

#include "tools/tenant_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_TRIES = 16 };

/*
 * In a directory that others can enter the file must not be theirs to write: they could lift the
 * limit. Where the user chose the directory, its mode is the user's choice.
 */
static void close_to_others(int fd)
{
	const char *named = getenv("RATION_DIR");

	if (!named || !*named)
		fchmod(fd, 0644);
}

static int create(const char *dir, const struct region_setup *setup, struct tenant *t,
		  char *out_error, size_t error_bytes)
{
	static struct region region; /* its path alone is 4 KiB */
	struct region_setup own = *setup;
	struct region_error err;
	int rc;

	own.name = t->name;
	own.must_be_new = true;
	if (!tenant_dir_region(dir, t->name, t->path, sizeof(t->path))) {
		snprintf(out_error, error_bytes, "the path of the directory %s is too long", dir);
		return -ENAMETOOLONG;
	}
	rc = region_open(t->path, &own, &region, &err);
	if (rc == -EBUSY)
		snprintf(out_error, error_bytes,
			 "the name '%s' is taken by a living tenant; choose another one, or end it "
			 "(`ration ps` shows it)",
			 t->name);
	else if (rc < 0)
		snprintf(out_error, error_bytes, "%s", err.text);
	if (rc < 0)
		return rc;
	close_to_others(region.fd);
	rc = slot_keep(&region, &t->keeper);
	if (rc < 0)
		snprintf(out_error, error_bytes, "region %s cannot be kept (%s)", t->path,
			 strerror(-rc));
	region_settle(&region);
	region_close(&region);
	return rc;
}

int tenant_make(const char *name, const char *command, const struct region_setup *setup,
		struct tenant *t, char *out_error, size_t error_bytes)
{
	char dir[TENANT_DIR_BYTES];
	int rc = tenant_dir_open(TENANT_DIR_MAKE, dir, out_error, error_bytes);

	if (rc < 0)
		return rc;
	if (name) {
		snprintf(t->name, sizeof(t->name), "%s", name);
		return create(dir, setup, t, out_error, error_bytes);
	}
	/* The process id is unique here, but the directory may be shared with other pid namespaces. */
	for (int i = 0; i < NAME_TRIES; i++) {
		tenant_dir_make_name(command, (unsigned)getpid(), t->name, sizeof(t->name));
		if (i > 0)
			snprintf(t->name + strlen(t->name), sizeof(t->name) - strlen(t->name),
				 "-%d", i + 1);
		rc = create(dir, setup, t, out_error, error_bytes);
		if (rc != -EBUSY)
			break;
	}
	return rc;
}

void tenant_end(const struct tenant *t)
{
	char dir[TENANT_DIR_BYTES], ignored[256];

	tenant_dir_remove(t->path, false);
	if (tenant_dir_open(TENANT_DIR_FIND, dir, ignored, sizeof(ignored)) == 0)
		tenant_dir_clean(dir);
}
