#include "shm/wanted.h"

#include "base/process.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME ".wanted"

/* Constant after wanted_start(). */
struct wanted_state {
	char dir[PATH_MAX]; /* "": none */
	dev_t st_dev;       /* which directory that was */
	ino_t st_ino;
};
PROCESS_STATE(wanted_state, state);

/* The length of DIR, 0 where the region is not in a tenant's directory. */
static size_t dir_bytes(const char *region_path)
{
	const char *name = strrchr(region_path, '/'), *place = name;
	size_t suffix = strlen(TENANT_PLACE_SUFFIX);

	if (!name || (size_t)(name - region_path) < suffix ||
	    memcmp(name - suffix, TENANT_PLACE_SUFFIX, suffix) != 0)
		return 0;
	while (place > region_path && place[-1] != '/')
		place--;
	return (size_t)(place - region_path);
}

void wanted_start(const char *region_path)
{
	size_t bytes = dir_bytes(region_path);
	struct stat st;

	process_wipe_on_fork(&state, sizeof(state));
	state.s.dir[0] = '\0';
	if (!bytes || bytes >= sizeof(state.s.dir))
		return;
	memcpy(state.s.dir, region_path, bytes);
	state.s.dir[bytes] = '\0';
	if (sys_stat(state.s.dir, &st) < 0) {
		state.s.dir[0] = '\0';
		return;
	}
	state.s.st_dev = st.st_dev;
	state.s.st_ino = st.st_ino;
}

/* The directory, if its path leads there: a descriptor or -errno. */
static int open_dir(void)
{
	struct stat st;
	int fd;

	if (!state.s.dir[0])
		return -ENOTSUP;
	fd = open(state.s.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (sys_fstat(fd, &st) == 0 && st.st_dev == state.s.st_dev && st.st_ino == state.s.st_ino)
		return fd;
	close(fd);
	return -ESTALE;
}

static int touch(int dir)
{
	int fd = openat(dir, FILE_NAME,
			O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666);
	int rc;

	if (fd < 0)
		return -errno;
	rc = futimens(fd, NULL) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

int wanted_raise(void)
{
	int held = sys_cancel_hold(), saved = errno, dir = open_dir(), rc = dir;

	if (dir >= 0) {
		rc = touch(dir);
		close(dir);
	}
	sys_cancel_release(held);
	errno = saved;
	return rc;
}

uint64_t wanted_since(void)
{
	char path[PATH_MAX + sizeof(FILE_NAME)];
	struct stat st;
	int saved = errno, rc;

	if (!state.s.dir[0])
		return 0;
	snprintf(path, sizeof(path), "%s%s", state.s.dir, FILE_NAME);
	rc = sys_stat(path, &st);
	errno = saved;
	return rc < 0 ? 0 : (uint64_t)st.st_mtim.tv_sec << 30 | (uint64_t)st.st_mtim.tv_nsec;
}
