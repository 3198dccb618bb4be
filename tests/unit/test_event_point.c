#include "hook/event_point.h"

#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define METER ((struct meter *)(uintptr_t)0x10)
#define OTHER ((struct meter *)(uintptr_t)0x20)

static CUevent event_of(uintptr_t number)
{
	return (CUevent)(number << 4);
}

static void what_was_recorded_last_is_found(void **state)
{
	struct marker_point point = { .life = 7 }, found;
	struct meter *meter = NULL;

	(void)state;
	assert_false(event_point_find(event_of(1), &meter, &found));
	assert_false(event_point_find(NULL, &meter, &found));
	event_point_put(event_of(1), METER, &point);
	point.life = 8;
	event_point_put(event_of(1), OTHER, &point);
	assert_true(event_point_find(event_of(1), &meter, &found));
	assert_ptr_equal(meter, OTHER);
	assert_int_equal(found.life, 8);
	/* Recorded where nothing is measured, or gone. */
	event_point_put(event_of(1), NULL, NULL);
	assert_false(event_point_find(event_of(1), &meter, &found));
}

/* A place that another event has is left alone. */
static void what_is_forgotten_is_its_own(void **state)
{
	struct marker_point point = { .life = 1 }, found;
	struct meter *meter;
	int lost = 0;

	(void)state;
	event_point_put(event_of(5), METER, &point);
	for (uintptr_t i = 6; i < 5000; i++)
		event_point_put(event_of(i), NULL, NULL);
	assert_true(event_point_find(event_of(5), &meter, &found));
	/* More than there are places: the newest are there, and none is taken for another. */
	for (uintptr_t i = 1; i <= 5000; i++) {
		point.life = (uint32_t)i;
		event_point_put(event_of(i), METER, &point);
	}
	for (uintptr_t i = 1; i <= 5000; i++)
		if (!event_point_find(event_of(i), &meter, &found))
			lost++;
		else
			assert_int_equal(found.life, i);
	assert_in_range(lost, 3000, 4700);
}

static void *put_and_find(void *arg)
{
	struct marker_point point = { 0 }, found;
	struct meter *meter;

	for (uintptr_t i = 0; i < 20000; i++) {
		point.life = (uint32_t)(i % 64);
		event_point_put(event_of(1 + i % 64), METER, &point);
		if (event_point_find(event_of(1 + (i * 7) % 64), &meter, &found) &&
		    found.life != (i * 7) % 64)
			*(int *)arg = 1;
	}
	return NULL;
}

static void threads_find_whole_points(void **state)
{
	pthread_t threads[4];
	int wrong[4] = { 0 };

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, put_and_find, &wrong[i]), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(wrong[i], 0);
	}
}

static void a_child_knows_of_none(void **state)
{
	struct marker_point point = { .life = 1 }, found;
	struct meter *meter;
	int status;
	pid_t pid;

	(void)state;
	event_point_init();
	event_point_put(event_of(3), METER, &point);
	pid = fork();
	if (pid == 0)
		_exit(event_point_find(event_of(3), &meter, &found));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(event_point_find(event_of(3), &meter, &found));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_recorded_last_is_found),
		cmocka_unit_test(what_is_forgotten_is_its_own),
		cmocka_unit_test(threads_find_whole_points),
		cmocka_unit_test(a_child_knows_of_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
