/*
 * The directory in which the tenants of `ration run` stand (tools/tenant_place.h).
 *
 *   $RATION_DIR              if set
 *   /run/ration              for root
 *   $XDG_RUNTIME_DIR/ration  for others
 *   /tmp/ration-UID          else; ours and no link
 *
 * Mode 0711 for root, 0700 for others.
 */
#pragma once

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

/* As that, of the last of these directories, whatever is set. */
int tenant_dir_last(enum tenant_dir_mode mode, char out_path[TENANT_DIR_BYTES], char *out_error,
		    size_t error_bytes);

/* NULL when `name` is good for a tenant, else what is wrong and what would be right. */
const char *tenant_dir_check_name(const char *name);

/* Makes a name out of a command and a number: the letters that a name may have, shortened. */
void tenant_dir_make_name(const char *command, unsigned number, char *out_name, size_t name_bytes);
