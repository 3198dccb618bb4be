#include "core/tiles.h"

#include "core/context.h"
#include "fresh.h"

#include <pthread.h>

#define MIB (UINT64_C(1) << 20)

static const struct dev dev0 = { 0 };
static const char arrays[4];
static const void *const array = &arrays[0], *const other_array = &arrays[1];

enum { STREAM = 7, OTHER_STREAM = 8 };

/* Marks are the streams' numbers: how far each has come. */
static bool has_come[16];

static enum stage_state ask(uint64_t mark)
{
	return has_come[mark] ? STAGE_PASSED : STAGE_RUNNING;
}

static void give(uint64_t mark)
{
	(void)mark;
}

static struct stage *note(uint64_t stream)
{
	struct stage *stage = stage_join(stream);

	if (!stage)
		stage = stage_make(stream, stream);
	CHECK(stage);
	stage_put(stage, true);
	return stage;
}

static void start(void)
{
	handle_init();
	context_init();
	tiles_init();
}

/* Memory of so many MiB, with that as its handle. */
static void enter(uint64_t mib)
{
	struct handle_node *node = handle_prepare();
	struct handle_freed stale;

	CHECK(node);
	handle_enter(node, mib, dev0, mib * MIB, &stale);
	CHECK_EQ(stale.bytes, 0);
}

/* In MiB, as all that follow. */
static uint64_t release(uint64_t handle)
{
	struct handle_node *node = handle_release(handle);

	CHECK(node);
	return handle_released(node).bytes / MIB;
}

static struct tiles_region level(uint64_t x, uint64_t y, uint64_t width, uint64_t height)
{
	return (struct tiles_region){ .from = { 0, y, x }, .extent = { 1, height, width } };
}

static struct tiles *use(uint64_t handle)
{
	struct tiles *mapping = tiles_prepare();

	CHECK(mapping);
	tiles_use(mapping, handle);
	return mapping;
}

/* One step; to unmap without a handle. */
static void call(const void *in, struct tiles_region region, uint64_t handle, uint64_t stream)
{
	struct tiles_step step = { in, region, handle ? use(handle) : NULL };
	uint64_t mark = tiles_mark();
	struct stage *stage = stream ? note(stream) : NULL;

	tiles_call(&step, 1, mark, stage);
	stage_drop(stage);
}

/* Memory that nothing holds but the mapping. */
static void map(const void *in, struct tiles_region region, uint64_t mib)
{
	enter(mib);
	call(in, region, mib, STREAM);
	CHECK_EQ(release(mib), 0);
}

static void unmap(const void *in, struct tiles_region region)
{
	call(in, region, 0, STREAM);
}

/* What has been unmapped where this stream has come to all that was given to it. */
static uint64_t settled(uint64_t stream)
{
	uint64_t freed[RATION_DEVICES] = { 0 };

	has_come[stream] = true;
	if (stage_settle(ask, give))
		tiles_note_end();
	has_come[stream] = false;
	if (tiles_is_due())
		tiles_settle(freed);
	CHECK(!tiles_is_due());
	return freed[0] / MIB;
}

static uint64_t destroy(const void *which)
{
	uint64_t freed[RATION_DEVICES] = { 0 };

	tiles_ended(tiles_take(which), freed);
	return freed[0] / MIB;
}

static void a_mapping_holds_the_memory(void)
{
	struct tiles_region r = level(0, 0, 2, 2);

	start();
	map(array, r, 1);
	CHECK_EQ(settled(STREAM), 0);
	unmap(array, r);
	CHECK(!tiles_is_due());
	CHECK_EQ(settled(OTHER_STREAM), 0);
	CHECK_EQ(settled(STREAM), 1);
	enter(1);
	call(array, r, 1, STREAM);
	unmap(array, r);
	CHECK_EQ(settled(STREAM), 0);
	CHECK_EQ(release(1), 1);
	tiles_discard(NULL);
	tiles_discard(tiles_prepare());
}

/* Of what is held otherwise too the driver's figure has it all. */
static void what_no_figure_shows(void)
{
	uint64_t freed[RATION_DEVICES] = { 0 };
	struct handle_node *node = handle_prepare();

	start();
	enter(1);
	call(array, level(0, 0, 1, 1), 1, STREAM);
	call(array, level(1, 0, 1, 1), 1, STREAM);
	CHECK_EQ(handle_unseen(dev0), 0);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(handle_unseen(dev0), MIB);
	enter(2);
	handle_use(node, 2);
	handle_map(node, 16 * MIB, 2 * MIB, freed);
	call(array, level(2, 0, 1, 1), 2, STREAM);
	CHECK_EQ(release(2), 0);
	CHECK_EQ(handle_unseen(dev0), MIB);
	handle_unmapped(handle_unmap(16 * MIB, 2 * MIB), freed);
	CHECK_EQ(freed[0], 0);
	CHECK_EQ(handle_unseen(dev0), 3 * MIB);
	unmap(array, level(0, 0, 1, 1));
	CHECK_EQ(settled(STREAM), 0);
	CHECK_EQ(handle_unseen(dev0), 3 * MIB);
	unmap(array, level(0, 0, 4, 1));
	CHECK_EQ(settled(STREAM), 3);
	CHECK_EQ(handle_unseen(dev0), 0);
}

/* The use of a value that is entered later. */
static void what_is_used_before_it_is_entered(void)
{
	struct tiles *mapping;

	start();
	mapping = use(1);
	CHECK_EQ(handle_unseen(dev0), 0);
	enter(1);
	CHECK_EQ(handle_unseen(dev0), 0);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(handle_unseen(dev0), MIB);
	CHECK_EQ(tiles_refused(mapping).bytes, MIB);
	CHECK_EQ(handle_unseen(dev0), 0);
}

static void what_lies_in_the_region_goes(void)
{
	start();
	/* Four by four. */
	for (uint64_t i = 0; i < 16; i++)
		map(array, level(i % 4 * 10, i / 4 * 10, 10, 10), UINT64_C(1) << i);
	unmap(array, level(10, 10, 20, 20));
	CHECK_EQ(settled(STREAM), 1 << 5 | 1 << 6 | 1 << 9 | 1 << 10);
	unmap(array, level(10, 10, 20, 20));
	CHECK_EQ(settled(STREAM), 0);
	unmap(array, level(0, 30, 40, 10));
	CHECK_EQ(settled(STREAM), 0xf000);
	unmap(array, level(30, 0, 10, 40));
	CHECK_EQ(settled(STREAM), 0x0888);
	/* All that is left. */
	unmap(array, level(0, 0, UINT64_MAX, UINT64_MAX));
	CHECK_EQ(settled(STREAM), 0x0117);
}

static void parts_are_told_apart(void)
{
	struct tiles_region r = level(0, 0, 8, 8), tail, other;

	start();
	map(array, r, 1);
	map(other_array, r, 2);
	other = r;
	other.level = 1;
	map(array, other, 4);
	other = r;
	other.layer = 1;
	map(array, other, 8);
	other = r;
	other.from[0] = 3;
	map(array, other, 16);
	tail = (struct tiles_region){ .kind = TILES_TAIL, .extent = { 1, 1, 8 } };
	map(array, tail, 32);
	unmap(array, r);
	CHECK_EQ(settled(STREAM), 1);
	unmap(array, tail);
	CHECK_EQ(settled(STREAM), 32);
	r.extent[0] = 4;
	unmap(array, r);
	CHECK_EQ(settled(STREAM), 16);
	CHECK_EQ(destroy(array), 4 + 8);
	CHECK_EQ(destroy(array), 0);
	CHECK_EQ(destroy(other_array), 2);
}

static void parts_of_a_mapping_hold_all_of_it(void)
{
	start();
	map(array, level(0, 0, 4, 1), 1);
	for (uint64_t x = 0; x < 4; x++)
		unmap(array, level(x, 0, 1, 1));
	unmap(array, level(1, 0, 10, 1));
	unmap(array, level(0, 0, 3, 1));
	CHECK_EQ(settled(STREAM), 0);
	unmap(array, level(0, 0, 4, 1));
	CHECK_EQ(settled(STREAM), 1);
}

static void a_new_mapping_replaces(void)
{
	start();
	map(array, level(0, 0, 2, 2), 1);
	map(array, level(0, 0, 2, 2), 2);
	CHECK_EQ(settled(STREAM), 1);
	/* It covers a corner only. */
	map(array, level(0, 0, 1, 1), 4);
	CHECK_EQ(settled(STREAM), 0);
	map(array, level(0, 0, 4, 4), 8);
	CHECK_EQ(settled(STREAM), 2 + 4);
	CHECK_EQ(destroy(array), 8);
}

/* Which comes first only the streams know. */
static void an_unmapping_in_another_stream(void)
{
	struct tiles_region r = level(0, 0, 2, 2);

	start();
	map(array, r, 1);
	call(array, r, 0, OTHER_STREAM);
	CHECK_EQ(settled(OTHER_STREAM), 0);
	CHECK_EQ(settled(STREAM), 0);
	call(array, r, 0, OTHER_STREAM);
	CHECK_EQ(settled(STREAM), 0);
	CHECK_EQ(settled(OTHER_STREAM), 1);
}

static void what_has_no_mark_stays(void)
{
	struct tiles_region r = level(0, 0, 2, 2);

	start();
	map(array, r, 1);
	call(array, r, 0, 0);
	CHECK_EQ(settled(STREAM), 0);
	unmap(array, r);
	CHECK_EQ(settled(STREAM), 1);
	enter(2);
	call(array, r, 2, 0);
	CHECK_EQ(release(2), 0);
	unmap(array, r);
	CHECK_EQ(settled(STREAM), 0);
	CHECK_EQ(destroy(array), 2);
}

static void a_mark_that_is_lost(void)
{
	struct tiles_step step = { array, level(0, 0, 2, 2), NULL };
	struct stage *stage;

	start();
	map(array, step.region, 1);
	CHECK_EQ(settled(STREAM), 0);
	stage = stage_make(STREAM, STREAM);
	stage_put(stage, false);
	tiles_call(&step, 1, tiles_mark(), stage);
	stage_drop(stage);
	/* Nobody says that of a mark that is lost from the first. */
	CHECK(tiles_is_due());
	CHECK_EQ(settled(STREAM), 0);
	unmap(array, step.region);
	CHECK_EQ(settled(STREAM), 1);
}

/* A call that began before a mapping was there does not end it; nor one that makes it. */
static void calls_at_the_same_time(void)
{
	struct tiles_step steps[3] = { { array, level(0, 0, 2, 2), NULL },
				       { array, level(0, 0, 2, 2), NULL },
				       { array, level(0, 0, 2, 2), NULL } };
	struct stage *stage;
	uint64_t mark;

	start();
	mark = tiles_mark();
	map(array, steps[0].region, 1);
	stage = note(STREAM);
	tiles_call(steps, 1, mark, stage);
	CHECK_EQ(settled(STREAM), 0);
	stage_drop(stage);
	enter(2);
	steps[1].mapping = use(2);
	CHECK_EQ(release(2), 0);
	stage = note(STREAM);
	tiles_call(steps, 3, tiles_mark(), stage);
	stage_drop(stage);
	CHECK_EQ(settled(STREAM), 1);
	CHECK_EQ(destroy(array), 2);
}

static void what_the_driver_refuses(void)
{
	struct tiles *mapping;

	start();
	enter(1);
	mapping = use(1);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(tiles_refused(mapping).bytes, MIB);
}

static void arrays_end_or_do_not(void)
{
	struct tiles_region r = level(0, 0, 2, 2);
	uint64_t freed[RATION_DEVICES] = { 0 };
	struct tiles_array taken;

	start();
	tiles_made(array, arrays, false, freed);
	map(array, r, 1);
	map(array, level(2, 0, 2, 2), 2);
	unmap(array, r);
	taken = tiles_take(array);
	CHECK_EQ(settled(STREAM), 0);
	tiles_put_back(taken);
	CHECK(tiles_is_due());
	CHECK_EQ(settled(STREAM), 1);
	map(array, r, 4);
	unmap(array, r);
	CHECK_EQ(destroy(array), 2 + 4);
	CHECK_EQ(settled(STREAM), 0);
	/* It ended unseen. */
	tiles_made(array, arrays, false, freed);
	map(array, r, 1);
	tiles_made(array, arrays, false, freed);
	CHECK_EQ(freed[0], MIB);
	CHECK_EQ(destroy(array), 0);
}

static void contexts_end_their_arrays(void)
{
	uint64_t freed[RATION_DEVICES] = { 0 }, mark;
	struct tiles_region r = level(0, 0, 2, 2);
	const void *ctx = &arrays[2];

	start();
	tiles_made(array, ctx, false, freed);
	tiles_made(other_array, &arrays[3], false, freed);
	map(array, r, 1);
	map(array, level(2, 2, 2, 2), 2);
	map(other_array, r, 4);
	map(&arrays[3], r, 8);
	unmap(array, r);
	mark = context_mark();
	tiles_end_context(NULL, mark, freed);
	CHECK_EQ(freed[0], 0);
	tiles_end_context(ctx, mark, freed);
	CHECK_EQ(freed[0], 3 * MIB);
	CHECK_EQ(settled(STREAM), 0);
	/* What comes to another of that handle stays. */
	context_enter(ctx, dev0, 0);
	tiles_made(array, ctx, false, freed);
	map(array, r, 1);
	tiles_end_context(ctx, mark, freed);
	CHECK_EQ(freed[0], 3 * MIB);
	CHECK_EQ(destroy(array), 1);
	CHECK_EQ(destroy(other_array), 4);
}

/* Whatever region is named. */
static void an_array_that_is_mapped_as_one(void)
{
	uint64_t freed[RATION_DEVICES] = { 0 };

	start();
	tiles_made(array, arrays, true, freed);
	map(array, level(5, 5, 1, 1), 1);
	map(array, level(0, 0, 0, 0), 2);
	CHECK_EQ(settled(STREAM), 1);
	unmap(array, level(9, 9, 9, 9));
	CHECK_EQ(settled(STREAM), 2);
}

static void a_child_has_nothing(void)
{
	struct tiles_region r = level(0, 0, 2, 2);
	int status;
	pid_t pid;

	start();
	map(array, r, 1);
	unmap(array, r);
	pid = fork();
	if (pid == 0)
		_exit(tiles_is_due() || stage_any() || destroy(array) != 0);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(settled(STREAM), 1);
}

enum { THREADS = 4, ROUNDS = 500 };

/* Each in a row, by a handle and in a stream of its own. */
static void *change(void *arg)
{
	uint64_t own = (uintptr_t)arg + 1, freed = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct tiles_region r = level(0, own, 2, 1);
		uint64_t more[RATION_DEVICES] = { 0 };

		enter(own);
		call(array, r, own, own);
		freed += release(own);
		call(array, r, 0, own);
		if (stage_settle(ask, give))
			tiles_note_end();
		if (tiles_is_due())
			tiles_settle(more);
		freed += more[0] / MIB;
	}
	return (void *)(uintptr_t)freed;
}

static void threads_share_an_array(void)
{
	uint64_t freed = 0, want = 0, more[RATION_DEVICES] = { 0 };
	pthread_t threads[THREADS];

	start();
	for (int i = 0; i <= THREADS; i++)
		has_come[i] = true;
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, change, (void *)i) == 0);
	for (unsigned i = 0; i < THREADS; i++) {
		void *its;

		pthread_join(threads[i], &its);
		freed += (uintptr_t)its;
		want += ROUNDS * (i + 1);
	}
	if (stage_settle(ask, give))
		tiles_note_end();
	if (tiles_is_due())
		tiles_settle(more);
	CHECK_EQ(freed + more[0] / MIB, want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(a_mapping_holds_the_memory),
		fresh_test(what_no_figure_shows),
		fresh_test(what_is_used_before_it_is_entered),
		fresh_test(what_lies_in_the_region_goes),
		fresh_test(parts_are_told_apart),
		fresh_test(parts_of_a_mapping_hold_all_of_it),
		fresh_test(a_new_mapping_replaces),
		fresh_test(an_unmapping_in_another_stream),
		fresh_test(what_has_no_mark_stays),
		fresh_test(a_mark_that_is_lost),
		fresh_test(calls_at_the_same_time),
		fresh_test(what_the_driver_refuses),
		fresh_test(arrays_end_or_do_not),
		fresh_test(contexts_end_their_arrays),
		fresh_test(an_array_that_is_mapped_as_one),
		fresh_test(a_child_has_nothing),
		fresh_test(threads_share_an_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
