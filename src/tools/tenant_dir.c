#include "tools/tenant_dir.h"

#include "base/clock.h"
#include "base/sys.h"
#include "shm/lock.h"
#include "shm/region.h"
#include "tools/region_list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REGION_SUFFIX ".region"

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

/* Refuses a directory in which somebody else could exchange our files. */
static int check_ours(const char *path, mode_t forbidden, const char **out_what)
{
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
	if (access(path, W_OK | X_OK) < 0) {
		*out_what = "cannot be written";
		return -errno;
	}
	return 0;
}

static int use(enum tenant_dir_mode how, const char *path, mode_t mode, char *out_error,
	       size_t error_bytes)
{
	const char *what = "cannot be made";
	int rc = make(how, path, mode);

	if (rc == 0)
		rc = check_ours(path, mode == 0700 ? 0077 : 0022, &what);
	if (rc < 0)
		snprintf(
			out_error, error_bytes,
			"the directory %s for the tenants' files %s (%s); name another one in RATION_DIR",
			path, what, strerror(-rc));
	return rc;
}

/* The directory that the user named: whose it is is the user's affair. */
static int use_named(enum tenant_dir_mode how, const char *path, char out_path[TENANT_DIR_BYTES],
		     char *out_error, size_t error_bytes)
{
	char full[PATH_MAX];
	struct stat st;
	int rc = make(how, path, 0700);

	if (rc == 0 && (!realpath(path, full) || stat(full, &st) < 0))
		rc = -errno;
	if (rc == 0 && !S_ISDIR(st.st_mode))
		rc = -ENOTDIR;
	if (rc == 0 && access(full, W_OK | X_OK) < 0)
		rc = -errno;
	if (rc == 0 && strlen(full) >= TENANT_DIR_BYTES)
		rc = -ENAMETOOLONG;
	if (rc < 0) {
		snprintf(
			out_error, error_bytes,
			"RATION_DIR is '%s', which cannot be used (%s); give a directory that can be "
			"written",
			path, strerror(-rc));
		return rc;
	}
	memcpy(out_path, full, strlen(full) + 1);
	return 0;
}

int tenant_dir_open(enum tenant_dir_mode how, char out_path[TENANT_DIR_BYTES], char *out_error,
		    size_t error_bytes)
{
	const char *named = getenv("RATION_DIR"), *runtime = getenv("XDG_RUNTIME_DIR");

	if (named && *named)
		return use_named(how, named, out_path, out_error, error_bytes);
	if (geteuid() == 0) {
		snprintf(out_path, TENANT_DIR_BYTES, "/run/ration");
		if (use(how, out_path, 0755, out_error, error_bytes) == 0)
			return 0;
	}
	if (runtime && *runtime == '/' &&
	    snprintf(out_path, TENANT_DIR_BYTES, "%s/ration", runtime) < TENANT_DIR_BYTES &&
	    use(how, out_path, 0700, out_error, error_bytes) == 0)
		return 0;
	snprintf(out_path, TENANT_DIR_BYTES, "/tmp/ration-%u", (unsigned)geteuid());
	return use(how, out_path, 0700, out_error, error_bytes);
}

bool tenant_dir_region(const char *dir, const char *name, char *out_path, size_t path_bytes)
{
	int n = snprintf(out_path, path_bytes, "%s/%s" REGION_SUFFIX, dir, name);

	return n > 0 && (size_t)n < path_bytes;
}

const char *tenant_dir_check_name(const char *name)
{
	if (!*name)
		return "is empty; give letters, digits and . _ -";
	if (strlen(name) >= RATION_NAME_BYTES)
		return "is too long; at most 63 characters";
	if (name[strspn(name, name_letters)])
		return "has a character that a name cannot have; letters, digits and . _ - are right";
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

/*
 * Opens a region file for removal: no link, no fifo, nothing that is not a region. One whose magic
 * is not written yet is a region too: its maker died, or is about to lock it.
 */
static int open_region(const char *path, struct stat *out_stat)
{
	int fd = region_fd_up(open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
	int32_t magic = 0;

	if (fd < 0)
		return -errno;
	if (sys_fstat(fd, out_stat) < 0 || !S_ISREG(out_stat->st_mode) ||
	    out_stat->st_size > (off_t)RATION_FILE_BYTES ||
	    pread(fd, &magic, sizeof(magic), 0) < 0 || (magic != HAMI_MAGIC && magic != 0)) {
		close(fd);
		return -ENOTUNIQ;
	}
	return fd;
}

int tenant_dir_remove(const char *path, bool keeper)
{
	int64_t bytes = keeper ? RATION_LOCK_KEEPER + 1 - RATION_LOCK_SLOT : HAMI_SLOTS;
	struct stat opened, named;
	int fd = open_region(path, &opened), rc;

	if (fd < 0)
		return fd;
	/* Who attaches holds this lock, and looks after taking it whether the file still has a name. */
	rc = lock_wait(fd, 0, HAMI_REGION_BYTES, NSEC_PER_SEC);
	if (rc < 0)
		goto out_close;
	rc = lock_held(fd, RATION_LOCK_SLOT, bytes, NULL);
	if (rc > 0)
		rc = -EBUSY;
	if (rc < 0)
		goto out_close;
	if (lstat(path, &named) < 0)
		rc = -errno;
	else if (named.st_dev != opened.st_dev || named.st_ino != opened.st_ino)
		rc = -ESTALE;
	else if (unlink(path) < 0)
		rc = -errno;
out_close:
	close(fd);
	return rc;
}

/* Asks without a lock first: a file in use costs no wait. */
static bool looks_dead(const char *path)
{
	struct stat st;
	int fd = open_region(path, &st);
	bool dead;

	if (fd < 0)
		return false;
	dead = lock_held(fd, 0, RATION_LOCK_KEEPER + 1, NULL) == 0;
	close(fd);
	return dead;
}

void tenant_dir_clean(const char *dir)
{
	struct region_list list;

	if (region_list_directory(dir, &list) < 0)
		return;
	for (size_t i = 0; i < list.count; i++)
		if (looks_dead(list.entries[i].path))
			tenant_dir_remove(list.entries[i].path, true);
	region_list_free(&list);
}
