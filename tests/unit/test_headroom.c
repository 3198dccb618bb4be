#include "core/headroom.h"

#include "fresh.h"

#define GIB(n) (UINT64_C(n) << 30)

static const struct dev first = { 0 }, second = { 1 };

static void note(struct dev dev, uint64_t bytes, int64_t now_ns)
{
	headroom_note(dev, bytes, GIB(80), now_ns);
}

static bool covers(struct dev dev, uint64_t bytes, int64_t now_ns)
{
	uint64_t total_bytes = 0;

	if (!headroom_covers(dev, bytes, now_ns, &total_bytes))
		return false;
	CHECK_EQ(total_bytes, GIB(80));
	return true;
}

static void nothing_is_known_at_first(void)
{
	CHECK(!covers(second, 0, 0));
	CHECK(!covers(second, GIB(1), HEADROOM_NS));
}

static void it_covers_what_the_card_had_free(void)
{
	int64_t now_ns = 5 * HEADROOM_NS;

	note(first, GIB(10), now_ns);
	CHECK(covers(first, 0, now_ns));
	CHECK(covers(first, GIB(10), now_ns));
	CHECK(!covers(first, GIB(10) + 1, now_ns));
	CHECK(!covers(second, 0, now_ns));
	/* Parts of a MiB are not counted on. */
	note(first, GIB(10) - 1, now_ns);
	CHECK(!covers(first, GIB(10) - 1, now_ns));
	CHECK(covers(first, GIB(9), now_ns));
}

static void it_is_known_for_a_moment(void)
{
	int64_t now_ns = 7 * HEADROOM_NS + HEADROOM_NS / 2;

	note(first, GIB(10), now_ns);
	CHECK(covers(first, GIB(1), now_ns + HEADROOM_NS / 4));
	CHECK(!covers(first, GIB(1), now_ns + HEADROOM_NS));
	CHECK(!covers(first, 0, now_ns + HEADROOM_NS));
	CHECK(!covers(first, GIB(1), now_ns - HEADROOM_NS));
	/* A machine that has been up for years: its ticks have passed all their bits. */
	now_ns = INT64_C(20) * 365 * 86400 * 1000000000;
	note(first, GIB(10), now_ns);
	CHECK(covers(first, GIB(10), now_ns));
	CHECK(!covers(first, GIB(10), now_ns + HEADROOM_NS));
}

static void a_card_beyond_its_bits_is_counted_short(void)
{
	note(first, UINT64_MAX, HEADROOM_NS);
	CHECK(covers(first, UINT64_C(1) << 43, HEADROOM_NS));
	CHECK(!covers(first, UINT64_C(1) << 44, HEADROOM_NS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(nothing_is_known_at_first),
		fresh_test(it_covers_what_the_card_had_free),
		fresh_test(it_is_known_for_a_moment),
		fresh_test(a_card_beyond_its_bits_is_counted_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
