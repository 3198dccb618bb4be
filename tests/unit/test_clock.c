#include "base/clock.h"

#include "child.h"

#include <pthread.h>
#include <time.h>

static void test_now(void **state)
{
	struct timespec before, after;
	int64_t last, now;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &before);
	last = clock_now_ns();
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_true(last >= before.tv_sec * NSEC_PER_SEC + before.tv_nsec);
	assert_true(last <= after.tv_sec * NSEC_PER_SEC + after.tv_nsec);
	for (int i = 0; i < 1000; i++) {
		now = clock_now_ns();
		assert_true(now >= last);
		last = now;
	}
}

static void test_sleep(void **state)
{
	int64_t start = clock_now_ns();

	(void)state;
	clock_sleep_ns(2 * NSEC_PER_MSEC);
	assert_true(clock_now_ns() - start >= 2 * NSEC_PER_MSEC);
	clock_sleep_ns(0);
	clock_sleep_ns(NSEC_PER_SEC / 1000);
}

static void *sleep_cancelled(void *out_was_awake)
{
	pthread_cancel(pthread_self());
	clock_sleep_ns(NSEC_PER_MSEC);
	*(bool *)out_was_awake = true;
	pthread_testcancel();
	return NULL;
}

/* Who sleeps has begun something: a cancelled thread goes on to its end. */
static void test_sleep_is_no_cancellation_point(void **state)
{
	bool was_awake = false;
	pthread_t thread;
	void *end;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, sleep_cancelled, &was_awake), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_true(was_awake);
	assert_ptr_equal(end, PTHREAD_CANCELED);
}

/*
 * Field 22 of /proc/self/stat, counted from the end of a name that holds no blank or parenthesis.
 */
static unsigned long long own_start(void)
{
	unsigned long long start = 0;
	FILE *f = fopen("/proc/self/stat", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f,
				"%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
				"%*d %*d %*d %*d %*d %*d %llu",
				&start),
			 1);
	fclose(f);
	return start;
}

static void test_process_start(void **state)
{
	unsigned long long start = own_start();
	char name[16] = "";

	(void)state;
	assert_true(start > 0);
	assert_true(clock_process_start((int)getpid()) == start);

	/* The name is the process's own choice. */
	prctl(PR_GET_NAME, name);
	for (int i = 0; i < 4; i++) {
		static const char *const names[] = { ") R 1 1 1", "a b c (((", ")))", "\n\n 7 7" };

		prctl(PR_SET_NAME, names[i]);
		assert_true(clock_process_start((int)getpid()) == start);
	}
	prctl(PR_SET_NAME, name);
}

static void body_wait(void *arg)
{
	(void)arg;
	child_hear();
}

static void test_start_of_others(void **state)
{
	struct child c = child_start(body_wait, NULL);
	pid_t pid = c.pid;

	(void)state;
	assert_true(clock_process_start((int)pid) >= clock_process_start((int)getpid()));
	child_tell(&c, 'x');
	child_end(&c);
	assert_true(clock_process_start((int)pid) == 0);
	assert_true(clock_process_start(0) == 0);
	assert_true(clock_process_start(-1) == 0);
}

static void test_nap(void **state)
{
	int64_t total_ns = 0, last_ns = 0;

	(void)state;
	/* Never shorter than the one before, and never much longer than it was waited. */
	while (total_ns < 10 * NSEC_PER_SEC) {
		int64_t nap_ns = clock_nap_ns(total_ns);

		assert_true(nap_ns >= last_ns);
		assert_true(nap_ns > 0 && nap_ns <= (total_ns > 0 ? total_ns : NSEC_PER_MSEC));
		last_ns = nap_ns;
		total_ns += nap_ns;
	}
	/* However long: it goes on to look. */
	assert_true(clock_nap_ns(INT64_MAX) < NSEC_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_now),
		cmocka_unit_test(test_sleep),
		cmocka_unit_test(test_sleep_is_no_cancellation_point),
		cmocka_unit_test(test_process_start),
		cmocka_unit_test(test_start_of_others),
		cmocka_unit_test(test_nap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
