#include "core/gate.h"

#include "base/clock.h"

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_NS (10 * NSEC_PER_SEC)
enum { WORKERS = 8, CLOSES = BUILD_SANITIZED ? 200 : 2000 };

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

static void *work(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		pass_once();
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

/* Threads that come and go while others stay and the gate opens and closes. */
static void nobody_is_inside_a_closed_gate(void **state)
{
	pthread_t workers[WORKERS], passing;

	(void)state;
	start();
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&workers[i], NULL, work, NULL), 0);
	for (int i = 0; i < CLOSES; i++) {
		if (i % 16 == 0)
			assert_int_equal(pthread_create(&passing, NULL, pass_and_end, NULL), 0);
		assert_int_equal(gate_close(WAIT_NS), 0);
		atomic_store(&is_shut, true);
		assert_int_equal(atomic_load(&inside), 0);
		atomic_store(&is_shut, false);
		gate_open();
		if (i % 16 == 0)
			assert_int_equal(pthread_join(passing, NULL), 0);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_join(workers[i], NULL), 0);
	assert_int_equal(atomic_load(&met), 0);
	assert_true(atomic_load(&passes) > 0);
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
	assert_int_equal(gate_close(0), -EBUSY);
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

static void *close_once(void *arg)
{
	*(int *)arg = gate_close(WAIT_NS);
	return NULL;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_inside_a_closed_gate),
		cmocka_unit_test(a_thread_that_stays_inside_is_not_waited_for_longer),
		cmocka_unit_test(who_is_inside_passes_again),
		cmocka_unit_test(threads_that_start_together_are_out_when_they_left),
		cmocka_unit_test(a_fork_child_has_a_gate_of_its_own),
		cmocka_unit_test(a_thread_that_ended_inside_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
