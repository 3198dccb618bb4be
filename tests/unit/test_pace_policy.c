#include "core/pace_policy.h"

#include "check.h"

static void the_rule_is_what_the_variable_names(void **state)
{
	(void)state;
	assert_int_equal(pace_policy_rule("force"), PACE_RULE_FORCE);
	assert_int_equal(pace_policy_rule("FORCE"), PACE_RULE_FORCE);
	assert_int_equal(pace_policy_rule("disable"), PACE_RULE_DISABLE);
	assert_int_equal(pace_policy_rule("DISABLE"), PACE_RULE_DISABLE);
	assert_int_equal(pace_policy_rule("default"), PACE_RULE_DEFAULT);
	/* Nothing else switches a limit off. */
	assert_int_equal(pace_policy_rule("Disable"), PACE_RULE_DEFAULT);
	assert_int_equal(pace_policy_rule("disabled"), PACE_RULE_DEFAULT);
	assert_int_equal(pace_policy_rule(""), PACE_RULE_DEFAULT);
	assert_int_equal(pace_policy_rule(NULL), PACE_RULE_DEFAULT);
}

/* rule x switch, for a limit of 30 %. */
static void the_switch_decides_by_default_alone(void **state)
{
	static const struct {
		enum pace_rule rule;
		int32_t switched;
		uint32_t share_pct;
	} rows[] = {
		{ PACE_RULE_DEFAULT, 0, 100 }, { PACE_RULE_DEFAULT, 1, 30 },
		{ PACE_RULE_FORCE, 0, 30 },    { PACE_RULE_FORCE, 1, 30 },
		{ PACE_RULE_DISABLE, 0, 100 }, { PACE_RULE_DISABLE, 1, 100 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct pace_wishes wishes = { .rule = rows[i].rule,
					      .sm_limit_pct = 30,
					      .utilization_switch = rows[i].switched,
					      .recent_kernel = 2 };

		assert_int_equal(pace_policy_terms(&wishes).share_pct, rows[i].share_pct);
		assert_false(pace_policy_terms(&wishes).is_blocked);
	}
}

static void no_limit_and_a_whole_one_are_none(void **state)
{
	static const uint64_t none[] = { 0, 100, 101, UINT64_MAX, UINT64_C(1) << 32 };

	(void)state;
	for (unsigned i = 0; i < sizeof(none) / sizeof(*none); i++) {
		struct pace_wishes wishes = { .rule = PACE_RULE_FORCE, .sm_limit_pct = none[i] };

		assert_int_equal(pace_policy_terms(&wishes).share_pct, 100);
	}
	for (uint64_t pct = 1; pct < 100; pct++) {
		struct pace_wishes wishes = { .rule = PACE_RULE_FORCE, .sm_limit_pct = pct };

		assert_int_equal(pace_policy_terms(&wishes).share_pct, pct);
	}
}

/* The monitor's hold stands whatever the limit is. */
static void a_negative_recent_kernel_blocks(void **state)
{
	struct pace_wishes wishes = { .rule = PACE_RULE_DISABLE, .recent_kernel = -1 };

	(void)state;
	assert_true(pace_policy_terms(&wishes).is_blocked);
	wishes.recent_kernel = 0;
	assert_false(pace_policy_terms(&wishes).is_blocked);
	wishes.is_suspended = true;
	assert_true(pace_policy_terms(&wishes).is_blocked);
}

static void a_launch_is_told_but_never_unblocks(void **state)
{
	static const int32_t before[] = { 0, 1, 2, 7, -1, -5 };
	static const int32_t after[] = { 2, 2, 2, 2, -1, -5 };

	(void)state;
	for (unsigned i = 0; i < sizeof(before) / sizeof(*before); i++) {
		int32_t word = before[i];

		pace_policy_launched(&word);
		assert_int_equal(word, after[i]);
	}
}

static void the_priority_is_0_or_1(void **state)
{
	(void)state;
	assert_int_equal(pace_policy_priority("0"), 0);
	assert_int_equal(pace_policy_priority("1"), 1);
	assert_int_equal(pace_policy_priority("2"), 1);
	assert_int_equal(pace_policy_priority("-1"), 1);
	assert_int_equal(pace_policy_priority(""), 1);
	assert_int_equal(pace_policy_priority(NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rule_is_what_the_variable_names),
		cmocka_unit_test(the_switch_decides_by_default_alone),
		cmocka_unit_test(no_limit_and_a_whole_one_are_none),
		cmocka_unit_test(a_negative_recent_kernel_blocks),
		cmocka_unit_test(a_launch_is_told_but_never_unblocks),
		cmocka_unit_test(the_priority_is_0_or_1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
