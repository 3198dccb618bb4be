#include "core/gate.h"

#include "base/clock.h"

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_NS (10 * NSEC_PER_SEC)
/* As many closes as fit into this, and so many in any case; `make soak` takes a million. */
#define TRY_NS ((BUILD_SANITIZED ? 1 : 2) * NSEC_PER_SEC)
enum { WORKERS = 16, CLOSES_LEAST = BUILD_SANITIZED ? 200 : 5000, CLOSES_FULL = 1000000 };

static _Atomic int inside, met, stop;
static _Atomic bool is_shut;
static _Atomic unsigned long passes;

static void pass_once(void)
{
	uint32_t was_in = gate_enter();

	atomic_fetch_add(&inside, 1);
	if (atomic_load(&is_shut))
		atomic_fetch_add(&met, 1);
	atomic_fetch_add(&passes, 1);
	atomic_fetch_sub(&inside, 1);
	gate_leave(was_in);
}

/*
 * Stores that miss the cache: the mark of the next entry waits behind them in the processor's
 * buffer, where a closer does not see it yet.
 */
static void delay_the_mark(unsigned *seed)
{
	static _Atomic char far[32 << 20];

	for (int i = 0; i < 8; i++) {
		*seed = *seed * 1664525 + 1013904223;
		atomic_store_explicit(&far[*seed % sizeof(far)], 1, memory_order_relaxed);
	}
}

/* Gives way now and then: with fewer processors than threads the closer would seldom run. */
static void *work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 1; !atomic_load(&stop); i++) {
		delay_the_mark(&seed);
		pass_once();
		if (i % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static void *pass_and_end(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++)
		pass_once();
	return NULL;
}

static void start(void)
{
	atomic_store(&stop, 0);
	atomic_store(&met, 0);
	atomic_store(&inside, 0);
	atomic_store(&passes, 0);
	atomic_store(&is_shut, false);
}

/*
 * Threads go in again after each opening, or nothing would be shut out by the next close. False
 * when they do not.
 */
static bool wait_for_passes(unsigned long before)
{
	int64_t end_ns = clock_now_ns() + WAIT_NS;

	while (atomic_load(&passes) - before < WORKERS) {
		if (clock_now_ns() >= end_ns)
			return false;
		sched_yield();
	}
	return true;
}

/* False when the gate did not close or somebody was inside all the same. */
static bool close_and_open(bool is_with_new_thread)
{
	unsigned long before;
	pthread_t passing;
	bool is_right;

	if (is_with_new_thread)
		assert_int_equal(pthread_create(&passing, NULL, pass_and_end, NULL), 0);
	if (gate_close(WAIT_NS) < 0)
		return false;
	atomic_store(&is_shut, true);
	is_right = atomic_load(&inside) == 0;
	before = atomic_load(&passes);
	sched_yield();
	is_right = is_right && atomic_load(&passes) == before;
	atomic_store(&is_shut, false);
	gate_open();
	is_right = wait_for_passes(before) && is_right;
	if (is_with_new_thread)
		assert_int_equal(pthread_join(passing, NULL), 0);
	return is_right && atomic_load(&met) == 0;
}

/* Threads that come and go while others stay and the gate opens and closes. */
static void nobody_is_inside_a_closed_gate(void **state)
{
	bool is_full = getenv("RATION_SOAK") != NULL, is_right = true;
	int64_t end_ns = clock_now_ns() + TRY_NS;
	pthread_t workers[WORKERS];
	int closes = 0;

	(void)state;
	start();
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&workers[i], NULL, work, (void *)(uintptr_t)i), 0);
	while (is_right &&
	       (is_full ? closes < CLOSES_FULL : closes < CLOSES_LEAST || clock_now_ns() < end_ns))
		is_right = close_and_open(closes++ % 16 == 0);
	atomic_store(&stop, 1);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_join(workers[i], NULL), 0);
	print_message("%d closes under %d threads that went in %lu times\n", closes, WORKERS,
		      atomic_load(&passes));
	assert_true(is_right);
}

static _Atomic int stuck; /* 1: inside, 2: may leave */

static void *stay(void *arg)
{
	uint32_t was_in = gate_enter();

	(void)arg;
	atomic_store(&stuck, 1);
	while (atomic_load(&stuck) != 2)
		clock_sleep_ns(NSEC_PER_MSEC);
	gate_leave(was_in);
	return NULL;
}

static void a_thread_that_stays_inside_is_not_waited_for_longer(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&stuck, 0);
	assert_int_equal(pthread_create(&thread, NULL, stay, NULL), 0);
	while (!atomic_load(&stuck))
		clock_sleep_ns(NSEC_PER_MSEC);
	assert_int_equal(gate_inside(), 1);
	assert_int_equal(gate_close(20 * NSEC_PER_MSEC), -ETIMEDOUT);
	/* It is open again for the rest. */
	start();
	pass_once();
	assert_int_equal(atomic_load(&passes), 1);
	atomic_store(&stuck, 2);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(gate_close(WAIT_NS), 0);
	assert_false(gate_is_wanted());
	assert_int_equal(gate_close(0), -EBUSY);
	assert_true(gate_is_wanted());
	gate_open();
	/* That was then. */
	assert_int_equal(gate_close(WAIT_NS), 0);
	assert_false(gate_is_wanted());
	gate_open();
}

/* A callback in a driver call launches: it must pass, or the closer would wait for ever. */
static void *nest(void *arg)
{
	uint32_t outer = gate_enter();

	(void)arg;
	atomic_store(&stuck, 1);
	while (atomic_load(&stuck) != 2)
		clock_sleep_ns(NSEC_PER_MSEC);
	for (int i = 0; i < 3; i++)
		pass_once();
	gate_leave(outer);
	atomic_store(&stuck, 3);
	return NULL;
}

/* Another may have shut it for a moment. */
static void *close_once(void *arg)
{
	int rc;

	while ((rc = gate_close(WAIT_NS)) == -EBUSY)
		sched_yield();
	*(int *)arg = rc;
	return NULL;
}

static void a_thread_knows_that_it_is_inside(void **unused)
{
	uint32_t was_in, again;

	(void)unused;
	assert_false(gate_has_entered());
	was_in = gate_enter();
	assert_true(gate_has_entered());
	again = gate_enter();
	gate_leave(again);
	assert_true(gate_has_entered());
	gate_leave(was_in);
	assert_false(gate_has_entered());
}

static void who_is_inside_passes_again(void **state)
{
	pthread_t nested, closer;
	int rc = 1;

	(void)state;
	start();
	atomic_store(&stuck, 0);
	assert_int_equal(pthread_create(&nested, NULL, nest, NULL), 0);
	while (atomic_load(&stuck) != 1)
		clock_sleep_ns(NSEC_PER_MSEC);
	assert_int_equal(pthread_create(&closer, NULL, close_once, &rc), 0);
	/* The closer has shut it once a second close is refused. */
	for (;;) {
		int busy = gate_close(0);

		if (busy == -EBUSY)
			break;
		assert_int_equal(busy, -ETIMEDOUT);
		clock_sleep_ns(NSEC_PER_MSEC);
	}
	atomic_store(&stuck, 2);
	assert_int_equal(pthread_join(nested, NULL), 0);
	assert_int_equal(pthread_join(closer, NULL), 0);
	assert_int_equal(rc, 0);
	assert_int_equal(atomic_load(&passes), 3);
	gate_open();
}

/* One try: whether it went in. */
static bool try_once(void)
{
	uint32_t was_in;

	if (!gate_try(&was_in))
		return false;
	gate_leave_try(was_in);
	return true;
}

/* A watched gate is open, and says who watches. */
static void a_watched_gate_is_open_and_says_so(void **state)
{
	uint64_t passed;

	(void)state;
	start();
	pass_once();
	assert_int_equal(gate_word(), GATE_OPEN);
	passed = gate_passes();
	assert_true(try_once());
	assert_true(gate_passes() != passed);
	gate_watch(GATE_METERING, true);
	assert_int_equal(gate_word(), GATE_OPEN | GATE_METERING);
	gate_watch(GATE_FUNCTIONS, true);
	assert_int_equal(gate_word(), GATE_OPEN | GATE_METERING | GATE_FUNCTIONS);
	passed = gate_passes();
	assert_true(try_once());
	assert_true(gate_passes() != passed);
	/* Shut it is to whoever tries; open again it is still watched. */
	assert_int_equal(gate_close(WAIT_NS), 0);
	assert_int_equal(gate_word(), GATE_SHUT);
	passed = gate_passes();
	assert_false(try_once());
	assert_true(gate_passes() == passed);
	assert_int_equal(gate_inside(), 0);
	gate_open();
	assert_int_equal(gate_word(), GATE_OPEN | GATE_METERING | GATE_FUNCTIONS);
	gate_watch(GATE_FUNCTIONS, false);
	pass_once();
	gate_watch(GATE_METERING, false);
	assert_int_equal(gate_word(), GATE_OPEN);
	assert_int_equal(atomic_load(&met), 0);
}

static void a_fork_child_has_a_gate_of_its_own(void **state)
{
	uint32_t was_in;
	int status;
	pid_t pid;

	(void)state;
	pass_once();
	was_in = gate_enter();
	pid = fork();
	if (pid == 0) {
		/* Forked inside: the parent's mark is not the child's. */
		bool is_right = gate_inside() == 0;

		gate_leave(was_in);
		is_right = is_right && gate_close(WAIT_NS) == 0;
		gate_open();
		start();
		pass_once();
		_exit(is_right && atomic_load(&passes) == 1 ? 0 : 1);
	}
	gate_leave(was_in);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

enum { STARTERS = 8, ROUNDS = 100 };
static pthread_barrier_t together;

static void *pass_twice(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&together);
	pass_once();
	pass_once();
	pthread_barrier_wait(&together); /* all are out, and alive */
	pthread_barrier_wait(&together);
	return NULL;
}

/* What threads without a cell do at their first entry must not be taken for one another's. */
static void threads_that_start_together_are_out_when_they_left(void **state)
{
	pthread_t threads[STARTERS];

	(void)state;
	start();
	assert_int_equal(pthread_barrier_init(&together, NULL, STARTERS + 1), 0);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < STARTERS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, pass_twice, NULL), 0);
		pthread_barrier_wait(&together);
		pthread_barrier_wait(&together);
		assert_int_equal(gate_inside(), 0);
		pthread_barrier_wait(&together);
		for (int i = 0; i < STARTERS; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
	}
	pthread_barrier_destroy(&together);
}

/* Its own calls go through, as often as it likes, and keep nobody out of what they shut out. */
static void who_has_closed_it_passes(void **state)
{
	pthread_t thread;
	uint32_t was_in;

	(void)state;
	start();
	assert_int_equal(gate_close(WAIT_NS), 0);
	for (int i = 0; i < 3; i++) {
		assert_false(gate_try(&was_in));
		was_in = gate_enter();
		gate_leave(gate_enter());
		gate_leave(was_in);
	}
	assert_int_equal(pthread_create(&thread, NULL, pass_and_end, NULL), 0);
	clock_sleep_ns(20 * NSEC_PER_MSEC);
	assert_int_equal(atomic_load(&passes), 0);
	/* Nobody closes it twice, not even who has. */
	assert_int_equal(gate_close(0), -EBUSY);
	gate_open();
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&passes), 10);
	assert_true(gate_try(&was_in));
	gate_leave_try(was_in);
	/* It is not taken for one that is inside. */
	assert_int_equal(gate_close(0), 0);
	gate_open();
}

static void *end_inside(void *arg)
{
	(void)arg;
	gate_enter();
	return NULL;
}

static void a_thread_that_ended_inside_is_forgotten(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, end_inside, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(gate_close(WAIT_NS), 0);
	gate_open();
}

static void *pass_in_a_thread(void *arg)
{
	pass_once();
	return arg;
}

/* More threads than there are cells, so that a later one gets an earlier one's. */
static void each_pass_is_told_whoever_had_the_cell_before(void **state)
{
	enum { THREADS = 4200 };

	(void)state;
	start();
	for (int i = 0; i < THREADS; i++) {
		uint64_t before = gate_passes();
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, pass_in_a_thread, NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(gate_passes() != before);
	}
}

static void a_question_is_no_pass(void **state)
{
	uint64_t before, now;
	uint32_t was_in, again;

	(void)state;
	start();
	pass_once();
	assert_true(gate_is_quiet(&before));
	assert_true(before == gate_passes());
	assert_int_equal(GATE_ASK(gate_has_entered()), 1);
	assert_false(gate_has_entered());
	assert_true(gate_is_quiet(&now) && now == before);
	/* Asked from inside, it stays inside; who is inside may do more than ask. */
	was_in = gate_enter();
	assert_false(gate_is_quiet(&now));
	again = gate_enter();
	gate_leave_asked(again);
	assert_true(gate_has_entered());
	assert_false(gate_is_quiet(&now));
	gate_leave(was_in);
	assert_false(gate_has_entered());
	assert_true(gate_is_quiet(&now) && now != before);
	assert_int_equal(gate_close(WAIT_NS), 0);
	gate_open();
}

static _Atomic int enough;

static bool are_enough(void)
{
	return atomic_load(&passes) >= (unsigned long)atomic_load(&enough);
}

static void *pass_for_ever(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		pass_once();
	return NULL;
}

/* A closed gate lets as many pass as it is told, and stays closed. */
static void so_many_may_pass_one_that_is_closed(void **state)
{
	pthread_t threads[4];

	(void)state;
	start();
	assert_int_equal(gate_close(WAIT_NS), 0);
	atomic_store(&passes, 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pass_for_ever, NULL), 0);
	gate_let(1, NULL, WAIT_NS);
	assert_int_equal(gate_wait_out(WAIT_NS), 0);
	assert_int_equal(atomic_load(&passes), 1);
	gate_let(5, NULL, WAIT_NS);
	assert_int_equal(gate_wait_out(WAIT_NS), 0);
	assert_int_equal(atomic_load(&passes), 6);
	/* Or until it is enough; who looked before another had passed may be one more. */
	atomic_store(&enough, 10);
	gate_let(UINT32_MAX, are_enough, WAIT_NS);
	assert_int_equal(gate_wait_out(WAIT_NS), 0);
	assert_in_range(atomic_load(&passes), 10, 13);
	/* Not for ever. */
	atomic_store(&enough, 0);
	gate_let(1, are_enough, WAIT_NS);
	gate_let(0, NULL, NSEC_PER_MSEC);
	assert_in_range(atomic_load(&passes), 10, 13);
	atomic_store(&stop, 1);
	gate_open();
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_inside_a_closed_gate),
		cmocka_unit_test(a_thread_that_stays_inside_is_not_waited_for_longer),
		cmocka_unit_test(a_thread_knows_that_it_is_inside),
		cmocka_unit_test(who_is_inside_passes_again),
		cmocka_unit_test(threads_that_start_together_are_out_when_they_left),
		cmocka_unit_test(who_has_closed_it_passes),
		cmocka_unit_test(a_watched_gate_is_open_and_says_so),
		cmocka_unit_test(each_pass_is_told_whoever_had_the_cell_before),
		cmocka_unit_test(a_question_is_no_pass),
		cmocka_unit_test(so_many_may_pass_one_that_is_closed),
		cmocka_unit_test(a_fork_child_has_a_gate_of_its_own),
		cmocka_unit_test(a_thread_that_ended_inside_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
