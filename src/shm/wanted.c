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

struct wanted_state {
	char path[PATH_MAX]; /* constant after wanted_start(); "": none */
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

	process_wipe_on_fork(&state, sizeof(state));
	if (bytes && bytes + sizeof(FILE_NAME) <= sizeof(state.s.path))
		snprintf(state.s.path, sizeof(state.s.path), "%.*s%s", (int)bytes, region_path,
			 FILE_NAME);
}

bool wanted_raise(void)
{
	int held, fd, saved = errno;
	bool is_raised = false;

	if (!state.s.path[0])
		return false;
	held = sys_cancel_hold();
	fd = open(state.s.path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
		  0666);
	if (fd >= 0) {
		is_raised = futimens(fd, NULL) == 0;
		close(fd);
	}
	sys_cancel_release(held);
	errno = saved;
	return is_raised;
}

uint64_t wanted_since(void)
{
	struct stat st;
	int saved = errno, rc;

	if (!state.s.path[0])
		return 0;
	rc = sys_stat(state.s.path, &st);
	errno = saved;
	return rc < 0 ? 0 : (uint64_t)st.st_mtim.tv_sec << 30 | (uint64_t)st.st_mtim.tv_nsec;
}
