#include "tools/install_path.h"

#include "tools/library_check.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined __x86_64__
#define MULTIARCH "x86_64-linux-gnu"
#else
#define MULTIARCH "aarch64-linux-gnu"
#endif

/* From the executable's directory: a build tree first, then PREFIX/lib* for PREFIX/bin/ration. */
static const char *const library_places[] = {
	"libration.so",
	"../lib/ration/libration.so",
	"../lib/libration.so",
	"../lib64/libration.so",
	"../lib64/ration/libration.so",
	"../lib/" MULTIARCH "/libration.so",
	"../lib/" MULTIARCH "/ration/libration.so",
};

static const char *const sim_places[] = {
	"sim/libcuda.so.1",
	"../lib/ration/sim/libcuda.so.1",
	"../lib64/ration/sim/libcuda.so.1",
	"../lib/" MULTIARCH "/ration/sim/libcuda.so.1",
};

enum {
	LIBRARY_PLACES = sizeof(library_places) / sizeof(*library_places),
	SIM_PLACES = sizeof(sim_places) / sizeof(*sim_places),
};

/* The directory of the running executable, without a final slash. */
static int own_directory(char *out_path, size_t path_bytes)
{
	ssize_t n = readlink("/proc/self/exe", out_path, path_bytes - 1);
	char *slash;

	if (n <= 0)
		return n < 0 ? -errno : -ENOENT;
	out_path[n] = '\0';
	slash = strrchr(out_path, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

/* The first of `places` that is there, with its links resolved. */
static int find(const char *const *places, int count, char out_path[PATH_MAX])
{
	char own[PATH_MAX], candidate[2 * PATH_MAX];
	int rc = own_directory(own, sizeof(own));

	if (rc < 0)
		return rc;
	for (int i = 0; i < count; i++) {
		snprintf(candidate, sizeof(candidate), "%s/%s", own, places[i]);
		if (access(candidate, R_OK) == 0 && realpath(candidate, out_path))
			return 0;
	}
	return -ENOENT;
}

static int give(const char *path, const char *cut_at, const char *what, char *out_path,
		size_t path_bytes, char *out_error, size_t error_bytes)
{
	if (strpbrk(path, cut_at) || strlen(path) >= path_bytes) {
		snprintf(out_error, error_bytes,
			 "%s is at '%s', a path that the dynamic linker would cut at a blank or "
			 "colon; move it",
			 what, path);
		return -EINVAL;
	}
	memcpy(out_path, path, strlen(path) + 1);
	return 0;
}

int install_path_library(char *out_path, size_t path_bytes, char *out_error, size_t error_bytes)
{
	const char *named = getenv("RATION_LIB");
	char path[PATH_MAX];
	int rc;

	if (named && *named) {
		if (!realpath(named, path) || access(path, R_OK) < 0) {
			rc = -errno;
			snprintf(out_error, error_bytes,
				 "RATION_LIB is '%s', which cannot be read (%s); give the path of "
				 "libration.so",
				 named, strerror(-rc));
			return rc;
		}
	} else {
		rc = find(library_places, LIBRARY_PLACES, path);
		if (rc < 0) {
			snprintf(out_error, error_bytes,
				 "libration.so is neither beside the command nor under its prefix; "
				 "name it in RATION_LIB");
			return rc;
		}
	}
	rc = give(path, " :\t\n", "libration.so", out_path, path_bytes, out_error, error_bytes);
	return rc < 0 ? rc : library_check(path, out_error, error_bytes);
}

int install_path_sim(char *out_path, size_t path_bytes, char *out_error, size_t error_bytes)
{
	char path[PATH_MAX];
	int rc = find(sim_places, SIM_PLACES, path);

	if (rc < 0) {
		snprintf(out_error, error_bytes,
			 "the software GPU (sim/libcuda.so.1) is neither beside the command nor "
			 "under its prefix in lib/ration/sim");
		return rc;
	}
	*strrchr(path, '/') = '\0';
	return give(path, ":;", "the software GPU", out_path, path_bytes, out_error, error_bytes);
}
