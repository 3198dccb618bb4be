#include "shm/spec.h"

#include "base/limits.h"
#include "scratch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

static struct ration_region *shared;

static int share(void **state)
{
	(void)state;
	shared = aligned_alloc(64, sizeof(*shared));
	if (!shared)
		return -1;
	memset(shared, 0, sizeof(*shared));
	return 0;
}

static int unshare_it(void **state)
{
	(void)state;
	free(shared);
	return 0;
}

static void change(const char *spec, const char *source)
{
	spec_begin(shared);
	spec_end(shared, spec, source);
}

static void test_what_is_written_is_read(void **state)
{
	char spec[RATION_SPEC_BYTES];
	uint32_t first, second;

	(void)state;
	memset(shared->mem_spec, 0, sizeof(shared->mem_spec));
	assert_int_equal(spec_read(shared, spec, &first), 0);
	assert_string_equal(spec, "");
	change("0:10g,1:4g", "here");
	assert_int_equal(spec_read(shared, spec, &second), 0);
	assert_string_equal(spec, "0:10g,1:4g");
	assert_string_equal(shared->mem_source, "here");
	assert_int_not_equal(first, second);
	assert_int_equal(spec_change(shared), second);
	/* A shorter one leaves nothing of the longer. */
	change("1g", NULL);
	assert_int_equal(spec_read(shared, spec, &first), 0);
	assert_string_equal(spec, "1g");
	assert_memory_equal(shared->mem_spec + 2, "\0\0\0\0\0\0\0\0", 8);
	assert_string_equal(shared->mem_source, "");
	change("", "");
	assert_int_equal(spec_read(shared, spec, &first), 0);
	assert_string_equal(spec, "");
}

static void test_the_longest_text(void **state)
{
	char spec[RATION_SPEC_BYTES], long_one[RATION_SPEC_BYTES];
	size_t n = 0;
	uint32_t number;

	(void)state;
	for (int i = 0; n + 16 < sizeof(long_one); i++)
		n += (size_t)snprintf(long_one + n, sizeof(long_one) - n, "%s%d:100m", n ? "," : "",
				      i);
	change(long_one, "here");
	assert_int_equal(spec_read(shared, spec, &number), 0);
	assert_string_equal(spec, long_one);
}

static void test_a_change_under_way(void **state)
{
	char spec[RATION_SPEC_BYTES];
	uint32_t number;

	(void)state;
	change("1g", "here");
	spec_begin(shared);
	assert_int_equal(spec_read(shared, spec, &number), -EAGAIN);
	/* What a killed one left is no limit to anybody. */
	assert_int_not_equal(limits_check(shared->mem_spec, LIMITS_ZERO_IS_NONE, NULL), 0);
	/* And the next one puts it right. */
	change("2g", "there");
	assert_int_equal(spec_read(shared, spec, &number), 0);
	assert_string_equal(spec, "2g");
}

static void test_nonsense(void **state)
{
	char spec[RATION_SPEC_BYTES];
	uint32_t number;

	(void)state;
	change("1x", "here");
	assert_int_equal(spec_read(shared, spec, &number), -EBADMSG);
	memset(shared->mem_spec, '7', sizeof(shared->mem_spec));
	assert_int_equal(spec_read(shared, spec, &number), -EBADMSG);
}

static _Atomic bool is_over;

static void *change_again_and_again(void *arg)
{
	for (int i = 0; i < 20000; i++)
		change(i % 2 ? "1g,0:1g,1:1g,2:1g,3:1g,4:1g,5:1g" :
			       "2g,0:2g,1:2g,2:2g,3:2g,4:2g,5:2g",
		       "here");
	atomic_store(&is_over, true);
	return arg;
}

/* A text is read as it was at one moment. */
static void test_a_reader_beside_a_writer(void **state)
{
	char spec[RATION_SPEC_BYTES];
	uint32_t number;
	pthread_t writer;
	int whole = 0;

	(void)state;
	change("1g,0:1g,1:1g,2:1g,3:1g,4:1g,5:1g", "here");
	atomic_store(&is_over, false);
	assert_int_equal(pthread_create(&writer, NULL, change_again_and_again, NULL), 0);
	while (!atomic_load(&is_over) || whole == 0) {
		if (spec_read(shared, spec, &number) < 0)
			continue;
		whole++;
		for (size_t at = 2; spec[at]; at += 5)
			assert_int_equal(spec[at + 3], spec[0]);
	}
	pthread_join(writer, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_the_longest_text),
		cmocka_unit_test(test_a_change_under_way),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_a_reader_beside_a_writer),
	};

	return cmocka_run_group_tests(tests, share, unshare_it);
}
