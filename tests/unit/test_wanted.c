#include "shm/wanted.h"

#include "fresh.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A tenant's directory in DIR of its own, and the region's path in it. */
static const char *place(const char *tenant)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", scratch_path("dir"), tenant);
	mkdir(scratch_path("dir"), 0700);
	mkdir(path, 0711);
	strcat(path, "/0123.region");
	return path;
}

/* What one tenant says another sees, each time anew. */
static void it_is_seen_by_all_in_the_directory(void)
{
	uint64_t before, after;

	wanted_start(place("a.tenant"));
	CHECK_EQ(wanted_since(), 0);
	CHECK_EQ(wanted_raise(), 0);
	before = wanted_since();
	CHECK(before != 0);
	wanted_start(place("b.tenant"));
	CHECK_EQ(wanted_since(), before);
	/* The clock of files has steps of some milliseconds. */
	do {
		CHECK_EQ(wanted_raise(), 0);
		after = wanted_since();
	} while (after == before);
	wanted_start(place("a.tenant"));
	CHECK_EQ(wanted_since(), after);
}

static void elsewhere_nobody_is_asked(void)
{
	static const char *const paths[] = { "r.region", "/r.region", "/tmp/vgpu/x.cache",
					     "/tmp/tenant/r.region", "" };

	for (unsigned i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		wanted_start(paths[i]);
		CHECK(wanted_raise() == -ENOTSUP);
		CHECK_EQ(wanted_since(), 0);
	}
}

/* What stands in the place of the file is left as it is. */
static void it_follows_no_link_and_waits_for_nothing(void)
{
	struct stat st;
	char file[4096], other[4096];

	wanted_start(place("a.tenant"));
	snprintf(file, sizeof(file), "%s/.wanted", scratch_path("dir"));
	snprintf(other, sizeof(other), "%s/other", scratch_path("dir"));
	CHECK_EQ(symlink(other, file), 0);
	CHECK(wanted_raise() < 0);
	CHECK(lstat(other, &st) < 0);
	CHECK_EQ(unlink(file), 0);
	CHECK_EQ(mkfifo(file, 0600), 0);
	CHECK(wanted_raise() < 0);
	CHECK_EQ(unlink(file), 0);
	CHECK_EQ(mkdir(file, 0700), 0);
	CHECK(wanted_raise() < 0);
}

/* From another root directory: nothing is made in a directory that is not the one. */
static void another_directory_is_left_alone(void)
{
	char path[4096], same[8192], part[8192];
	struct stat st;

	if (geteuid() != 0)
		return;
	snprintf(path, sizeof(path), "%s", place("a.tenant"));
	wanted_start(path);
	CHECK_EQ(wanted_raise(), 0);
	snprintf(same, sizeof(same), "%s%s", scratch_path("root"), path);
	for (char *at = same + strlen(scratch_path("root")); (at = strchr(at, '/')); at++) {
		snprintf(part, sizeof(part), "%.*s", (int)(at - same), same);
		CHECK(mkdir(part, 0700) == 0 || errno == EEXIST);
	}
	snprintf(part, sizeof(part), "%s/.wanted", scratch_path("dir"));
	CHECK(chroot(scratch_path("root")) == 0);
	CHECK(wanted_raise() == -ESTALE);
	CHECK(lstat(part, &st) < 0 && errno == ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(it_is_seen_by_all_in_the_directory),
		fresh_test(elsewhere_nobody_is_asked),
		fresh_test(it_follows_no_link_and_waits_for_nothing),
		fresh_test(another_directory_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
