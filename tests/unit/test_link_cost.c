#include "core/link_cost.h"

#include "check.h"
#include "core/heat.h"

#include <pthread.h>

#define MIB (UINT64_C(1) << 20)
/* What the link takes for a MiB. */
#define MIB_NS INT64_C(20972)

static void what_is_unknown_uses_all_once(void **state)
{
	(void)state;
	assert_int_equal(link_cost_weight(1), HEAT_USE);
}

/* Ten times over the link, and 3 ms that it takes anyhow. */
static void what_the_device_takes_anyhow_does_not_count(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		link_cost_learn(2, 3000000, 0);
	for (int i = 0; i < 20; i++)
		link_cost_learn(2, 3000000 + 10 * 64 * MIB_NS, 64 * MIB);
	assert_in_range(link_cost_weight(2), 9 * HEAT_USE, 11 * HEAT_USE);
	/* Another function is another. */
	assert_int_equal(link_cost_weight(3), HEAT_USE);
}

static void a_little_of_something_large_costs_little(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		link_cost_learn(4, MIB_NS, 64 * MIB);
	assert_in_range(link_cost_weight(4), 1, HEAT_USE / 16);
}

static void it_follows(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		link_cost_learn(5, 64 * MIB_NS, 64 * MIB);
	assert_in_range(link_cost_weight(5), HEAT_USE - 2, HEAT_USE + 1);
	for (int i = 0; i < 60; i++)
		link_cost_learn(5, 4 * 64 * MIB_NS, 64 * MIB);
	assert_in_range(link_cost_weight(5), 4 * HEAT_USE - 6, 4 * HEAT_USE + 1);
}

static void odd_figures_are_bounded(void **state)
{
	(void)state;
	link_cost_learn(6, -5, 64 * MIB);
	link_cost_learn(6, 100, 1);
	link_cost_learn(0, 100, 64 * MIB);
	assert_int_equal(link_cost_weight(6), HEAT_USE);
	assert_int_equal(link_cost_weight(0), HEAT_USE);
	link_cost_learn(6, INT64_MAX, 2 * MIB);
	assert_int_equal(link_cost_weight(6), 64 * HEAT_USE);
	link_cost_learn(7, 0, UINT64_MAX);
	assert_int_equal(link_cost_weight(7), 1);
}

/* More than there is room for: those that came first stay known, the others use all once. */
static void a_full_table_learns_no_new_ones(void **state)
{
	unsigned known = 0;

	(void)state;
	for (uint64_t f = 1; f <= 20000; f++)
		link_cost_learn(f << 20 | 1, 8 * 64 * MIB_NS, 64 * MIB);
	for (uint64_t f = 1; f <= 20000; f++) {
		uint32_t weight = link_cost_weight(f << 20 | 1);

		known += weight != HEAT_USE;
		assert_true(weight == HEAT_USE || weight > 7 * HEAT_USE);
	}
	assert_in_range(known, 1000, 4096);
}

static void *learn_and_ask(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t f = (seed * 7919 + i) % 500 + 100000;

		link_cost_learn(f, (int64_t)(f % 7 + 1) * 16 * MIB_NS, 16 * MIB);
		if (link_cost_weight(f) > 8 * HEAT_USE)
			return arg;
	}
	return NULL;
}

static void threads_learn_at_once(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, learn_and_ask, (void *)(i + 1)),
				 0);
	for (int i = 0; i < 4; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_unknown_uses_all_once),
		cmocka_unit_test(what_the_device_takes_anyhow_does_not_count),
		cmocka_unit_test(a_little_of_something_large_costs_little),
		cmocka_unit_test(it_follows),
		cmocka_unit_test(odd_figures_are_bounded),
		cmocka_unit_test(threads_learn_at_once),
		cmocka_unit_test(a_full_table_learns_no_new_ones),
	};

	link_cost_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
