#include "core/means.h"

#include "check.h"

static struct means means;

static int setup(void **state)
{
	(void)state;
	memset(&means, 0, sizeof(means));
	return 0;
}

static void an_unknown_kind_costs_a_millisecond(void **state)
{
	struct means_entry *entry = means_find(&means, 7);

	(void)state;
	assert_false(means_is_known(entry));
	assert_int_equal(means_cost_ns(entry), MEANS_UNKNOWN_NS);
	assert_ptr_equal(means_find(&means, 7), entry);
	assert_ptr_not_equal(means_find(&means, 8), entry);
}

static void the_mean_follows_the_samples(void **state)
{
	struct means_entry *entry = means_find(&means, 7);

	(void)state;
	entry->pending_ns = 1;
	means_learn(entry, 1000);
	assert_true(means_is_known(entry));
	assert_int_equal(entry->pending_ns, 0);
	assert_int_equal(means_cost_ns(entry), 1000);
	means_learn(entry, 3000);
	assert_int_equal(means_cost_ns(entry), 2000);
	for (int i = 0; i < 1000; i++)
		means_learn(entry, 50000);
	assert_in_range(means_cost_ns(entry), 49000, 50000);
	/* Nothing costs nothing. */
	for (int i = 0; i < 10000; i++)
		means_learn(entry, 0);
	assert_in_range(means_cost_ns(entry), 1, 100);
}

static void what_may_wait_goes_for_what_it_takes_without(void **state)
{
	struct means_entry *entry = means_find(&means, 7);

	(void)state;
	entry->may_wait = 1;
	/* The first was a wait of a second. */
	means_learn(entry, 1000000000);
	means_learn(entry, 1000);
	assert_int_equal(means_cost_ns(entry), 1000);
	for (int i = 0; i < 10; i++)
		means_learn(entry, 1000000000);
	assert_in_range(means_cost_ns(entry), 1000, 1200);
	/* It takes longer for good. */
	for (int i = 0; i < 1000; i++)
		means_learn(entry, 3000);
	assert_in_range(means_cost_ns(entry), 2900, 3000);
	means_forget(&means, 7);
	assert_false(means_may_wait(entry));
}

/* It stands until more is known: a lower one, or a sample. */
static void a_bound_is_no_sample(void **state)
{
	struct means_entry *entry = means_find(&means, 7);

	(void)state;
	means_learn_bound(entry, 80000);
	assert_true(means_is_known(entry));
	assert_int_equal(means_cost_ns(entry), 80000);
	entry->pending_ns = 1;
	means_learn_bound(entry, 800000);
	assert_int_equal(entry->pending_ns, 0);
	means_learn_bound(entry, 40000);
	assert_in_range(means_cost_ns(entry), 40000, 60000);
	means_learn(entry, 1000);
	assert_int_equal(means_cost_ns(entry), 1000);
	for (int i = 0; i < 100; i++)
		means_learn_bound(entry, 800000);
	assert_int_equal(means_cost_ns(entry), 1000);
	/* Of what takes less than was thought it is one. */
	means_learn_bound(entry, 500);
	assert_in_range(means_cost_ns(entry), 500, 999);
}

static void what_is_gone_is_unknown_again(void **state)
{
	struct means_entry *entry = means_find(&means, 7);

	(void)state;
	means_learn(entry, 1000);
	means_forget(&means, 7);
	means_forget(&means, 12345);
	assert_ptr_equal(means_find(&means, 7), entry);
	assert_false(means_is_known(entry));
	assert_int_equal(means_cost_ns(entry), MEANS_UNKNOWN_NS);
}

/* More kinds than there is room for: each still gets an entry, and what is measured much stays. */
static void learn_many(struct means_entry *entry, int64_t ns, int times)
{
	for (int i = 0; i < times; i++)
		means_learn(entry, ns);
}

/* What takes as long each time is steady after a while, however long it takes. */
static void what_is_always_as_long_is_steady(void **state)
{
	static const int64_t lengths_ns[] = { 1000, 20000, 5000000 };

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		struct means_entry *entry = means_find(&means, 10 + i);

		learn_many(entry, lengths_ns[i], MEANS_TRUSTED);
		assert_false(means_is_steady(entry));
		means_learn(entry, lengths_ns[i] * 9 / 8);
		assert_true(means_is_steady(entry));
	}
	/* What is behind the key next is not. */
	means_forget(&means, 11);
	assert_false(means_is_steady(means_find(&means, 11)));
}

/* One that differs is forgiven who has long been steady; one in fifty is not, up or down. */
static void what_differs_at_times_is_not_steady(void **state)
{
	struct means_entry *entry = means_find(&means, 7);

	(void)state;
	learn_many(entry, 20000, 1000);
	means_learn(entry, 100000);
	assert_true(means_is_steady(entry));
	means_learn(entry, 5000);
	assert_false(means_is_steady(entry));
	learn_many(entry, 20000, 1000);
	assert_true(means_is_steady(entry));
	for (int i = 0; i < 100; i++) {
		means_learn(entry, 100000);
		learn_many(entry, 20000, 49);
	}
	assert_false(means_is_steady(entry));
	/* That is not held against it for ever. */
	learn_many(entry, 20000, 1300);
	assert_true(means_is_steady(entry));
}

static void a_full_table_gives_the_least_measured_away(void **state)
{
	struct means_entry *kept = means_find(&means, 1);

	(void)state;
	for (int i = 0; i < 100; i++)
		means_learn(kept, 5000);
	for (uint64_t key = 2; key < 20 * MEANS_ENTRIES; key++) {
		struct means_entry *entry = means_find(&means, key * 2654435761u);

		assert_false(means_is_known(entry));
		means_learn(entry, 1000);
	}
	assert_ptr_equal(means_find(&means, 1), kept);
	assert_int_equal(means_cost_ns(kept), 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_unknown_kind_costs_a_millisecond, setup),
		cmocka_unit_test_setup(the_mean_follows_the_samples, setup),
		cmocka_unit_test_setup(what_may_wait_goes_for_what_it_takes_without, setup),
		cmocka_unit_test_setup(a_bound_is_no_sample, setup),
		cmocka_unit_test_setup(what_is_gone_is_unknown_again, setup),
		cmocka_unit_test_setup(what_is_always_as_long_is_steady, setup),
		cmocka_unit_test_setup(what_differs_at_times_is_not_steady, setup),
		cmocka_unit_test_setup(a_full_table_gives_the_least_measured_away, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
