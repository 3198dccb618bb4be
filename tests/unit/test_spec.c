#include "shm/spec.h"

#include "base/limits.h"
#include "scratch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

static struct ration_region *shared;
static enum limits_kind kind;

static const char *text(void)
{
	return spec_text(shared, kind);
}

static int share(void **state)
{
	kind = (enum limits_kind)(uintptr_t)*state;
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
	spec_begin(shared, kind);
	spec_end(shared, kind, spec, source);
}

static void test_what_is_written_is_read(void **state)
{
	char spec[RATION_SPEC_BYTES];
	uint32_t first, second;

	(void)state;
	/* Zeros that nobody wrote are what is left of a file that was cut, and no "no limit". */
	assert_int_equal(spec_read(shared, kind, spec, &first), -EBADMSG);
	assert_false(spec_is_understood(shared, kind));
	change("", NULL);
	assert_true(spec_is_understood(shared, kind));
	assert_int_equal(spec_read(shared, kind, spec, &first), 0);
	assert_string_equal(spec, "");
	change("0:10,1:4", "here");
	assert_int_equal(spec_read(shared, kind, spec, &second), 0);
	assert_string_equal(spec, "0:10,1:4");
	assert_string_equal(spec_source(shared, kind), "here");
	assert_int_not_equal(first, second);
	assert_int_equal(spec_change(shared, kind), second);
	/* A shorter one leaves nothing of the longer. */
	change("1", NULL);
	assert_int_equal(spec_read(shared, kind, spec, &first), 0);
	assert_string_equal(spec, "1");
	assert_memory_equal(text() + 1, "\0\0\0\0\0\0\0\0", 8);
	assert_string_equal(spec_source(shared, kind), "");
	change("", "");
	assert_int_equal(spec_read(shared, kind, spec, &first), 0);
	assert_string_equal(spec, "");
}

static void test_the_longest_text(void **state)
{
	char spec[RATION_SPEC_BYTES], long_one[RATION_SPEC_BYTES];
	size_t n = 0;
	uint32_t number;

	(void)state;
	for (int i = 0; n + 16 < sizeof(long_one); i++)
		n += (size_t)snprintf(long_one + n, sizeof(long_one) - n, "%s%d:100", n ? "," : "",
				      i);
	change(long_one, "here");
	assert_int_equal(spec_read(shared, kind, spec, &number), 0);
	assert_string_equal(spec, long_one);
}

static void test_a_change_under_way(void **state)
{
	char spec[RATION_SPEC_BYTES];
	uint32_t number;

	(void)state;
	change("1", "here");
	spec_begin(shared, kind);
	assert_int_equal(spec_read(shared, kind, spec, &number), -EAGAIN);
	/* What a killed one left is no limit to anybody. */
	assert_int_not_equal(limits_check(kind, text(), LIMITS_ZERO_IS_NONE, NULL), 0);
	/* And the next one puts it right. */
	change("2", "there");
	assert_int_equal(spec_read(shared, kind, spec, &number), 0);
	assert_string_equal(spec, "2");
}

static void test_nonsense(void **state)
{
	char spec[RATION_SPEC_BYTES];
	uint32_t number;

	(void)state;
	change("1x", "here");
	assert_int_equal(spec_read(shared, kind, spec, &number), -EBADMSG);
	memset((char *)text(), '7', RATION_SPEC_BYTES);
	assert_int_equal(spec_read(shared, kind, spec, &number), -EBADMSG);
}

static _Atomic bool is_over;

static void *change_again_and_again(void *arg)
{
	for (int i = 0; i < 20000; i++)
		change(i % 2 ? "1,0:1,1:1,2:1,3:1,4:1,5:1" : "2,0:2,1:2,2:2,3:2,4:2,5:2", "here");
	atomic_store(&is_over, true);
	return arg;
}

/* The other kind's text and change stay as they are. */
static void test_the_other_kind(void **state)
{
	enum limits_kind other = kind == LIMITS_MEM ? LIMITS_SM : LIMITS_MEM;
	char spec[RATION_SPEC_BYTES];
	uint32_t number;

	(void)state;
	spec_begin(shared, other);
	spec_end(shared, other, "7", "there");
	number = spec_change(shared, other);
	spec_begin(shared, kind);
	assert_int_equal(spec_read(shared, other, spec, &number), 0);
	spec_end(shared, kind, "8", "here");
	assert_int_equal(spec_change(shared, other), number);
	assert_int_equal(spec_read(shared, other, spec, &number), 0);
	assert_string_equal(spec, "7");
	assert_string_equal(spec_source(shared, other), "there");
}

/* A text is read as it was at one moment. */
static void test_a_reader_beside_a_writer(void **state)
{
	char spec[RATION_SPEC_BYTES];
	uint32_t number;
	pthread_t writer;
	int whole = 0;

	(void)state;
	change("1,0:1,1:1,2:1,3:1,4:1,5:1", "here");
	atomic_store(&is_over, false);
	assert_int_equal(pthread_create(&writer, NULL, change_again_and_again, NULL), 0);
	while (!atomic_load(&is_over) || whole == 0) {
		if (spec_read(shared, kind, spec, &number) < 0)
			continue;
		whole++;
		for (size_t at = 2; spec[at]; at += 4)
			assert_int_equal(spec[at + 2], spec[0]);
	}
	pthread_join(writer, NULL);
}

/* A row of cmocka's table for a test of one kind's text. */
#define kind_test(f, k)                                          \
	{                                                        \
#f, f, share, unshare_it, (void *)(uintptr_t)(k) \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		kind_test(test_what_is_written_is_read, LIMITS_MEM),
		kind_test(test_what_is_written_is_read, LIMITS_SM),
		kind_test(test_the_longest_text, LIMITS_MEM),
		kind_test(test_the_longest_text, LIMITS_SM),
		kind_test(test_a_change_under_way, LIMITS_MEM),
		kind_test(test_a_change_under_way, LIMITS_SM),
		kind_test(test_nonsense, LIMITS_MEM),
		kind_test(test_nonsense, LIMITS_SM),
		kind_test(test_the_other_kind, LIMITS_MEM),
		kind_test(test_the_other_kind, LIMITS_SM),
		kind_test(test_a_reader_beside_a_writer, LIMITS_MEM),
		kind_test(test_a_reader_beside_a_writer, LIMITS_SM),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
