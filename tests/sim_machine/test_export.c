/* Memory that descriptors keep is in use until the last of them is closed, whoever died. */
#include "machine_export.h"
#include "machine_file.h"
#include "place.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define SIZE_BYTES (64 * MIB)

enum { WORKERS = 4, ROUNDS = 300, PIECES = 4 };

/* Shared with the children. */
struct stage {
	_Atomic uint32_t ready, is_over;
	_Atomic uint64_t held_bytes; /* at least what processes and descriptors have */
};

static int setup(void **state)
{
	place_make("mem=64m");
	*state = place_shared(sizeof(struct stage));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	place_remove();
	return 0;
}

/* A descriptor that keeps `export`, or -1. */
static int new_mark(uint64_t export)
{
	int fd = memfd_create("kept", MFD_CLOEXEC);

	if (fd < 0 || (export && machine_export_mark(fd, export) == 0))
		return fd;
	close(fd);
	return -1;
}

/* More exports one after the other than there are places. */
static int use_all_places(void *arg)
{
	uint64_t kept, export;
	int fd;

	(void)arg;
	if (machine_open() || machine_take(0, 40 * MIB))
		return 1;
	kept = machine_export_new(0, 8 * MIB);
	fd = new_mark(kept);
	if (fd < 0)
		return 2;
	machine_give_exported(0, 8 * MIB, kept);
	for (int i = 0; i < 2 * MACHINE_EXPORTS; i++) {
		export = machine_export_new(0, 0);
		if (!export || export == kept)
			return 3;
		machine_give_exported(0, 0, export);
	}
	if (machine_used(0) != 40 * MIB)
		return 4;
	for (int i = 0; i < MACHINE_EXPORTS - 1; i++)
		if (!machine_export_new(0, 0))
			return 5;
	if (machine_export_new(0, 0))
		return 6;
	close(fd);
	return machine_used(0) == 32 * MIB ? 0 : 7;
}

static void test_places_are_used_again(void **state)
{
	(void)state;
	assert_int_equal(place_run(use_all_places, NULL), 0);
}

static int keep(void *arg)
{
	struct stage *stage = arg;

	prctl(PR_SET_PDEATHSIG, 0);
	atomic_store(&stage->ready, 1);
	return place_await(&stage->is_over, 1) ? 0 : 1;
}

static int export_and_wait(void *arg)
{
	struct stage *stage = arg;
	int fd;

	if (machine_open() || machine_take(0, 40 * MIB))
		return 1;
	fd = new_mark(machine_export_new(0, 30 * MIB));
	if (fd < 0)
		return 2;
	/* The child keeps the descriptor, and nothing else. */
	place_start(keep, stage);
	pause();
	return 1;
}

static int look_at_killed(void *arg)
{
	struct stage *stage = arg;
	pid_t pid;

	if (machine_open())
		return 1;
	pid = place_start(export_and_wait, stage);
	if (!place_await(&stage->ready, 1))
		return 2;
	place_kill(pid);
	if (machine_used(0) != 30 * MIB || machine_take(0, 35 * MIB) != -ENOMEM ||
	    machine_take(0, 34 * MIB))
		return 3;
	if (machine_used(0) != SIZE_BYTES)
		return 4;
	atomic_store(&stage->is_over, 1);
	while (machine_used(0) != 34 * MIB)
		usleep(1000);
	return 0;
}

static void test_killed_exporter_leaves_it(void **state)
{
	assert_int_equal(place_run(look_at_killed, *state), 0);
}

static bool is_within(const struct stage *stage)
{
	return atomic_load(&stage->held_bytes) <= SIZE_BYTES;
}

/* One piece: taken, exported, given back, closed. */
static bool turn_piece_over(struct stage *stage, int *fd, uint64_t *bytes)
{
	uint64_t export;

	if (*fd >= 0) {
		atomic_fetch_sub(&stage->held_bytes, *bytes);
		close(*fd);
		*fd = -1;
	}
	*bytes = ((uint64_t)rand() % 8 + 1) * 2 * MIB;
	if (machine_take(0, *bytes))
		return true;
	atomic_fetch_add(&stage->held_bytes, *bytes);
	if (!is_within(stage))
		return false;
	export = machine_export_new(0, *bytes);
	*fd = new_mark(export);
	machine_give_exported(0, *bytes, export);
	return *fd >= 0;
}

static int work(void *arg)
{
	uint64_t bytes[PIECES] = { 0 };
	int fd[PIECES];

	if (machine_open())
		return 1;
	srand((unsigned)getpid());
	for (int i = 0; i < PIECES; i++)
		fd[i] = -1;
	for (int i = 0; i < ROUNDS; i++)
		if (!turn_piece_over(arg, &fd[i % PIECES], &bytes[i % PIECES]))
			return 2;
	for (int i = 0; i < PIECES; i++)
		if (fd[i] >= 0)
			atomic_fetch_sub(&((struct stage *)arg)->held_bytes, bytes[i]);
	return 0;
}

static int look_at_end(void *arg)
{
	(void)arg;
	return machine_open() || machine_used(0) != 0;
}

static void test_device_is_never_overfull(void **state)
{
	pid_t pid[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		pid[i] = place_start(work, *state);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(place_wait(pid[i]), 0);
	assert_int_equal(place_run(look_at_end, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_places_are_used_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_exporter_leaves_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_device_is_never_overfull, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
