/* The machine's file: created once by many, refused where it is not ours, set up anew when free. */
#include "machine_file.h"
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { STARTERS = 24, SKIPPED = 77 };

struct stage {
	_Atomic uint32_t go;
	_Atomic uint32_t opened;
	_Atomic uint32_t leave;
	_Atomic uint32_t counts[MACHINE_DEVICES + 1]; /* starters that saw so many devices */
	_Atomic uint32_t in_slot[MACHINE_PROCESSES];
};

struct starter {
	struct stage *stage;
	const char *config;
};

static int setup(void **state)
{
	place_make(NULL);
	*state = place_shared(sizeof(struct stage));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(place_path());
	rmdir(place_path());
	return 0;
}

static int start(void *arg)
{
	struct starter *starter = arg;
	struct stage *stage = starter->stage;

	setenv("RATION_SIM", starter->config, 1);
	if (!place_await(&stage->go, 1) || machine_open())
		return 1;
	atomic_fetch_add(&stage->counts[machine_count()], 1);
	atomic_fetch_add(&stage->in_slot[machine_self()->slot], 1);
	atomic_fetch_add(&stage->opened, 1);
	return place_await(&stage->leave, 1) ? 0 : 2;
}

/* Starts STARTERS processes at once, by turns with one of two configurations. */
static void start_all(struct stage *stage, const char *config, const char *other)
{
	pid_t pids[STARTERS];

	for (int k = 0; k < STARTERS; k++) {
		struct starter starter = { stage, k % 2 ? config : other };

		pids[k] = place_start(start, &starter);
	}
	atomic_store(&stage->go, 1);
	assert_true(place_await(&stage->opened, STARTERS));
	atomic_store(&stage->leave, 1);
	for (int k = 0; k < STARTERS; k++)
		assert_int_equal(place_wait(pids[k]), 0);
	for (int slot = 0; slot < MACHINE_PROCESSES; slot++)
		assert_true(atomic_load(&stage->in_slot[slot]) <= 1);
}

static void test_many_create_at_once(void **state)
{
	struct stage *stage = *state;

	start_all(stage, "count=3", "count=3");
	assert_int_equal(atomic_load(&stage->counts[3]), STARTERS);
}

static void test_one_configuration_wins(void **state)
{
	struct stage *stage = *state;

	start_all(stage, "count=3", "count=5");
	assert_int_equal(atomic_load(&stage->counts[3]) + atomic_load(&stage->counts[5]), STARTERS);
	assert_true(!atomic_load(&stage->counts[3]) || !atomic_load(&stage->counts[5]));
}

/* Opens the machine and says how many devices it has, or -errno, as an exit status. */
static int open_and_count(void *arg)
{
	int err;

	if (arg)
		setenv("RATION_SIM", arg, 1);
	err = machine_open();
	return err ? -err : machine_count();
}

static int hold_open(void *arg)
{
	struct stage *stage = arg;

	setenv("RATION_SIM", "count=4", 1);
	if (machine_open())
		return 1;
	atomic_store(&stage->opened, 1);
	return place_await(&stage->leave, 1) ? 0 : 2;
}

static void test_living_machine_stays(void **state)
{
	struct stage *stage = *state;
	char two[] = "count=2";
	pid_t pid = place_start(hold_open, stage);

	assert_true(place_await(&stage->opened, 1));
	assert_int_equal(place_run(open_and_count, two), 4);
	atomic_store(&stage->leave, 1);
	assert_int_equal(place_wait(pid), 0);
	assert_int_equal(place_run(open_and_count, two), 2);
}

static int take_some(void *arg)
{
	(void)arg;
	return machine_open() || machine_take(0, 1 << 20);
}

static int look_at_used(void *arg)
{
	(void)arg;
	return machine_open() || machine_used(0) || machine_count() != 1;
}

static void test_nothing_is_left_of_the_dead(void **state)
{
	(void)state;
	assert_int_equal(place_run(take_some, NULL), 0);
	assert_int_equal(place_run(look_at_used, NULL), 0);
}

static void write_file(const void *bytes, size_t len)
{
	int fd = open(place_path(), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	close(fd);
}

static void test_strange_file_is_refused_and_kept(void **state)
{
	static const char text[] = "something that somebody wrote";
	char now[sizeof(text)] = "";
	int fd;

	(void)state;
	write_file(text, sizeof(text));
	assert_int_equal(place_run(open_and_count, NULL), EMEDIUMTYPE);
	fd = open(place_path(), O_RDONLY);
	assert_int_equal(read(fd, now, sizeof(now)), sizeof(text));
	close(fd);
	assert_memory_equal(now, text, sizeof(text));
}

static void test_half_made_file_is_made(void **state)
{
	static const char zeros[1000];
	uint64_t magic = MACHINE_MAGIC;

	(void)state;
	write_file(zeros, 0);
	assert_int_equal(place_run(open_and_count, NULL), 1);
	write_file(zeros, sizeof(zeros));
	assert_int_equal(place_run(open_and_count, NULL), 1);
	write_file(&magic, sizeof(magic)); /* ours, and nothing behind the magic is right */
	assert_int_equal(place_run(open_and_count, NULL), 1);
}

static void test_no_regular_file(void **state)
{
	(void)state;
	assert_int_equal(mkdir(place_path(), 0700), 0);
	assert_int_equal(place_run(open_and_count, NULL), EISDIR);
	rmdir(place_path());
	assert_int_equal(symlink("/dev/null", place_path()), 0);
	assert_int_equal(place_run(open_and_count, NULL), ELOOP);
	unlink(place_path());
	assert_int_equal(mkfifo(place_path(), 0600), 0);
	assert_int_equal(place_run(open_and_count, NULL), ENOTSUP);
}

static int open_with_small_limit(void *arg)
{
	struct rlimit limit = { 4096, 4096 };

	(void)arg;
	setrlimit(RLIMIT_FSIZE, &limit);
	return -machine_open();
}

static void test_file_size_limit(void **state)
{
	(void)state;
	assert_int_equal(place_run(open_with_small_limit, NULL), EFBIG);
}

static int open_on_full_disk(void *arg)
{
	(void)arg;
	if (!place_unshare(CLONE_NEWNS) || mount("ration", "/dev/shm", "tmpfs", 0, "size=64k"))
		return SKIPPED;
	return -machine_open();
}

static void test_full_disk(void **state)
{
	int status = place_run(open_on_full_disk, NULL);

	(void)state;
	if (status == SKIPPED)
		skip();
	assert_int_equal(status, ENOSPC);
}

static int count_and_open_after_failure(void *arg)
{
	(void)arg;
	setenv("RATION_SIM", "count=zero", 1);
	if (machine_open() != -EINVAL || machine_count() || machine_device(0))
		return 1;
	setenv("RATION_SIM", "count=2", 1);
	if (machine_open() || machine_open() || machine_count() != 2)
		return 2;
	return machine_device(1) && !machine_device(2) && !machine_device(-1) ? 0 : 3;
}

static void test_open_again_after_failure(void **state)
{
	(void)state;
	assert_int_equal(place_run(count_and_open_after_failure, NULL), 0);
}

static int open_by_relative_path(void *arg)
{
	(void)arg;
	if (chdir("/dev/shm"))
		return 1;
	setenv("RATION_SIM_FILE", strrchr(place_path(), '/') + 1, 1);
	if (machine_open() || chdir("/"))
		return 2;
	setenv("RATION_SIM_FILE", place_path(), 1);
	if (place_run(take_some, NULL))
		return 3;
	return machine_used(0) ? 4 : 0; /* it finds the file from its new folder */
}

static void test_relative_path(void **state)
{
	(void)state;
	assert_int_equal(place_run(open_by_relative_path, NULL), 0);
}

static int open_without_stdio(void *arg)
{
	struct stat st;

	(void)arg;
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	if (machine_open() || machine_take(0, 1))
		return 1;
	for (int fd = 0; fd < 3; fd++) {
		if (!fstat(fd, &st))
			return 2;
	}
	return 0;
}

static void test_closed_stdio_stays_closed(void **state)
{
	(void)state;
	assert_int_equal(place_run(open_without_stdio, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_many_create_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_configuration_wins, setup, teardown),
		cmocka_unit_test_setup_teardown(test_living_machine_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_is_left_of_the_dead, setup, teardown),
		cmocka_unit_test_setup_teardown(test_strange_file_is_refused_and_kept, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_half_made_file_is_made, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_regular_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_size_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_again_after_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(test_relative_path, setup, teardown),
		cmocka_unit_test_setup_teardown(test_closed_stdio_stays_closed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
