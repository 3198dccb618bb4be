#include "tools/region_list.h"

#include "base/conf.h"
#include "base/sys.h"
#include "tools/tenant_place.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In a directory of `ration run`. */
#define BELOW "/*" TENANT_PLACE_SUFFIX "/*.region"

/* Those directories, of all users; of the last each has its user's number behind that. */
#define OF_USER "/tmp/ration-"
static const char *const tenant_patterns[] = {
	"/run/ration" BELOW,
	"/run/user/*/ration" BELOW,
	OF_USER "[0-9]*" BELOW,
};

/* Where the schedulers' device plugins place a container's region: inside it, and on the node. */
static const char *const scheduler_patterns[] = {
	CONF_DEFAULT_REGION,
	"/usr/local/vgpu/*.cache",
	"/usr/local/vgpu/containers/*/*.cache",
	"/tmp/vgpu/*.cache",
};

enum {
	TENANT_PATTERNS = sizeof(tenant_patterns) / sizeof(*tenant_patterns),
	SCHEDULER_PATTERNS = sizeof(scheduler_patterns) / sizeof(*scheduler_patterns),
};

/* A pattern that matches `path` alone. */
static void escape(const char *path, char *out, size_t out_bytes)
{
	size_t n = 0;

	for (; *path && n + 2 < out_bytes; path++) {
		if (strchr("*?[]\\", *path))
			out[n++] = '\\';
		out[n++] = *path;
	}
	out[n] = '\0';
}

static bool has_file(const struct region_list *list, const struct stat *st)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->entries[i].st_dev == st->st_dev && list->entries[i].st_ino == st->st_ino)
			return true;
	return false;
}

/*
 * False of a file below a directory that begins like a user's and is not: anybody may make such
 * ones, and no `ration run` has.
 */
static bool is_users_own(const char *path)
{
	char dir[sizeof(OF_USER) + 24], expected[sizeof(OF_USER) + 24];
	struct stat st;
	size_t n;

	n = sizeof(OF_USER) - 1 + strcspn(path + sizeof(OF_USER) - 1, "/");
	if (n >= sizeof(dir))
		return false;
	memcpy(dir, path, n);
	dir[n] = '\0';
	if (sys_stat(dir, &st) < 0)
		return false;
	snprintf(expected, sizeof(expected), OF_USER "%u", (unsigned)st.st_uid);
	return !strcmp(dir, expected);
}

static int add_file(struct region_list *list, const char *path, const struct stat *st, bool is_own)
{
	struct region_list_entry *more;

	if (has_file(list, st))
		return 0;
	more = realloc(list->entries, (list->count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	list->entries = more;
	more += list->count;
	more->st_dev = st->st_dev;
	more->st_ino = st->st_ino;
	more->is_own = is_own;
	more->path = strdup(path);
	if (!more->path)
		return -ENOMEM;
	list->count++;
	return 0;
}

static int add_pattern(struct region_list *list, const char *pattern, bool is_own)
{
	/* A directory that was named is what it is, whatever it is called. */
	bool is_anybodys = strncmp(pattern, OF_USER "[", sizeof(OF_USER)) == 0;
	struct stat st;
	glob_t found;
	int rc = 0;

	if (glob(pattern, 0, NULL, &found) != 0)
		return 0;
	for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
		if (sys_stat(found.gl_pathv[i], &st) == 0 &&
		    (!is_anybodys || is_users_own(found.gl_pathv[i])))
			rc = add_file(list, found.gl_pathv[i], &st, is_own);
	globfree(&found);
	return rc;
}

static int add_directory(struct region_list *list, const char *dir, const char *below)
{
	char pattern[2 * PATH_MAX];

	escape(dir, pattern, PATH_MAX);
	strcat(pattern, below);
	return add_pattern(list, pattern, strstr(below, TENANT_PLACE_SUFFIX) != NULL);
}

static int add_named(struct region_list *list, const char *variable, const char *below)
{
	const char *path = getenv(variable);

	return path && *path ? add_directory(list, path, below) : 0;
}

int region_list_all(struct region_list *out_list)
{
	int rc;

	memset(out_list, 0, sizeof(*out_list));
	rc = add_named(out_list, "RATION_REGION", "");
	if (rc == 0)
		rc = add_named(out_list, "RATION_DIR", BELOW);
	if (rc == 0)
		rc = add_named(out_list, "XDG_RUNTIME_DIR", "/ration" BELOW);
	for (int i = 0; rc == 0 && i < TENANT_PATTERNS; i++)
		rc = add_pattern(out_list, tenant_patterns[i], true);
	if (rc == 0)
		rc = add_named(out_list, "CUDA_DEVICE_MEMORY_SHARED_CACHE", "");
	if (rc == 0)
		rc = add_named(out_list, "CONTAINER_VGPU_MOUNT", "/containers/*/*.cache");
	for (int i = 0; rc == 0 && i < SCHEDULER_PATTERNS; i++)
		rc = add_pattern(out_list, scheduler_patterns[i], false);
	if (rc < 0)
		region_list_free(out_list);
	return rc;
}

void region_list_free(struct region_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->entries[i].path);
	free(list->entries);
	list->entries = NULL;
	list->count = 0;
}
