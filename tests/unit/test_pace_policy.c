#include "core/pace_policy.h"

#include "check.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_launch_is_told_but_never_unblocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
