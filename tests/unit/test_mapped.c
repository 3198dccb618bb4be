#include "base/mapped.h"

#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIND(...)                                         \
	mapped_find((const char *const[]){ __VA_ARGS__ }, \
		    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void names_of_mapped_files(void **state)
{
	(void)state;
	assert_int_equal(FIND("libcmocka.so"), 0);
	assert_int_equal(FIND("nothing", "libcmocka.so"), 1);
	/* The beginning of the last part, and of nothing else. */
	assert_int_equal(FIND("cmocka", "lib/", "usr", "[heap", "heap", "rw-p"), -ENOENT);
	assert_int_equal(mapped_find(NULL, 0), -ENOENT);
}

/* Which is longer than a name is kept. */
static void a_name_at_the_end_of_a_long_path(void **state)
{
	char path[1200] = "/tmp", text[64];
	void *m;
	int fd;

	(void)state;
	snprintf(text, sizeof(text), "/ration-mapped-%d", (int)getpid());
	strcat(path, text);
	assert_int_equal(mkdir(path, 0700), 0);
	for (int i = 0; i < 5; i++) {
		strcat(path, "/");
		for (int k = 0; k < 200; k++)
			strcat(path, "d");
		assert_int_equal(mkdir(path, 0700), 0);
	}
	strcat(path, "/libmapped.so.1");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(FIND("libmapped.so"), -ENOENT);
	m = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(m != MAP_FAILED);
	assert_int_equal(FIND("libmapped.so"), 0);
	munmap(m, 4096);
	close(fd);
	assert_int_equal(FIND("libmapped.so"), -ENOENT);
	unlink(path);
	for (char *end = strrchr(path, '/'); end > path + 5; end = strrchr(path, '/')) {
		*end = 0;
		rmdir(path);
	}
}

static void files_that_are_open(void **state)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(mapped_has_open("/dev/zer"), 1);
	assert_int_equal(mapped_has_open("/dev/zero/"), 0);
	close(fd);
	assert_int_equal(mapped_has_open("/dev/zer"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_mapped_files),
		cmocka_unit_test(a_name_at_the_end_of_a_long_path),
		cmocka_unit_test(files_that_are_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
