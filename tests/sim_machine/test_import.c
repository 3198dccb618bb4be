/* Who imported memory keeps it until it gives it up or dies, at whatever point. */
#include "machine_export.h"
#include "machine_file.h"
#include "machine_import.h"
#include "place.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define PIECE (8 * MIB)

enum { ROUNDS = 100, LIFE_US = 2000 };

static int setup(void **state)
{
	place_make("mem=64m");
	*state = place_shared(sizeof(_Atomic uint32_t));
	return 0;
}

static int teardown(void **state)
{
	munmap(*state, sizeof(_Atomic uint32_t));
	place_remove();
	return 0;
}

/* Every entry of the table is free. The last one is left. */
static int fill_table(uint64_t export, uint32_t *out_import)
{
	for (int n = 0; n < MACHINE_IMPORTS; n++)
		if (machine_import_new(export, out_import))
			return 1;
	return machine_import_new(export, &(uint32_t){ 0 }) == -ENOSPC ? 0 : 2;
}

static int use_all_entries(void *arg)
{
	uint64_t export;
	uint32_t import;

	(void)arg;
	if (machine_open() || machine_used(0) || machine_take(0, PIECE))
		return 1;
	export = machine_export_new(0, PIECE);
	if (fill_table(export, &import))
		return 2;
	machine_import_end(import);
	if (machine_import_new(export, &import))
		return 3;
	machine_give_exported(0, PIECE, export);
	return machine_used(0) == PIECE ? 0 : 4;
}

static void test_entries_are_used_again(void **state)
{
	(void)state;
	assert_int_equal(place_run(use_all_entries, NULL), 0);
	assert_int_equal(place_run(use_all_entries, NULL), 0);
}

static int refuse_what_is_gone(void *arg)
{
	uint64_t export;
	uint32_t import;

	(void)arg;
	if (machine_open() || machine_take(0, PIECE))
		return 1;
	export = machine_export_new(0, PIECE);
	if (machine_import_new(export, &import))
		return 2;
	machine_give_exported(0, PIECE, export);
	for (int look = 0; look < 10; look++)
		if (machine_used(0) != PIECE)
			return 3;
	machine_import_end(import);
	for (int look = 0; look < 10; look++)
		if (machine_used(0))
			return 4;
	return machine_import_new(export, &import) == -ESTALE ? 0 : 5;
}

static void test_memory_without_imports_is_gone(void **state)
{
	(void)state;
	assert_int_equal(place_run(refuse_what_is_gone, NULL), 0);
}

struct work {
	_Atomic uint32_t *is_ready;
	uint64_t export;
};

static int import_for_ever(void *arg)
{
	const struct work *work = arg;
	uint32_t import;

	if (machine_open())
		return 1;
	while (!machine_import_new(work->export, &import)) {
		machine_import_end(import);
		atomic_store(work->is_ready, 1);
	}
	return 2;
}

static int kill_importers(void *arg)
{
	struct work work = { .is_ready = arg };
	uint32_t import;
	pid_t pid;

	if (machine_open() || machine_take(0, PIECE))
		return 1;
	work.export = machine_export_new(0, PIECE);
	srand((unsigned)getpid());
	for (int round = 0; round < ROUNDS; round++) {
		atomic_store(work.is_ready, 0);
		pid = place_start(import_for_ever, &work);
		if (!place_await(work.is_ready, 1))
			return 2;
		usleep((useconds_t)(rand() % LIFE_US));
		place_kill(pid);
		if (machine_used(0) != PIECE)
			return 3;
	}
	if (fill_table(work.export, &import))
		return 4;
	for (uint32_t n = 1; n <= MACHINE_IMPORTS; n++)
		machine_import_end(n);
	machine_give_exported(0, PIECE, work.export);
	return machine_used(0) == 0 ? 0 : 5;
}

static void test_killed_importers_leave_nothing(void **state)
{
	assert_int_equal(place_run(kill_importers, *state), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_entries_are_used_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory_without_imports_is_gone, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_killed_importers_leave_nothing, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
