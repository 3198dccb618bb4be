#include "base/turn.h"

#include "base/clock.h"
#include "base/sys.h"
#include "fresh.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static struct turn turn;

static void one_has_it(void)
{
	CHECK(turn_take(&turn, 0));
	CHECK_EQ(turn.tid, (unsigned)sys_gettid());
	turn_give(&turn);
	CHECK(turn_take(&turn, 0));
}

/* The same thread again: a signal handler in the middle of it. It does not wait for itself. */
static _Atomic int took;

static void handler(int signo)
{
	(void)signo;
	atomic_store(&took, turn_take(&turn, INT64_MAX / 2));
}

static void a_handler_does_not_wait(void)
{
	CHECK(signal(SIGUSR1, handler) != SIG_ERR);
	CHECK(turn_take(&turn, 0));
	atomic_store(&took, 7);
	raise(SIGUSR1);
	CHECK_EQ(atomic_load(&took), 0);
	turn_give(&turn);
	raise(SIGUSR1);
	CHECK_EQ(atomic_load(&took), 1);
}

static void *try_it(void *arg)
{
	return (void *)(uintptr_t)turn_take(&turn, *(int64_t *)arg);
}

static bool another_thread_gets_it(int64_t wait_ns)
{
	pthread_t thread;
	void *got;

	CHECK(pthread_create(&thread, NULL, try_it, &wait_ns) == 0);
	pthread_join(thread, &got);
	return got != NULL;
}

static void who_waits_gives_up(void)
{
	CHECK(turn_take(&turn, 0));
	CHECK(!another_thread_gets_it(0));
	CHECK(!another_thread_gets_it(20 * NSEC_PER_MSEC));
	CHECK_EQ(turn.tid, (unsigned)sys_gettid());
}

/* A thread ended with it. */
static void the_turn_of_the_dead_is_taken(void)
{
	CHECK(another_thread_gets_it(0));
	CHECK(turn.tid != 0 && turn.tid != (unsigned)sys_gettid());
	CHECK(turn_take(&turn, 60 * NSEC_PER_SEC));
	CHECK_EQ(turn.tid, (unsigned)sys_gettid());
}

enum { THREADS = 4, ROUNDS = 2000 };

static int inside; /* who has the turn */
static uint64_t sum;

static void *take_turns(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(turn_take(&turn, 60 * NSEC_PER_SEC));
		CHECK(inside++ == 0);
		sum++;
		CHECK(--inside == 0);
		turn_give(&turn);
	}
	return NULL;
}

static void threads_take_turns(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, take_turns, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(sum, THREADS * ROUNDS);
	CHECK_EQ(turn.tid, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(one_has_it),         fresh_test(a_handler_does_not_wait),
		fresh_test(who_waits_gives_up), fresh_test(the_turn_of_the_dead_is_taken),
		fresh_test(threads_take_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
