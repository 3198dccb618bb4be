#include "base/units.h"

#include "check.h"

#include <string.h>

struct size_case {
	const char *text;
	enum units_error err;
	uint64_t bytes;
};

#define EIB (UINT64_C(1) << 60)

static const struct size_case sizes[] = {
	/* What people and schedulers write. */
	{ "0", UNITS_OK, 0 },
	{ "1", UNITS_OK, 1 },
	{ "1048576", UNITS_OK, MIB },
	{ "4k", UNITS_OK, 4 * KIB },
	{ "512m", UNITS_OK, 512 * MIB },
	{ "3000m", UNITS_OK, 3000 * MIB },
	{ "10g", UNITS_OK, 10 * GIB },
	{ "10G", UNITS_OK, 10 * GIB },
	{ "10gb", UNITS_OK, 10 * GIB },
	{ "10GB", UNITS_OK, 10 * GIB },
	{ "4Gi", UNITS_OK, 4 * GIB },
	{ "4GiB", UNITS_OK, 4 * GIB },
	{ "4gib", UNITS_OK, 4 * GIB },
	{ "512 MiB", UNITS_OK, 512 * MIB },
	{ "1t", UNITS_OK, 1024 * GIB },
	{ "1p", UNITS_OK, 1024 * 1024 * GIB },
	{ "4e", UNITS_OK, 4 * EIB },
	{ "7b", UNITS_OK, 7 },
	{ "010m", UNITS_OK, 10 * MIB },
	{ "0g", UNITS_OK, 0 },
	{ "0.0g", UNITS_OK, 0 },
	{ "4611686018427387904", UNITS_OK, 4 * EIB },
	/* Fractions of a unit, rounded down to bytes. */
	{ "1.5g", UNITS_OK, 3 * GIB / 2 },
	{ "0.5m", UNITS_OK, 512 * KIB },
	{ "1.0g", UNITS_OK, GIB },
	{ "0.001k", UNITS_OK, 1 },
	{ "0.1k", UNITS_OK, 102 },
	{ "0.999999999999999999999999g", UNITS_OK, GIB - 1 },
	{ "3.999999999e", UNITS_OK, 4611686017274466399 },
	/* What is none. */
	{ "", UNITS_EMPTY, 0 },
	{ "-1", UNITS_NEGATIVE, 0 },
	{ "-0", UNITS_NEGATIVE, 0 },
	{ "-5g", UNITS_NEGATIVE, 0 },
	{ "g", UNITS_NOT_A_NUMBER, 0 },
	{ " 4g", UNITS_NOT_A_NUMBER, 0 },
	{ "+4g", UNITS_NOT_A_NUMBER, 0 },
	{ ".5g", UNITS_NOT_A_NUMBER, 0 },
	{ "1.g", UNITS_NOT_A_NUMBER, 0 },
	{ "nan", UNITS_NOT_A_NUMBER, 0 },
	{ "unlimited", UNITS_NOT_A_NUMBER, 0 },
	{ "4x", UNITS_BAD_SUFFIX, 0 },
	{ "4gg", UNITS_BAD_SUFFIX, 0 },
	{ "4ig", UNITS_BAD_SUFFIX, 0 },
	{ "4gbs", UNITS_BAD_SUFFIX, 0 },
	{ "4  g", UNITS_BAD_SUFFIX, 0 },
	{ "4g ", UNITS_BAD_SUFFIX, 0 },
	{ "4g\n", UNITS_BAD_SUFFIX, 0 },
	{ "1.5.2g", UNITS_BAD_SUFFIX, 0 },
	{ "1,5g", UNITS_BAD_SUFFIX, 0 },
	{ "0x10m", UNITS_BAD_SUFFIX, 0 },
	{ "1e9", UNITS_BAD_SUFFIX, 0 },
	{ "50%", UNITS_BAD_SUFFIX, 0 },
	{ "1.5", UNITS_NOT_WHOLE, 0 },
	{ "1.5b", UNITS_NOT_WHOLE, 0 },
	{ "99999999999999g", UNITS_TOO_BIG, 0 },
	{ "4611686018427387905", UNITS_TOO_BIG, 0 },
	{ "18446744073709551615", UNITS_TOO_BIG, 0 },
	{ "18446744073709551616", UNITS_TOO_BIG, 0 },
	{ "18446744073709551617g", UNITS_TOO_BIG, 0 },
	{ "99999999999999999999999999999999999999999999999999", UNITS_TOO_BIG, 0 },
	{ "5e", UNITS_TOO_BIG, 0 },
	{ "4.1e", UNITS_TOO_BIG, 0 },
};

static void test_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const struct size_case *c = &sizes[i];
		uint64_t bytes = 77;
		enum units_error err = units_parse_size(c->text, strlen(c->text), &bytes);

		if (err != c->err || bytes != (c->err == UNITS_OK ? c->bytes : 77))
			fail_msg("'%s': %s, %llu bytes", c->text, units_strerror(err),
				 (unsigned long long)bytes);
	}
}

static void test_size_stops_at_its_length(void **state)
{
	uint64_t bytes = 0;

	(void)state;
	assert_int_equal(units_parse_size("12g,4g", 3, &bytes), UNITS_OK);
	assert_int_equal(bytes, 12 * GIB);
	assert_int_equal(units_parse_size("12g", 2, &bytes), UNITS_OK);
	assert_int_equal(bytes, 12);
	assert_int_equal(units_parse_size("1.5g", 2, &bytes), UNITS_NOT_A_NUMBER);
	/* A NUL inside the length is no end of the text. */
	assert_int_equal(units_parse_size("1\0g", 3, &bytes), UNITS_BAD_SUFFIX);
}

static void test_digits_saturate(void **state)
{
	const char *text = "18446744073709551615x", *end;

	(void)state;
	assert_true(units_parse_digits(text, &end) == UINT64_MAX);
	assert_ptr_equal(end, text + 20);
	assert_true(units_parse_digits("18446744073709551616", NULL) == UINT64_MAX);
	assert_true(units_parse_digits("99999999999999999999999", NULL) == UINT64_MAX);
	assert_true(units_parse_digits("18446744073709551614", NULL) == UINT64_MAX - 1);
	assert_true(units_parse_digits("", &end) == 0);
	assert_int_equal(*end, '\0');
}

static void test_percent(void **state)
{
	uint64_t pct = 77;

	(void)state;
	assert_int_equal(units_parse_percent("30%,x", 3, &pct), UNITS_OK);
	assert_int_equal(pct, 30);
	assert_int_equal(units_parse_percent("250", 3, &pct), UNITS_OK);
	assert_int_equal(pct, 250);
	/* Saturates: it wraps to nothing small. */
	assert_int_equal(units_parse_percent("18446744073709551646", 20, &pct), UNITS_OK);
	assert_int_equal(pct, UINT32_MAX);
	pct = 77;
	assert_int_equal(units_parse_percent("", 0, &pct), UNITS_EMPTY);
	assert_int_equal(units_parse_percent("-1", 2, &pct), UNITS_NEGATIVE);
	assert_int_equal(units_parse_percent("%", 1, &pct), UNITS_NOT_A_NUMBER);
	assert_int_equal(units_parse_percent("2.5", 3, &pct), UNITS_FRACTION);
	assert_int_equal(units_parse_percent("3 ", 2, &pct), UNITS_BAD_SUFFIX);
	assert_int_equal(units_parse_percent("3%%", 3, &pct), UNITS_BAD_SUFFIX);
	assert_int_equal(pct, 77);
}

static void test_every_error_has_words(void **state)
{
	(void)state;
	for (int a = UNITS_OK; a <= UNITS_FRACTION; a++)
		for (int b = UNITS_OK; b < a; b++)
			assert_string_not_equal(units_strerror((enum units_error)a),
						units_strerror((enum units_error)b));
}

static void test_format(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ KIB, "1 KiB" },
		{ 3 * KIB / 2, "1.5 KiB" },
		{ 518 * MIB, "518 MiB" },
		{ GIB, "1 GiB" },
		{ 3 * GIB / 2, "1.5 GiB" },
		{ 3000 * MIB, "3000 MiB" },
		{ 3 * GIB + 1, "3.0 GiB" },
		{ 10 * GIB, "10 GiB" },
		{ 4 * EIB, "4 EiB" },
		{ UINT64_MAX, "16.0 EiB" },
	};
	char buf[16];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(units_format_size(cases[i].bytes, buf, sizeof(buf)),
				    cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_size_stops_at_its_length),
		cmocka_unit_test(test_digits_saturate),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_every_error_has_words),
		cmocka_unit_test(test_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
