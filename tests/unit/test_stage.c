#include "core/stage.h"

#include "fresh.h"

#include <pthread.h>

enum { MARKS = 256 };

/* What the driver would say of each mark, and how often it was given back. */
static _Atomic int answers[MARKS], given[MARKS];

static enum stage_state ask(uint64_t mark)
{
	return (enum stage_state)answers[mark];
}

static void give(uint64_t mark)
{
	given[mark]++;
}

static void settle(void)
{
	stage_settle(ask, give);
}

/* What comes after some work of the stream; a new stage has this mark. */
static struct stage *note(uint64_t stream, uint64_t mark)
{
	struct stage *stage = stage_join(stream);

	if (!stage)
		stage = stage_make(stream, mark);
	if (stage)
		stage_put(stage, true);
	return stage;
}

static void it_is_passed_when_the_mark_is(void)
{
	struct stage *stage;

	stage_init();
	CHECK(!stage_any());
	settle();
	stage = note(7, 1);
	CHECK(stage && stage_any());
	CHECK_EQ(stage_stream(stage), 7);
	settle();
	CHECK_EQ(stage_state(stage), STAGE_RUNNING);
	CHECK_EQ(given[1], 0);
	answers[1] = STAGE_PASSED;
	settle();
	settle();
	CHECK_EQ(stage_state(stage), STAGE_PASSED);
	CHECK_EQ(given[1], 1);
	CHECK(!stage_any());
	stage_drop(stage);
	CHECK_EQ(stage_state(NULL), STAGE_LOST);
	CHECK_EQ(stage_stream(NULL), 0);
	stage_drop(NULL);
}

static void nobody_can_say(void)
{
	struct stage *lost, *unput;

	stage_init();
	lost = note(7, 1);
	answers[1] = STAGE_LOST;
	unput = stage_make(8, 2);
	stage_put(unput, false);
	CHECK_EQ(stage_state(unput), STAGE_LOST);
	settle();
	CHECK_EQ(stage_state(lost), STAGE_LOST);
	CHECK_EQ(given[1] + given[2], 2);
	CHECK(!stage_any());
	stage_drop(lost);
	stage_drop(unput);
}

/* The older mark stays where it is; the newer one goes on with what comes. */
static void a_stream_that_is_never_idle(void)
{
	struct stage *first, *second, *third;

	stage_init();
	first = note(7, 1);
	second = note(7, 2);
	third = note(7, 3);
	CHECK(first != second && second == third);
	CHECK_EQ(stage_mark(second), 2);
	answers[1] = STAGE_PASSED;
	settle();
	CHECK_EQ(stage_state(first), STAGE_PASSED);
	CHECK_EQ(stage_state(second), STAGE_RUNNING);
	/* And the newer one is the older one then. */
	stage_drop(third);
	third = note(7, 3);
	CHECK(third != second);
	stage_drop(first);
	stage_drop(second);
	stage_drop(third);
}

static void streams_have_their_own(void)
{
	struct stage *stages[4];

	stage_init();
	for (uint64_t i = 0; i < 4; i++)
		stages[i] = note(i / 2 + 1, i);
	CHECK(!stage_join(3));
	CHECK(stage_join(2) == stages[3]);
	/* Those of no stream that is known share nothing. */
	CHECK(!stage_join(0));
	CHECK(note(0, 5) != note(0, 6) && note(0, 7));
}

/* While somebody is about to move the mark what it says is not for what comes then. */
static void a_mark_on_its_way(void)
{
	struct stage *first, *second;

	stage_init();
	first = note(7, 1);
	second = stage_make(7, 2);
	answers[2] = STAGE_PASSED;
	settle();
	CHECK_EQ(stage_state(second), STAGE_RUNNING);
	stage_put(second, true);
	CHECK(stage_join(7) == second);
	settle();
	CHECK_EQ(stage_state(second), STAGE_RUNNING);
	stage_put(second, true);
	settle();
	CHECK_EQ(stage_state(second), STAGE_PASSED);
	CHECK_EQ(stage_state(first), STAGE_RUNNING);
}

static enum stage_state ask_and_join(uint64_t mark)
{
	(void)mark;
	stage_put(stage_join(7), true);
	return STAGE_PASSED;
}

/* The answer was given before the mark was moved on. */
static void a_mark_that_is_moved_meanwhile(void)
{
	struct stage *second;

	stage_init();
	note(7, 1);
	second = note(7, 2);
	stage_settle(ask_and_join, give);
	CHECK_EQ(stage_state(second), STAGE_RUNNING);
	CHECK_EQ(given[2], 0);
}

static void marks_are_few(void)
{
	unsigned count = 0;

	stage_init();
	while (count < MARKS && note(0, count))
		count++;
	CHECK(count > 0 && count < MARKS);
	for (unsigned i = 0; i < count; i++)
		answers[i] = STAGE_PASSED;
	settle();
	CHECK(!stage_any());
	CHECK(note(0, 0));
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *go_on(void *arg)
{
	uint64_t stream = 1 + (uintptr_t)arg % 2;

	for (int i = 0; i < ROUNDS; i++) {
		struct stage *stage = note(stream, stream), *more = stage_share(stage);

		stage_drop(stage);
		if (i % 3 == 0)
			settle();
		while (more && stage_state(more) == STAGE_RUNNING)
			settle();
		stage_drop(more);
	}
	return NULL;
}

static void threads_share_them(void)
{
	pthread_t threads[THREADS];

	stage_init();
	answers[1] = answers[2] = STAGE_PASSED;
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, go_on, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	settle();
	CHECK(!stage_any());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(it_is_passed_when_the_mark_is),
		fresh_test(nobody_can_say),
		fresh_test(a_stream_that_is_never_idle),
		fresh_test(streams_have_their_own),
		fresh_test(a_mark_on_its_way),
		fresh_test(a_mark_that_is_moved_meanwhile),
		fresh_test(marks_are_few),
		fresh_test(threads_share_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
