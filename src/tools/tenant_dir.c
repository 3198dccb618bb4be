#include "tools/tenant_dir.h"

#include <ration/region.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Root's programs may give up root, and must get to their file all the same. */
enum { MODE_OF_ROOT = 0711, MODE_OF_USERS = 0700 };

static mode_t own_mode(void)
{
	return geteuid() == 0 ? MODE_OF_ROOT : MODE_OF_USERS;
}

static const char name_letters[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789._-";

/* Makes the directory. What it was before, and whether it is fit for use, is looked at after. */
static int make(enum tenant_dir_mode how, const char *path, mode_t mode)
{
	if (how == TENANT_DIR_FIND)
		return access(path, F_OK) < 0 ? -errno : 0;
	if (mkdir(path, mode) == 0)
		return chmod(path, mode) < 0 ? -errno : 0; /* whatever the umask */
	return errno == EEXIST ? 0 : -errno;
}

/* Refuses a directory in which somebody else could exchange our files, or a user's find them. */
static int check_ours(const char *path, const char **out_what)
{
	const mode_t forbidden = own_mode() == MODE_OF_ROOT ? 0022 : 0077;
	struct stat st;

	*out_what = "cannot be looked at";
	if (lstat(path, &st) < 0)
		return -errno;
	*out_what = "is no directory";
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	*out_what = "belongs to somebody else";
	if (st.st_uid != geteuid())
		return -EPERM;
	*out_what = "is open to others";
	if (st.st_mode & forbidden)
		return -EPERM;
	*out_what = "cannot be written";
	if (access(path, W_OK | X_OK) < 0)
		return -errno;
	*out_what = "cannot be opened to those who pass through";
	if (own_mode() == MODE_OF_ROOT && (st.st_mode & 0111) != 0111 &&
	    chmod(path, st.st_mode | 0111) < 0)
		return -errno;
	return 0;
}

static int use(enum tenant_dir_mode how, const char *path, char *out_error, size_t error_bytes)
{
	const char *what = "cannot be made";
	int rc = make(how, path, own_mode());

	if (rc == 0)
		rc = check_ours(path, &what);
	if (rc < 0)
		snprintf(out_error, error_bytes,
			 "the directory %s for the tenants' files %s (%s); name another one in "
			 "RATION_DIR",
			 path, what, strerror(-rc));
	return rc;
}

/* The directory that the user named: whose it is is the user's affair. */
static int use_named(enum tenant_dir_mode how, const char *path, char out_path[TENANT_DIR_BYTES],
		     char *out_error, size_t error_bytes)
{
	char full[PATH_MAX];
	struct stat st;
	int rc = make(how, path, own_mode());

	if (rc == 0 && (!realpath(path, full) || stat(full, &st) < 0))
		rc = -errno;
	if (rc == 0 && !S_ISDIR(st.st_mode))
		rc = -ENOTDIR;
	if (rc == 0 && access(full, W_OK | X_OK) < 0)
		rc = -errno;
	if (rc == 0 && strlen(full) >= TENANT_DIR_BYTES)
		rc = -ENAMETOOLONG;
	if (rc < 0) {
		snprintf(out_error, error_bytes,
			 "RATION_DIR is '%s', which cannot be used (%s); give a directory that can "
			 "be written",
			 path, strerror(-rc));
		return rc;
	}
	memcpy(out_path, full, strlen(full) + 1);
	return 0;
}

int tenant_dir_last(enum tenant_dir_mode how, char out_path[TENANT_DIR_BYTES], char *out_error,
		    size_t error_bytes)
{
	snprintf(out_path, TENANT_DIR_BYTES, "/tmp/ration-%u", (unsigned)geteuid());
	return use(how, out_path, out_error, error_bytes);
}

int tenant_dir_open(enum tenant_dir_mode how, char out_path[TENANT_DIR_BYTES], char *out_error,
		    size_t error_bytes)
{
	const char *named = getenv("RATION_DIR"), *runtime = getenv("XDG_RUNTIME_DIR");

	if (named && *named)
		return use_named(how, named, out_path, out_error, error_bytes);
	/* Not root's runtime directory: nobody else gets through it. */
	if (geteuid() == 0) {
		snprintf(out_path, TENANT_DIR_BYTES, "/run/ration");
		if (use(how, out_path, out_error, error_bytes) == 0)
			return 0;
	} else if (runtime && *runtime == '/' &&
		   snprintf(out_path, TENANT_DIR_BYTES, "%s/ration", runtime) < TENANT_DIR_BYTES &&
		   use(how, out_path, out_error, error_bytes) == 0) {
		return 0;
	}
	return tenant_dir_last(how, out_path, out_error, error_bytes);
}

const char *tenant_dir_check_name(const char *name)
{
	if (!*name)
		return "is empty; give letters, digits and . _ -";
	if (strlen(name) >= RATION_NAME_BYTES)
		return "is too long; at most 63 characters";
	if (name[strspn(name, name_letters)])
		return "has a character that a name cannot have; give letters, digits and . _ -";
	if (*name == '.' || *name == '-')
		return "begins with a dot or dash; begin with a letter or digit";
	return NULL;
}

void tenant_dir_make_name(const char *command, unsigned number, char *out_name, size_t name_bytes)
{
	const char *slash = strrchr(command, '/');
	char word[33];
	size_t n = 0;

	for (const char *c = slash ? slash + 1 : command; *c && n < sizeof(word) - 1; c++)
		if (strchr(name_letters, *c) && (n > 0 || (*c != '.' && *c != '-')))
			word[n++] = *c;
	word[n] = '\0';
	snprintf(out_name, name_bytes, "%s-%u", n > 0 ? word : "tenant", number);
}
