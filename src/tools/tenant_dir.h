/*
 * The directory in which `ration run` keeps the region files of its tenants, NAME.region each.
 *
 *   $RATION_DIR              if set
 *   /run/ration              for root, mode 0755
 *   $XDG_RUNTIME_DIR/ration  else
 *   /tmp/ration-UID          else, mode 0700, ours and no link
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { TENANT_DIR_BYTES = 3072 };

enum tenant_dir_mode {
	TENANT_DIR_MAKE, /* make the directory if it is not there */
	TENANT_DIR_FIND,
};

/*
 * The directory. 0, or -errno with a line in out_error when it cannot be had, or is not ours alone
 * to write.
 */
int tenant_dir_open(enum tenant_dir_mode mode, char out_path[TENANT_DIR_BYTES], char *out_error,
		    size_t error_bytes);

/* Path of the region file of tenant `name`. False when it is too long. */
bool tenant_dir_region(const char *dir, const char *name, char *out_path, size_t path_bytes);

/* NULL when `name` is good for a tenant, else what is wrong and what would be right. */
const char *tenant_dir_check_name(const char *name);

/* Makes a name out of a command and a number: the letters that a name may have, shortened. */
void tenant_dir_make_name(const char *command, unsigned number, char *out_name, size_t name_bytes);

/*
 * Removes the region file unless a process lives in it. With `keeper` true, a `ration run` above it
 * counts as life too; the one that calls does not look for itself. 0, -EBUSY when it lives, -errno.
 */
int tenant_dir_remove(const char *path, bool keeper);

/* Removes the files of the directory in which nobody lives any more. */
void tenant_dir_clean(const char *dir);
