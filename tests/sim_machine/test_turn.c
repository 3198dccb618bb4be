/* Turns: one process at a time, everybody in the end, the dead passed over. */
#include "machine_file.h"
#include "place.h"

#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { PLAYERS = 3, TURNS = 4000, CROWD_TURNS = 20, STREAMS = 4 };

/* A holder that keeps the device longer than this may be passed over while it still executes. */
#define LONG_NS (200 * NSEC_PER_MSEC)

struct stage {
	_Atomic uint32_t ready;
	_Atomic uint32_t stop;
	_Atomic int64_t began_ns[PLAYERS]; /* their kernels, 0: executes none */
	_Atomic uint32_t overlaps;
	_Atomic uint32_t was_expired;
	_Atomic uint32_t kernels[PLAYERS]; /* executed by each */
	_Atomic uint32_t total;
};

struct player {
	struct stage *stage;
	uint32_t number;
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

/*
 * One kernel of about 20 us, whose turn was asked for at asked_ns. Says whether it began while somebody
 * else executed, and neither of them had lost the processor for long.
 */
static bool run_kernel(struct stage *stage, uint32_t me, int64_t asked_ns)
{
	int64_t start_ns = clock_now_ns();
	bool is_overlap = false;

	atomic_store(&stage->began_ns[me], start_ns);
	for (uint32_t k = 0; k < PLAYERS; k++) {
		int64_t began_ns = atomic_load(&stage->began_ns[k]);

		is_overlap |= k != me && began_ns && clock_now_ns() - began_ns < LONG_NS;
	}
	is_overlap &= clock_now_ns() - asked_ns < LONG_NS;
	while (clock_now_ns() - start_ns < 20 * NSEC_PER_USEC)
		;
	atomic_store(&stage->began_ns[me], 0);
	return is_overlap;
}

static int play(void *arg)
{
	struct player *player = arg;
	struct stage *stage = player->stage;

	if (machine_open())
		return 1;
	atomic_fetch_add(&stage->ready, 1);
	if (!place_await(&stage->ready, PLAYERS))
		return 2;
	while (atomic_fetch_add(&stage->total, 1) < TURNS) {
		int64_t asked_ns = clock_now_ns();

		machine_turn_begin(0);
		if (run_kernel(stage, player->number, asked_ns))
			atomic_fetch_add(&stage->overlaps, 1);
		machine_turn_end(0);
		atomic_fetch_add(&stage->kernels[player->number], 1);
	}
	return 0;
}

static void test_one_at_a_time_and_all(void **state)
{
	struct stage *stage = *state;
	pid_t pids[PLAYERS];

	for (uint32_t k = 0; k < PLAYERS; k++) {
		struct player player = { stage, k };

		pids[k] = place_start(play, &player);
	}
	for (int k = 0; k < PLAYERS; k++)
		assert_int_equal(place_wait(pids[k]), 0);
	/* A holder that lost the processor for very long was passed over; that is no error. */
	assert_int_equal(atomic_load(&stage->overlaps), 0);
	for (int k = 0; k < PLAYERS; k++)
		assert_true(atomic_load(&stage->kernels[k]) >= TURNS / PLAYERS / 4);
}

/* Executes for ever and gives way only when it is asked to. */
static int spin_politely(void *arg)
{
	struct stage *stage = arg;

	if (machine_open())
		return 1;
	machine_turn_begin(0);
	atomic_store(&stage->ready, 1);
	while (!atomic_load(&stage->stop)) {
		if (!machine_turn_expired(0))
			continue;
		atomic_fetch_add(&stage->was_expired, 1);
		machine_turn_end(0);
		machine_turn_begin(0);
	}
	machine_turn_end(0);
	return 0;
}

static int take_turns_with_spinner(void *arg)
{
	struct stage *stage = arg;
	pid_t pid;

	if (machine_open())
		return 1;
	pid = place_start(spin_politely, stage);
	if (!place_await(&stage->ready, 1))
		return 2;
	for (int turn = 0; turn < 5; turn++) {
		machine_turn_begin(0);
		machine_turn_end(0);
		usleep(5000); /* the spinner has the device again */
	}
	atomic_store(&stage->stop, 1);
	if (place_wait(pid))
		return 3;
	return atomic_load(&stage->was_expired) ? 0 : 4;
}

static void test_running_kernel_gives_way(void **state)
{
	assert_int_equal(place_run(take_turns_with_spinner, *state), 0);
}

static int begin_and_stay(void *arg)
{
	struct stage *stage = arg;

	if (machine_open())
		return 1;
	machine_turn_begin(0);
	atomic_store(&stage->ready, 1);
	pause();
	return 1;
}

static int pass_over(void *arg)
{
	struct stage *stage = arg;
	pid_t pid;

	if (machine_open())
		return 1;
	pid = place_start(begin_and_stay, stage);
	if (!place_await(&stage->ready, 1))
		return 2;
	place_kill(pid);
	machine_turn_begin(0);
	machine_turn_end(0);
	return 0;
}

static void test_dead_holder_is_passed_over(void **state)
{
	assert_int_equal(place_run(pass_over, *state), 0);
}

static int begin_behind(void *arg)
{
	struct stage *stage = arg;

	if (machine_open())
		return 1;
	atomic_store(&stage->ready, 1);
	machine_turn_begin(0);
	machine_turn_end(0);
	return 0;
}

/* The first in line dies; who comes after it must not wait for it. */
static int pass_over_waiter(void *arg)
{
	struct stage *stage = arg;
	pid_t dead, next;

	if (machine_open())
		return 1;
	machine_turn_begin(0);
	dead = place_start(begin_behind, stage);
	if (!place_await(&stage->ready, 1))
		return 2;
	while (!machine_turn_expired(0))
		usleep(100); /* until it stands in line */
	place_kill(dead);
	atomic_store(&stage->ready, 0);
	next = place_start(begin_behind, stage);
	if (!place_await(&stage->ready, 1))
		return 3;
	machine_turn_end(0);
	return place_wait(next);
}

static void test_dead_waiter_is_passed_over(void **state)
{
	assert_int_equal(place_run(pass_over_waiter, *state), 0);
}

static int pass_over_stopped(void *arg)
{
	struct stage *stage = arg;
	pid_t pid;

	if (machine_open())
		return 1;
	pid = place_start(begin_and_stay, stage);
	if (!place_await(&stage->ready, 1))
		return 2;
	kill(pid, SIGSTOP);
	machine_turn_begin(0);
	machine_turn_end(0);
	place_kill(pid);
	return 0;
}

static void test_stopped_holder_is_passed_over(void **state)
{
	assert_int_equal(place_run(pass_over_stopped, *state), 0);
}

static void *meet_inside(void *arg)
{
	machine_turn_begin(0);
	pthread_barrier_wait(arg);
	machine_turn_end(0);
	return NULL;
}

/* Streams of one process execute beside each other: both must be inside to get out. */
static int two_streams(void *arg)
{
	pthread_barrier_t barrier;
	pthread_t thread;

	(void)arg;
	if (machine_open())
		return 1;
	pthread_barrier_init(&barrier, NULL, 2);
	if (pthread_create(&thread, NULL, meet_inside, &barrier))
		return 2;
	meet_inside(&barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&barrier);
	return 0;
}

static void test_streams_of_one_process(void **state)
{
	(void)state;
	assert_int_equal(place_run(two_streams, NULL), 0);
}

static void *relieve(void *arg)
{
	struct stage *stage = arg;

	while (!atomic_load(&stage->stop)) {
		machine_turn_begin(0);
		if (machine_turn_expired(0))
			atomic_fetch_add(&stage->was_expired, 1);
		run_kernel(stage, 0, 0);
		machine_turn_end(0);
	}
	return NULL;
}

/* Streams that relieve each other without a gap must still let others in. */
static int crowd(void *arg)
{
	struct stage *stage = arg;
	pthread_t thread[STREAMS];

	if (machine_open())
		return 1;
	for (int k = 0; k < STREAMS; k++) {
		if (pthread_create(&thread[k], NULL, relieve, stage))
			return 2;
	}
	atomic_store(&stage->ready, 1);
	for (int k = 0; k < STREAMS; k++)
		pthread_join(thread[k], NULL);
	return 0;
}

static int get_past_crowd(void *arg)
{
	struct stage *stage = arg;
	pid_t pid;

	if (machine_open())
		return 1;
	pid = place_start(crowd, stage);
	if (!place_await(&stage->ready, 1))
		return 2;
	for (int turn = 0; turn < CROWD_TURNS; turn++) {
		machine_turn_begin(0);
		machine_turn_end(0);
	}
	atomic_store(&stage->stop, 1);
	return place_wait(pid);
}

static void test_busy_streams_let_others_in(void **state)
{
	struct stage *stage = *state;

	assert_int_equal(place_run(get_past_crowd, stage), 0);
	/* A slice may end just as a kernel begins: for each stream once a turn, not over and over. */
	assert_true(atomic_load(&stage->was_expired) <= 2 * STREAMS * CROWD_TURNS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_at_a_time_and_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_running_kernel_gives_way, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead_holder_is_passed_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead_waiter_is_passed_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stopped_holder_is_passed_over, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_streams_of_one_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_busy_streams_let_others_in, setup, teardown),
	};

	alarm(110);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
