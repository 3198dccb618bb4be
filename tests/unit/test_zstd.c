#include "base/zstd.h"

#include "fresh.h"
#include "image_build.h"
#include "zstd_frames.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const unsigned char *at;
	size_t bytes, plain_bytes;
} frames[] = {
	{ zstd_short_quick, sizeof(zstd_short_quick), ZSTD_SHORT_BYTES },
	{ zstd_short_small, sizeof(zstd_short_small), ZSTD_SHORT_BYTES },
	{ zstd_short_stream, sizeof(zstd_short_stream), ZSTD_SHORT_BYTES },
	{ zstd_long_stream, sizeof(zstd_long_stream), ZSTD_LONG_BYTES },
};

static unsigned char *plain_of(size_t bytes)
{
	unsigned char *plain = malloc(bytes);

	CHECK(plain);
	zstd_plain(plain, bytes);
	return plain;
}

static void what_was_packed_comes_back(void)
{
	for (unsigned i = 0; i < COUNT(frames); i++) {
		size_t bytes = frames[i].plain_bytes;
		unsigned char *plain = plain_of(bytes), *back = malloc(bytes + 1);

		CHECK(back && zstd_is(frames[i].at, frames[i].bytes));
		CHECK_EQ(zstd_decode(frames[i].at, frames[i].bytes, back, bytes + 1), bytes);
		CHECK(memcmp(plain, back, bytes) == 0);
		CHECK_EQ(zstd_decode(frames[i].at, frames[i].bytes, back, bytes), bytes);
		/* No room for all of it. */
		for (size_t less = 1; less < bytes; less *= 2)
			CHECK(zstd_decode(frames[i].at, frames[i].bytes, back, bytes - less) == -1);
		CHECK(zstd_most_bytes(frames[i].at, frames[i].bytes) >= bytes);
		CHECK(zstd_most_bytes(frames[i].at, frames[i].bytes) <= bytes + (128 << 10));
		free(plain);
		free(back);
	}
}

/* One frame behind another, and what is none between and behind them. */
static void several_frames(void)
{
	static const unsigned char other[] = { 0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9 };
	unsigned char *plain = plain_of(ZSTD_SHORT_BYTES), back[2 * ZSTD_SHORT_BYTES];
	struct image_build all = { 0 };

	image_build_add(&all, frames[0].at, frames[0].bytes);
	image_build_add(&all, other, sizeof(other));
	image_build_add(&all, frames[1].at, frames[1].bytes);
	image_build_add(&all, NULL, 5);
	CHECK_EQ(zstd_decode(all.at, all.bytes, back, sizeof(back)), sizeof(back));
	CHECK(memcmp(back, plain, ZSTD_SHORT_BYTES) == 0);
	CHECK(memcmp(back + ZSTD_SHORT_BYTES, plain, ZSTD_SHORT_BYTES) == 0);
	free(all.at);
	free(plain);
}

static void what_is_none(void)
{
	unsigned char back[16];

	CHECK(!zstd_is("", 0) && !zstd_is("\x28\xb5\x2f", 3) && !zstd_is("\x28\xb5\x2f\xfe", 4));
	CHECK(zstd_decode("", 0, back, sizeof(back)) == -1);
	CHECK(zstd_decode("nothing", 7, back, sizeof(back)) == -1);
	CHECK(zstd_decode("\x28\xb5\x2f\xfd", 4, back, sizeof(back)) == -1);
	/* An empty one; one that needs a dictionary; a block of no kind; one that is too large. */
	CHECK_EQ(zstd_decode("\x28\xb5\x2f\xfd\x20\0\x01\0\0", 9, back, sizeof(back)), 0);
	CHECK(zstd_decode("\x28\xb5\x2f\xfd\x21\x07\0\x01\0\0", 10, back, sizeof(back)) == -1);
	CHECK(zstd_decode("\x28\xb5\x2f\xfd\x20\0\x07\0\0", 9, back, sizeof(back)) == -1);
	CHECK(zstd_decode("\x28\xb5\x2f\xfd\x20\0\xfb\xff\xff\1", 10, back, sizeof(back)) == -1);
	CHECK_EQ(zstd_most_bytes("nothing", 7), 0);
}

static uint64_t random_state = 88172645463325252;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Each copy ends where its memory does. */
static void broken_ones_touch_nothing_else(void)
{
	unsigned char *back = malloc(ZSTD_LONG_BYTES);

	CHECK(back);
	for (int round = 0; round < 20000; round++) {
		unsigned which = (unsigned)(random_next() % (round % 16 ? 3 : 4));
		size_t bytes = frames[which].bytes, room = frames[which].plain_bytes;
		unsigned char *copy;
		int64_t made;

		if (random_next() % 4 == 0)
			bytes = (size_t)(random_next() % (bytes + 1));
		copy = malloc(bytes ? bytes : 1);
		CHECK(copy);
		memcpy(copy, frames[which].at, bytes);
		for (uint64_t n = random_next() % 5; n && bytes; n--)
			copy[random_next() % (random_next() % 2 && bytes > 40 ? 40 : bytes)] ^=
				(unsigned char)(random_next() % 3 ? 1u << random_next() % 8 :
								    random_next());
		made = zstd_decode(copy, bytes, back, room);
		CHECK(made >= -1 && made <= (int64_t)room);
		CHECK(made <= (int64_t)zstd_most_bytes(copy, bytes));
		free(copy);
	}
	free(back);
}

/* What the tests' own images are packed by: runs and what is not packed. */
static void runs_and_the_rest(void)
{
	unsigned char plain[3000], back[3000];

	for (int round = 0; round < 300; round++) {
		size_t bytes = (size_t)(random_next() % sizeof(plain)), at = 0;
		struct image_build packed;

		while (at < bytes) {
			size_t run = random_next() % 3 ? 1 : (size_t)(random_next() % 600);
			unsigned char c = (unsigned char)random_next();

			while (run-- && at < bytes)
				plain[at++] = c;
		}
		packed = image_build_zstd(plain, bytes);
		CHECK_EQ(zstd_decode(packed.at, packed.bytes, back, sizeof(back)), bytes);
		CHECK(memcmp(plain, back, bytes) == 0);
		CHECK_EQ(zstd_most_bytes(packed.at, packed.bytes), bytes);
		free(packed.at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(what_was_packed_comes_back),
		fresh_test(several_frames),
		fresh_test(what_is_none),
		fresh_test(broken_ones_touch_nothing_else),
		fresh_test(runs_and_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
