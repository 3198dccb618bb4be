#include "base/limits.h"

#include "base/units.h"
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char uuid_a[] = "GPU-aaaaaaaa-0000-0000-0000-000000000000";
static const char uuid_b[] = "GPU-bbbbbbbb-0000-0000-0000-000000000000";
static const char uuid_m[] = "MIG-cccccccc-0000-0000-0000-000000000000";

static void test_good_specs(void **state)
{
	static const char *const specs[] = {
		"10g",
		"1.5g",
		"4Gi",
		"0:10g",
		"0:10g,1:4g",
		"31:1g",
		"GPU-aaaaaaaa:2g",
		"GPU-aaaa:2g",
		"MIG-cccccccc-0000-0000-0000-000000000000:1g",
		"8g,0:1g,GPU-bbbbbbbb:512 MiB",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		struct limits_error err = { "" };

		if (limits_check(LIMITS_MEM, specs[i], LIMITS_ZERO_IS_ERROR, &err) < 0)
			fail_msg("'%s': %s", specs[i], err.text);
	}
}

struct bad {
	const char *spec, *item, *why, *want;
};

/* Each is refused, and the message has the text that is wrong, why, and what would be right. */
static void assert_refused(enum limits_kind kind, const struct bad *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct limits_error err = { "" };

		if (limits_check(kind, cases[i].spec, LIMITS_ZERO_IS_ERROR, &err) != -EINVAL)
			fail_msg("'%s' was taken", cases[i].spec);
		assert_says(err.text, cases[i].item);
		assert_says(err.text, cases[i].why);
		assert_says(err.text, cases[i].want);
	}
}

static void test_bad_specs(void **state)
{
	static const struct bad cases[] = {
		{ "", "''", "is empty", "1.5g" },
		{ "4x", "'4x'", "unknown unit", "1.5g" },
		{ "-1", "'-1'", "is negative", "1.5g" },
		{ "1.5.2g", "'1.5.2g'", "unknown unit", "1.5g" },
		{ "99999999999999g", "'99999999999999g'", "is too big", "the largest size is 4e" },
		{ "5e", "'5e'", "is too big", "the largest size is 4e" },
		{ "GPU-aaa:1g", "'GPU-aaa:1g'", "names no device", "at least 8 characters" },
		{ "0", "'0'", "is zero", "1.5g" },
		{ "0:0", "'0'", "is zero", "1.5g" },
		{ "1.5", "'1.5'", "no unit", "1.5g" },
		{ ",", "','", "comma", "1.5g" },
		{ "1g,", "'1g,'", "comma", "1.5g" },
		{ ",1g", "''", "is empty", "1.5g" },
		{ "0:1g,,1:1g", "''", "is empty", "1.5g" },
		{ "0:", "'0:'", "nothing behind the colon", "1.5g" },
		{ "0:1g,GPU-8f6d3c2a:", "'GPU-8f6d3c2a:'", "nothing behind the colon", "1.5g" },
		{ ":1g", "':1g'", "names no device", "index" },
		{ "x:1g", "'x:1g'", "names no device", "index" },
		{ "-1:1g", "'-1:1g'", "names no device", "index" },
		{ "0 :1g", "'0 :1g'", "names no device", "index" },
		{ "1000:1g", "'1000:1g'", "names no device", "index" },
		{ "GPU-:1g", "'GPU-:1g'", "names no device", "GPU-8f6d3c2a" },
		{ "GPU-aaa:1g", "'GPU-aaa:1g'", "names no device", "GPU-8f6d3c2a" },
		{ "gpu-aaaaaaaa:1g", "'gpu-aaaaaaaa:1g'", "names no device", "index" },
		{ "0:1:1g", "'1:1g'", "unknown unit", "1.5g" },
		{ "0:10g,1:4x", "'4x'", "unknown unit", "1.5g" },
	};

	(void)state;
	assert_refused(LIMITS_MEM, cases, sizeof(cases) / sizeof(*cases));
}

static void test_zero(void **state)
{
	struct limits_error err;

	(void)state;
	assert_int_equal(limits_check(LIMITS_MEM, "0", LIMITS_ZERO_IS_NONE, &err), 0);
	assert_int_equal(limits_check(LIMITS_MEM, "0:0,1:0m", LIMITS_ZERO_IS_NONE, &err), 0);
	assert_int_equal(limits_check(LIMITS_MEM, "0.0g", LIMITS_ZERO_IS_ERROR, &err), -EINVAL);
	assert_int_equal(limits_check(LIMITS_MEM, "", LIMITS_ZERO_IS_NONE, &err), -EINVAL);
	assert_int_equal(limits_for_device(LIMITS_MEM, "0", 0, uuid_a), 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, "1g,0:0", 0, uuid_a), 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, "1g,0:0", 1, uuid_b), GIB);
}

/* Two sizes for one device: whichever were taken, somebody would have meant the other. */
static void test_a_device_named_twice(void **state)
{
	static const char *const specs[] = {
		"1g,2g",
		"0:1g,0:2g",
		"0:1g,1:1g,0:1g",
		"1:1g,01:2g",
		"GPU-aaaaaaaa:1g,GPU-aaaaaaaa:2g",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		struct limits_error err = { "" };

		if (limits_check(LIMITS_MEM, specs[i], LIMITS_ZERO_IS_ERROR, &err) != -EINVAL)
			fail_msg("'%s' was taken", specs[i]);
		assert_says(err.text, "twice");
		assert_says(err.text, "0:");
	}
}

static void test_long_specs(void **state)
{
	char spec[4096];
	struct limits_error err;
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 200; i++)
		n += (size_t)snprintf(spec + n, sizeof(spec) - n, "%s%d:1000000k", i ? "," : "", i);
	assert_true(n > 2048);
	assert_int_equal(limits_check(LIMITS_MEM, spec, LIMITS_ZERO_IS_ERROR, &err), -EINVAL);
	assert_says(err.text, "too long");
	assert_says(err.text, "at most 2047 characters");

	memset(spec, '9', sizeof(spec));
	spec[2000] = '\0';
	assert_int_equal(limits_check(LIMITS_MEM, spec, LIMITS_ZERO_IS_ERROR, &err), -EINVAL);
	assert_says(err.text, "too big");

	/* A UUID too long for any device. */
	snprintf(spec, sizeof(spec), "GPU-%0100d:1g", 0);
	assert_int_equal(limits_check(LIMITS_MEM, spec, LIMITS_ZERO_IS_ERROR, &err), -EINVAL);
	assert_says(err.text, "names no device");
}

static void test_which_limit_a_device_gets(void **state)
{
	static const char spec[] = "8g,1:4g,GPU-aaaaaaaa:2g,MIG-cccccccc-0000:1g";

	(void)state;
	assert_int_equal(limits_for_device(LIMITS_MEM, spec, 0, uuid_a), 2 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, spec, 1, uuid_b), 4 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, spec, 2, uuid_b), 8 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, spec, -1, uuid_m), 1 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, spec, 5, NULL), 8 * GIB);
	/* The order of the items does not matter. */
	assert_int_equal(limits_for_device(LIMITS_MEM, "0:1g,8g", 0, uuid_a), 1 * GIB);
	/* "1" is not a prefix of "10". */
	assert_int_equal(limits_for_device(LIMITS_MEM, "1:4g", 10, uuid_a), 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, "10:4g", 1, uuid_a), 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, "", 0, uuid_a), 0);
	/* A prefix names a device, a longer text than its UUID does not. */
	assert_int_equal(limits_for_device(LIMITS_MEM,
					   "GPU-aaaaaaaa-0000-0000-0000-000000000000f:4g", 0,
					   uuid_a),
			 0);
}

/* By UUID and by index, or by prefixes: which device an index is shows only when it turns up. */
static void test_a_device_named_by_two_names_gets_the_least(void **state)
{
	(void)state;
	assert_int_equal(limits_check(LIMITS_MEM, "GPU-aaaaaaaa:1g,0:2g", LIMITS_ZERO_IS_ERROR,
				      NULL),
			 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, "GPU-aaaaaaaa:1g,0:2g", 0, uuid_a), 1 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, "0:2g,GPU-aaaaaaaa:1g", 0, uuid_a), 1 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, "GPU-aaaaaaaa:2g,0:1g", 0, uuid_a), 1 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, "GPU-aaaa:3g,GPU-aaaaaaaa:2g,0:4g", 0,
					   uuid_a),
			 2 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, "GPU-aaaaaaaa:1g,0:2g", 1, uuid_a), 1 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, "GPU-aaaaaaaa:1g,0:2g", 0, uuid_b), 2 * GIB);
	/* The general one is for devices without one of their own, however small it is. */
	assert_int_equal(limits_for_device(LIMITS_MEM, "1m,GPU-aaaaaaaa:1g,0:2g", 0, uuid_a),
			 1 * GIB);
	/* Zero is no limit, and so not the least. */
	assert_int_equal(limits_for_device(LIMITS_MEM, "GPU-aaaaaaaa:0,0:2g", 0, uuid_a), 2 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, "0:2g,GPU-aaaaaaaa:0", 0, uuid_a), 2 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, "1g,0:0,GPU-aaaaaaaa:0", 0, uuid_a), 0);
}

static void test_wrong_items_are_passed_over(void **state)
{
	(void)state;
	assert_int_equal(limits_for_device(LIMITS_MEM, "x:1g,2g", 0, uuid_a), 2 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, "4x,0:2g", 0, uuid_a), 2 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, ",,,0:2g", 0, uuid_a), 2 * GIB);
}

static void test_mentions(void **state)
{
	(void)state;
	assert_true(limits_mentions(LIMITS_MEM, "1g", 3, uuid_a));
	assert_true(limits_mentions(LIMITS_MEM, "0:1g", 0, uuid_a));
	assert_true(limits_mentions(LIMITS_MEM, "GPU-aaaaaaaa:1g", 7, uuid_a));
	assert_true(limits_mentions(LIMITS_MEM, "0:0", 0, uuid_a));
	assert_false(limits_mentions(LIMITS_MEM, "0:1g", 1, uuid_a));
	assert_false(limits_mentions(LIMITS_MEM, "GPU-aaaaaaaa:1g", 0, uuid_b));
	assert_false(limits_mentions(LIMITS_MEM, "", 0, uuid_a));
}

static void test_items_one_by_one(void **state)
{
	const char *at = "1g,GPU-aaaaaaaa:4x,2:3m";
	struct limits_item item;
	struct limits_error err;

	(void)state;
	assert_int_equal(limits_next(LIMITS_MEM, &at, LIMITS_ZERO_IS_ERROR, &item, &err), 1);
	assert_string_equal(item.who, "");
	assert_int_equal(item.amount, GIB);
	assert_int_equal(limits_next(LIMITS_MEM, &at, LIMITS_ZERO_IS_ERROR, &item, &err), -EINVAL);
	assert_int_equal(limits_next(LIMITS_MEM, &at, LIMITS_ZERO_IS_ERROR, &item, NULL), 1);
	assert_string_equal(item.who, "2");
	assert_int_equal(item.amount, 3 * MIB);
	assert_int_equal(limits_next(LIMITS_MEM, &at, LIMITS_ZERO_IS_ERROR, &item, &err), 0);
	assert_int_equal(limits_next(LIMITS_MEM, &at, LIMITS_ZERO_IS_ERROR, &item, &err), 0);
	at = NULL;
	assert_int_equal(limits_next(LIMITS_MEM, &at, LIMITS_ZERO_IS_ERROR, &item, &err), 0);
}

static void test_good_percentages(void **state)
{
	static const struct {
		const char *spec;
		uint64_t pct; /* of device 1 */
	} cases[] = {
		{ "30", 30 },
		{ "1", 1 },
		{ "99", 99 },
		{ "100", 100 },
		{ "30%", 30 },
		{ "30 %", 30 },
		{ "030", 30 },
		{ "0:30,1:50", 50 },
		{ "0:30", 0 },
		{ "0:30,70", 70 },
		{ "GPU-bbbbbbbb:40%", 40 },
		{ "20,1:100", 100 },
		{ "1:30,GPU-bbbb:20", 20 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct limits_error err = { "" };

		if (limits_check(LIMITS_SM, cases[i].spec, LIMITS_ZERO_IS_ERROR, &err) < 0)
			fail_msg("'%s': %s", cases[i].spec, err.text);
		assert_int_equal(limits_for_device(LIMITS_SM, cases[i].spec, 1, uuid_b),
				 cases[i].pct);
	}
}

static void test_bad_percentages(void **state)
{
	static const struct bad cases[] = {
		{ "", "''", "is empty", "1 to 100" },
		{ "0", "'0'", "is zero", "1 to 100" },
		{ "0:0", "'0'", "is zero", "1 to 100" },
		{ "101", "'101'", "is too big", "1 to 100" },
		{ "18446744073709551646", "'18446744073709551646'", "is too big", "1 to 100" },
		{ "-5", "'-5'", "is negative", "1 to 100" },
		{ "abc", "'abc'", "is not a number", "1 to 100" },
		{ "%", "'%'", "is not a number", "1 to 100" },
		{ "30x", "'30x'", "unknown unit", "1 to 100" },
		{ "30%%", "'30%%'", "unknown unit", "1 to 100" },
		{ "30 ", "'30 '", "unknown unit", "1 to 100" },
		{ "30m", "'30m'", "unknown unit", "1 to 100" },
		{ "2.5", "'2.5'", "has a fraction", "1 to 100" },
		{ "1:", "'1:'", "nothing behind the colon", "1 to 100" },
		{ "30,", "'30,'", "comma", "1 to 100" },
		{ "x:30", "'x:30'", "names no device", "index" },
		{ "0:30,0:50", "'0:50'", "twice", "0:30,1:50" },
		{ "30,50", "'50'", "twice", "0:30,1:50" },
	};

	(void)state;
	assert_refused(LIMITS_SM, cases, sizeof(cases) / sizeof(*cases));
}

/* As the schedulers mean it: zero, and a hundred and more, limit nothing. */
static void test_percentages_of_schedulers(void **state)
{
	static const char *const none[] = { "100", "101", "4294967296", "99999999999999999999" };

	(void)state;
	assert_int_equal(limits_check(LIMITS_SM, "0", LIMITS_ZERO_IS_NONE, NULL), 0);
	assert_int_equal(limits_for_device(LIMITS_SM, "0", 0, uuid_a), 0);
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		assert_int_equal(limits_check(LIMITS_SM, none[i], LIMITS_ZERO_IS_NONE, NULL), 0);
		assert_int_equal(limits_for_device(LIMITS_SM, none[i], 0, uuid_a),
				 LIMITS_SM_NONE_PCT);
	}
	assert_int_equal(limits_check(LIMITS_SM, "x", LIMITS_ZERO_IS_NONE, NULL), -EINVAL);
}

static void test_what_an_amount_limits_to(void **state)
{
	char text[32];

	(void)state;
	assert_int_equal(limits_effective(LIMITS_SM, 0), 0);
	assert_int_equal(limits_effective(LIMITS_SM, 99), 99);
	assert_int_equal(limits_effective(LIMITS_SM, 100), 0);
	assert_int_equal(limits_effective(LIMITS_MEM, 100), 100);
	assert_string_equal(limits_format(LIMITS_SM, 30, text, sizeof(text)), "30 %");
	assert_string_equal(limits_format(LIMITS_MEM, GIB, text, sizeof(text)), "1 GiB");
}

static void test_names(void **state)
{
	(void)state;
	assert_true(limits_names("1", 1, NULL));
	assert_true(limits_names("01", 1, uuid_a));
	assert_true(limits_names("GPU-aaaa", -1, uuid_a));
	assert_false(limits_names("", 0, uuid_a));
	assert_false(limits_names("GPU-bbbb", 0, uuid_a));
	assert_false(limits_names("1", 10, uuid_a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_specs),
		cmocka_unit_test(test_bad_specs),
		cmocka_unit_test(test_zero),
		cmocka_unit_test(test_a_device_named_twice),
		cmocka_unit_test(test_long_specs),
		cmocka_unit_test(test_which_limit_a_device_gets),
		cmocka_unit_test(test_a_device_named_by_two_names_gets_the_least),
		cmocka_unit_test(test_wrong_items_are_passed_over),
		cmocka_unit_test(test_mentions),
		cmocka_unit_test(test_items_one_by_one),
		cmocka_unit_test(test_good_percentages),
		cmocka_unit_test(test_bad_percentages),
		cmocka_unit_test(test_percentages_of_schedulers),
		cmocka_unit_test(test_what_an_amount_limits_to),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
