#include "base/hash.h"

#include "check.h"

#include <errno.h>
#include <stdlib.h>

enum { LINKS = 20000 };

static bool has_no_memory;

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
	return has_no_memory ? NULL : __real_calloc(n, bytes);
}

static struct hash hash;
static struct hash_link links[LINKS];
static bool is_in[LINKS];

static int start(void **state)
{
	(void)state;
	for (int s = 0; s < HASH_SEGMENTS; s++)
		free(hash.segment[s]);
	memset(&hash, 0, sizeof(hash));
	memset(is_in, 0, sizeof(is_in));
	has_no_memory = false;
	return 0;
}

static void put(int i, uint64_t key)
{
	links[i].key = key;
	hash_insert(&hash, &links[i]);
	is_in[i] = true;
}

static void take(int i)
{
	hash_remove(&hash, &links[i]);
	is_in[i] = false;
}

static void an_empty_table_has_nothing(void **state)
{
	(void)state;
	assert_null(hash_find(&hash, 0));
	assert_null(hash_find(&hash, UINT64_MAX));
}

static void the_last_of_a_key_is_found(void **state)
{
	(void)state;
	put(0, 7);
	put(1, 7);
	assert_ptr_equal(hash_find(&hash, 7), &links[1]);
	take(1);
	assert_ptr_equal(hash_find(&hash, 7), &links[0]);
	take(0);
	assert_null(hash_find(&hash, 7));
	assert_int_equal(hash.count, 0);
}

/* Random programs, the keys in steps as addresses have them. */
static void check_program(uint64_t step)
{
	uint64_t seed = step;
	uint64_t count = 0;

	for (long n = 0; n < 10L * LINKS; n++) {
		int i;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		i = (int)((seed >> 33) % LINKS);
		if (is_in[i]) {
			assert_ptr_equal(hash_find(&hash, (uint64_t)i * step), &links[i]);
			take(i);
			count--;
		} else {
			assert_null(hash_find(&hash, (uint64_t)i * step));
			put(i, (uint64_t)i * step);
			count++;
		}
		assert_int_equal(hash.count, count);
	}
	for (int i = 0; i < LINKS; i++)
		assert_int_equal(hash_find(&hash, (uint64_t)i * step) == &links[i], is_in[i]);
}

static void random_programs(void **state)
{
	static const uint64_t steps[] = { 1, 512, 1 << 21, UINT64_C(0x10000000001) };

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		start(state);
		check_program(steps[i]);
		assert_true(hash.more > LINKS / 3);
	}
}

static void without_memory_it_goes_on(void **state)
{
	(void)state;
	has_no_memory = true;
	check_program(512);
	assert_int_equal(hash.more, 0);
}

/* Chains stay short, whatever the distance of the keys. */
static void keys_are_spread(void **state)
{
	for (uint64_t step = 1; step <= 1 << 26; step *= 2) {
		int longest = 0;

		start(state);
		for (int i = 0; i < LINKS; i++)
			put(i, UINT64_C(0x7f0000000000) + (uint64_t)i * step);
		for (int i = 0; i < LINKS; i++) {
			int length = 0;

			for (struct hash_link *link = &links[i]; link; link = link->next)
				length++;
			longest = length > longest ? length : longest;
		}
		assert_in_range(longest, 1, 24);
	}
}

static void take_odd(struct hash_link *link, void *arg)
{
	int i = (int)(link - links);

	++*(int *)arg;
	if (i % 2)
		take(i);
}

static void count_one(struct hash_link *link, void *arg)
{
	assert_true(is_in[link - links]);
	++*(int *)arg;
}

static void each_is_visited_once(void **state)
{
	int visits = 0;

	(void)state;
	for (int i = 0; i < LINKS; i++)
		put(i, (uint64_t)i << 21);
	hash_each(&hash, take_odd, &visits);
	assert_int_equal(visits, LINKS);
	visits = 0;
	hash_each(&hash, count_one, &visits);
	assert_int_equal(visits, LINKS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_empty_table_has_nothing, start),
		cmocka_unit_test_setup(the_last_of_a_key_is_found, start),
		cmocka_unit_test_setup(random_programs, start),
		cmocka_unit_test_setup(without_memory_it_goes_on, start),
		cmocka_unit_test_setup(keys_are_spread, start),
		cmocka_unit_test_setup(each_is_visited_once, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
