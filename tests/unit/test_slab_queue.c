#include "core/slab_queue.h"

#include "check.h"

#include <stdlib.h>

static void what_is_freed_first_is_due_first(void **state)
{
	struct slab_queue queue = { .head = NULL };

	(void)state;
	assert_false(slab_queue_is_due(&queue, UINT64_MAX));
	assert_int_equal(slab_queue_first(&queue), 0);
	assert_int_equal(slab_queue_last(&queue), 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_ok(slab_queue_prepare(&queue));
	slab_queue_push(&queue, 7, 10);
	slab_queue_push(&queue, 8, 10);
	/* It was numbered before: it is due with those that were freed before it. */
	slab_queue_push(&queue, 9, 5);
	slab_queue_push(&queue, 3, 20);
	assert_int_equal(slab_queue_first(&queue), 10);
	assert_int_equal(slab_queue_last(&queue), 20);
	assert_false(slab_queue_is_due(&queue, 9));
	assert_true(slab_queue_is_due(&queue, 10));
	assert_int_equal(slab_queue_pop(&queue), 7);
	assert_int_equal(slab_queue_pop(&queue), 8);
	assert_int_equal(slab_queue_pop(&queue), 9);
	assert_false(slab_queue_is_due(&queue, 19));
	assert_true(slab_queue_is_due(&queue, 20));
	assert_int_equal(slab_queue_pop(&queue), 3);
	assert_false(slab_queue_is_due(&queue, UINT64_MAX));
	slab_queue_clear(&queue);
}

/*
 * More fences than it can tell apart: what comes last waits longer, nothing for less than it must.
 */
static void many_fences(void **state)
{
	enum { RUNS = 3 * SLAB_QUEUE_BATCHES };
	struct slab_queue queue = { .head = NULL };

	(void)state;
	for (uint32_t i = 0; i < RUNS; i++) {
		assert_ok(slab_queue_prepare(&queue));
		slab_queue_push(&queue, i, i + 1);
	}
	assert_int_equal(slab_queue_last(&queue), RUNS);
	for (uint32_t i = 0; i < RUNS; i++) {
		assert_false(slab_queue_is_due(&queue, i));
		assert_int_equal(slab_queue_is_due(&queue, i + 1),
				 i + 1 < SLAB_QUEUE_BATCHES || i + 1 == RUNS);
		if (i + 1 < SLAB_QUEUE_BATCHES)
			assert_int_equal(slab_queue_pop(&queue), i);
	}
	for (uint32_t i = SLAB_QUEUE_BATCHES - 1; i < RUNS; i++)
		assert_int_equal(slab_queue_pop(&queue), i);
	slab_queue_clear(&queue);
}

/* However pushes and pops mix, there is a place for each that was prepared for. */
static void there_is_always_a_place(void **state)
{
	struct slab_queue queue = { .head = NULL };
	uint32_t pushed = 0, popped = 0;
	unsigned seed = 1, prepared = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		/* It fills for a while, then drains for a while. */
		unsigned way = (unsigned)rand_r(&seed) % (i / 20000 % 2 ? 7 : 5);

		if (way < 2 || (way == 2 && prepared == 0)) {
			assert_ok(slab_queue_prepare(&queue));
			prepared++;
		} else if (way < 4 && prepared) {
			slab_queue_push(&queue, pushed++, (uint64_t)i / 100 + 1);
			prepared--;
		} else if (way == 4 && prepared && rand_r(&seed) % 8 == 0) {
			slab_queue_discard(&queue);
			prepared--;
		} else if (popped < pushed) {
			assert_int_equal(slab_queue_pop(&queue), popped);
			popped++;
		}
	}
	while (prepared-- > 0)
		slab_queue_push(&queue, pushed++, UINT64_MAX);
	for (; popped < pushed; popped++)
		assert_int_equal(slab_queue_pop(&queue), popped);
	assert_int_equal(queue.room, 0);
	assert_true(queue.pieces < 30);
	slab_queue_clear(&queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_freed_first_is_due_first),
		cmocka_unit_test(many_fences),
		cmocka_unit_test(there_is_always_a_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
