/*
 * A folder of its own for each test, removed after it.
 */
#pragma once

#include "check.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_dir[256];

static int scratch_remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(path);
}

/* Set-up and tear-down of a test. Others may enter the folder, so that another uid can be tried. */
static inline int scratch_make(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(scratch_dir, sizeof(scratch_dir), "%s/ration-unit-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(scratch_dir) && chmod(scratch_dir, 0755) == 0 ? 0 : -1;
}

static inline int scratch_remove(void **state)
{
	(void)state;
	nftw(scratch_dir, scratch_remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return 0;
}

/* A path in the folder. The text lives until the fourth call after. */
static inline const char *scratch_path(const char *name)
{
	static char paths[4][1024];
	static int next;
	char *path = paths[next++ & 3];

	snprintf(path, sizeof(paths[0]), "%s/%s", scratch_dir, name);
	return path;
}

/* Writes a file with these bytes and returns its path. */
static inline const char *scratch_file(const char *name, const void *bytes, size_t n)
{
	const char *path = scratch_path(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
	return path;
}

#define scratch_test(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)
