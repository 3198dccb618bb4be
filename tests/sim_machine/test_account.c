/* Memory of a device is never given out twice and comes back from the dead. */
#include "machine_file.h"
#include "place.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define SIZE_BYTES (64 * MIB)

enum { WORKERS = 6, THREADS = 2, ROUNDS = 40, PIECE_MAX_BYTES = 8 << 20 };

/*
 * Shared with the children. A worker's two words are written by itself, between its operations, and by
 * who starts it.
 */
struct stage {
	_Atomic uint32_t ready;
	_Atomic uint32_t is_paused;
	_Atomic uint64_t refused;
	struct {
		_Atomic uint32_t paused_threads;
		_Atomic uint64_t held_bytes;
	} worker[WORKERS];
};

struct worker {
	struct stage *stage;
	int number;
	unsigned seed;
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

static int take_and_wait(void *arg)
{
	struct stage *stage = arg;

	if (machine_open() || machine_take(0, 40 * MIB))
		return 1;
	machine_set_context(0, true);
	atomic_store(&stage->ready, 1);
	pause();
	return 1;
}

static int check_limits(void *arg)
{
	(void)arg;
	if (machine_open())
		return 1;
	if (machine_take(0, 0) || machine_take(0, SIZE_BYTES) || machine_used(0) != SIZE_BYTES)
		return 2;
	if (machine_take(0, 1) != -ENOMEM || machine_take(0, UINT64_MAX) != -ENOMEM)
		return 3;
	machine_give(0, MIB);
	if (machine_take(0, MIB + 1) != -ENOMEM || machine_take(0, MIB))
		return 4;
	machine_give(0, UINT64_MAX); /* more than it holds: all that it holds */
	if (machine_used(0))
		return 5;
	if (machine_take(1, 1) != -ENODEV || machine_take(-1, 1) != -ENODEV || machine_used(1))
		return 6;
	return 0;
}

static void test_limits(void **state)
{
	(void)state;
	assert_int_equal(place_run(check_limits, NULL), 0);
}

static int look_at_killed(void *arg)
{
	struct machine_process process[2];
	struct stage *stage = arg;
	pid_t pid;

	if (machine_open())
		return 1;
	pid = place_start(take_and_wait, stage);
	if (!place_await(&stage->ready, 1))
		return 2;
	if (machine_used(0) != 40 * MIB || machine_take(0, 30 * MIB) != -ENOMEM)
		return 3;
	if (machine_processes(0, process, 2) != 1 || process[0].pid != (uint32_t)pid ||
	    process[0].used_bytes != 40 * MIB || !process[0].has_context)
		return 4;
	place_kill(pid);
	if (machine_take(0, SIZE_BYTES))
		return 5;
	machine_give(0, SIZE_BYTES);
	return machine_used(0) || machine_processes(0, process, 2) ? 6 : 0;
}

static void test_killed_process_gives_back(void **state)
{
	assert_int_equal(place_run(look_at_killed, *state), 0);
}

/* Dies inside the lock, having changed its share and not the sum. */
static int die_half_done(void *arg)
{
	(void)arg;
	if (machine_open() || machine_take(0, 3 * MIB))
		return 1;
	machine_lock(0, -1);
	atomic_fetch_add(&machine_self()->file->slot[machine_self()->slot].share[0].used_bytes,
			 5 * MIB);
	raise(SIGKILL);
	return 1;
}

static int survive_dead_owner(void *arg)
{
	(void)arg;
	if (machine_open() || machine_take(0, MIB))
		return 1;
	if (place_run(die_half_done, NULL) != 128 + SIGKILL)
		return 2;
	if (machine_take(0, 10 * MIB) || machine_used(0) != 11 * MIB)
		return 3;
	machine_give(0, 11 * MIB);
	return machine_used(0) ? 4 : 0;
}

static void test_dead_owner_of_lock(void **state)
{
	(void)state;
	assert_int_equal(place_run(survive_dead_owner, NULL), 0);
}

/* A new process gets the dead owner's slot, and with it its name in the lock. */
static int move_into_dead_slot(void *arg)
{
	(void)arg;
	return machine_open() || machine_take(0, 10 * MIB) || machine_used(0) != 10 * MIB;
}

static void test_slot_of_dead_owner_is_reused(void **state)
{
	(void)state;
	assert_int_equal(place_run(die_half_done, NULL), 128 + SIGKILL);
	assert_int_equal(place_run(move_into_dead_slot, NULL), 0);
}

static void note(struct worker *worker, uint64_t bytes)
{
	atomic_fetch_add(&worker->stage->worker[worker->number].held_bytes, bytes);
}

static void wait_while_paused(struct worker *worker)
{
	_Atomic uint32_t *paused = &worker->stage->worker[worker->number].paused_threads;

	if (!atomic_load(&worker->stage->is_paused))
		return;
	atomic_fetch_add(paused, 1);
	while (atomic_load(&worker->stage->is_paused))
		usleep(100);
	atomic_fetch_sub(paused, 1);
}

static void *take_and_give(void *arg)
{
	struct worker *worker = arg;
	unsigned seed = worker->seed;
	uint64_t held_bytes = 0;

	for (;;) {
		uint64_t bytes = (uint64_t)rand_r(&seed) % PIECE_MAX_BYTES + 1;

		wait_while_paused(worker);
		if (rand_r(&seed) % 2 && held_bytes) {
			if (bytes > held_bytes)
				bytes = held_bytes;
			machine_give(0, bytes);
			held_bytes -= bytes;
			note(worker, -bytes);
		} else if (!machine_take(0, bytes)) {
			held_bytes += bytes;
			note(worker, bytes);
		} else {
			atomic_fetch_add(&worker->stage->refused, 1);
		}
	}
	return NULL;
}

static int work(void *arg)
{
	struct worker *worker = arg;
	struct worker second = *worker;
	pthread_t thread;

	second.seed ^= 0x5555;
	if (machine_open() || pthread_create(&thread, NULL, take_and_give, &second))
		return 1;
	take_and_give(worker);
	return 1;
}

/* Everybody stands still between two operations: the books must agree to the byte. */
static int audit(struct stage *stage, const pid_t pids[WORKERS])
{
	struct machine_process list[WORKERS + 1];
	uint64_t sum_bytes = 0, noted_bytes = 0;
	int count, result = 0;

	atomic_store(&stage->is_paused, 1);
	for (int k = 0; k < WORKERS; k++) {
		if (!place_await(&stage->worker[k].paused_threads, THREADS))
			result = 10;
	}
	count = machine_processes(0, list, WORKERS + 1);
	for (int k = 0; k < WORKERS; k++)
		noted_bytes += atomic_load(&stage->worker[k].held_bytes);
	for (int n = 0; n < count && n <= WORKERS; n++) {
		sum_bytes += list[n].used_bytes;
		for (int k = 0; k < WORKERS; k++) {
			if (list[n].pid == (uint32_t)pids[k] &&
			    list[n].used_bytes != atomic_load(&stage->worker[k].held_bytes))
				result = 11;
		}
	}
	if (count > WORKERS || sum_bytes != machine_used(0) || sum_bytes != noted_bytes ||
	    sum_bytes > SIZE_BYTES)
		result = 12;
	atomic_store(&stage->is_paused, 0);
	return result;
}

/* The one before it, which is dead, may have been paused. */
static pid_t start_worker(struct stage *stage, int number, unsigned seed)
{
	struct worker worker = { stage, number, seed };

	atomic_store(&stage->worker[number].held_bytes, 0);
	atomic_store(&stage->worker[number].paused_threads, 0);
	return place_start(work, &worker);
}

static int kill_at_random(void *arg)
{
	struct stage *stage = arg;
	pid_t pids[WORKERS];
	unsigned seed = 1;
	int result = 0;

	if (machine_open())
		return 1;
	for (int k = 0; k < WORKERS; k++)
		pids[k] = start_worker(stage, k, (unsigned)k);
	for (int round = 0; round < ROUNDS && !result; round++) {
		int victim = rand_r(&seed) % WORKERS;

		for (int look = 0; look < 50; look++) {
			if (machine_used(0) > SIZE_BYTES)
				result = 2;
		}
		usleep((unsigned)rand_r(&seed) % 3000);
		place_kill(pids[victim]);
		pids[victim] = start_worker(stage, victim, (unsigned)rand_r(&seed));
		if (round % 4 == 3)
			result = audit(stage, pids);
	}
	for (int k = 0; k < WORKERS; k++)
		place_kill(pids[k]);
	if (result)
		return result;
	if (machine_used(0) || machine_take(0, SIZE_BYTES))
		return 3;
	return atomic_load(&stage->refused) ? 0 : 4; /* the size was met at all */
}

static void test_random_kills(void **state)
{
	assert_int_equal(place_run(kill_at_random, *state), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_process_gives_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead_owner_of_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slot_of_dead_owner_is_reused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_random_kills, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
