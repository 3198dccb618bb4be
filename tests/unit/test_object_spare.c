/*
 * What was freed and is kept whole: it is had again without the driver, only when its work is done,
 * and it is nobody's loss.
 */
#include "object_gpu.h"

#include "base/bytes.h"
#include "core/bo_device.h"
#include "core/object_context.h"
#include "core/object_evict.h"
#include "core/object_pin.h"
#include "core/object_use.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)

static uint64_t take(uint64_t bytes)
{
	uint64_t addr;

	CHECK_EQ(object_alloc(dev0, &contexts[0], bytes, &addr), 0);
	return addr;
}

static void give(uint64_t addr)
{
	CHECK_EQ(object_free(addr), 0);
}

/* All work that was submitted is done. */
static void all_is_done(void)
{
	atomic_store(&gpu.done, atomic_fetch_add(&gpu.epoch, 1) + 1);
}

static uint64_t idle(void)
{
	return residency_idle(member.region.own, member.slot.index, 0);
}

/* Nothing would ever go without it. */
static void none_is_kept_without_a_worker(void)
{
	start("8g", RATION_FLAG_MOVABLE);
	object_device_of(dev0)->spares.bound_bytes = 0;
	give(take(16 * MIB));
	CHECK_EQ(idle(), 0);
	object_tick(NULL);
	give(take(16 * MIB));
	CHECK_EQ(idle(), 16 * MIB);
}

static void free_and_take(uint64_t bytes, uint64_t again_bytes)
{
	uint64_t addr = take(bytes), charged_bytes = charged();
	struct object_info info, again;
	unsigned steps = gpu.steps;

	CHECK(object_find(addr, &info));
	give(addr);
	all_is_done();
	CHECK(!object_find(addr, &again));
	CHECK_EQ(object_free(addr), -EINVAL);
	CHECK(!object_use(addr, 1));
	CHECK_EQ(idle(), bytes_round_up(bytes, BLOCK));
	CHECK_EQ(charged(), charged_bytes);
	CHECK(object_idle_bytes(dev0) >= idle());
	CHECK_EQ(take(again_bytes), addr);
	CHECK_EQ(gpu.steps, steps);
	CHECK_EQ(charged(), charged_bytes);
	CHECK_EQ(idle(), 0);
	CHECK(object_find(addr, &again));
	CHECK(again.id != info.id && again.bytes == again_bytes);
	CHECK(object_use(addr, again_bytes) && !object_use(addr, again_bytes + 1));
	check_figures();
}

static void it_is_had_again_without_the_driver(void)
{
	start("8g", RATION_FLAG_MOVABLE);
	free_and_take(BLOCK, BLOCK);
	free_and_take(16 * MIB, 16 * MIB);
	free_and_take(300 * MIB, 300 * MIB);
	free_and_take(GIB, GIB);
	/* In the same blocks. */
	free_and_take(20 * MIB, 20 * MIB - 1000);
	free_and_take(20 * MIB - 1000, 20 * MIB);
}

/* Not by another context: with the end of its own the mapping may end. */
static void sizes_and_contexts(void)
{
	uint64_t addr, other;

	start("8g", RATION_FLAG_MOVABLE);
	addr = take(16 * MIB);
	give(addr);
	all_is_done();
	CHECK(take(14 * MIB) != addr);
	CHECK(take(18 * MIB) != addr);
	CHECK_EQ(idle(), 16 * MIB);
	CHECK_EQ(object_alloc(dev0, &contexts[1], 16 * MIB, &other), 0);
	CHECK(other != addr);
	CHECK_EQ(take(16 * MIB), addr);
	CHECK_EQ(idle(), 0);
	check_figures();
}

static void what_was_freed_last_is_had_first(void)
{
	uint64_t addrs[3];

	start("8g", RATION_FLAG_MOVABLE);
	for (int i = 0; i < 3; i++)
		addrs[i] = take(4 * MIB);
	for (int i = 0; i < 3; i++)
		give(addrs[i]);
	all_is_done();
	for (int i = 2; i >= 0; i--)
		CHECK_EQ(take(4 * MIB), addrs[i]);
}

/* The one whose work is done, whenever it was freed; none is waited for. */
static void its_work_has_to_be_done(void)
{
	uint64_t first, second, third;

	start("8g", RATION_FLAG_MOVABLE);
	gpu.ends_when_waited_for = false;
	first = take(4 * MIB);
	second = take(4 * MIB);
	give(first);
	atomic_store(&gpu.epoch, 1);
	give(second);
	third = take(4 * MIB);
	CHECK(third != first && third != second);
	atomic_store(&gpu.done, 1);
	CHECK_EQ(take(4 * MIB), first);
	CHECK(take(4 * MIB) != second);
	CHECK_EQ(idle(), 4 * MIB);
	atomic_store(&gpu.done, 2);
	CHECK_EQ(take(4 * MIB), second);
	check_figures();
}

/* A gigabyte of a limit of four: what was freed first goes first. */
static void no_more_than_so_much_is_kept(void)
{
	uint64_t addrs[8];

	start("4g", RATION_FLAG_MOVABLE);
	for (int i = 0; i < 8; i++)
		addrs[i] = take(256 * MIB);
	all_is_done();
	for (int i = 0; i < 8; i++) {
		give(addrs[i]);
		all_is_done();
		CHECK(idle() <= GIB);
		check_figures();
	}
	CHECK_EQ(idle(), GIB);
	CHECK_EQ(charged(), GIB);
	give(take(2 * GIB));
	CHECK_EQ(idle(), GIB);
	for (int i = 7; i >= 4; i--)
		CHECK_EQ(take(256 * MIB), addrs[i]);
	CHECK_EQ(idle(), 0);
	/* The limit fell: all of it may be somebody's. */
	give(addrs[7]);
	region_set_limit(member.region.hami, member.region.own, 0, 512 * MIB);
	object_tick(NULL);
	CHECK_EQ(idle(), 0);
	check_figures();
}

/* Whoever is refused has had all of it before, whatever it asks for. */
static void it_goes_before_anything_is_refused(void)
{
	uint64_t addr, other;

	start("1g", RATION_FLAG_MOVABLE);
	give(take(512 * MIB));
	take(600 * MIB);
	CHECK_EQ(idle(), 0);
	give(take(424 * MIB));
	CHECK_EQ(charged(), GIB);
	addr = take(100);
	CHECK_EQ(idle(), 0);
	CHECK_EQ(object_alloc(dev0, &contexts[0], 424 * MIB, &other), -EDQUOT);
	give(addr);
	/* It waits for its work, and so does who needs it. */
	gpu.ends_when_waited_for = true;
	addr = take(420 * MIB);
	give(addr);
	other = take(422 * MIB);
	CHECK_EQ(idle(), 0);
	give(other);
	check_figures();
}

static void it_goes_when_the_card_is_full(void)
{
	start("8g", RATION_FLAG_MOVABLE);
	gpu.room[BO_VRAM] = 100 * MIB;
	give(take(80 * MIB));
	all_is_done();
	take(60 * MIB);
	CHECK_EQ(idle(), 0);
	give(take(32 * MIB));
	all_is_done();
	take(100);
	take(38 * MIB - BLOCK);
	CHECK_EQ(idle(), 0);
	check_figures();
}

/* Nothing lies in host memory for it, and while something does none is kept. */
static void it_goes_before_anything_leaves_the_card(void)
{
	uint64_t near, far;

	start("8g", RATION_FLAG_OVERSUBSCRIBE);
	member.region.own->resident_bytes = 100 * MIB;
	object_tick(NULL);
	give(take(50 * MIB));
	CHECK_EQ(idle(), 50 * MIB);
	all_is_done();
	near = take(80 * MIB);
	CHECK_EQ(gpu.taken[BO_GTT], 0);
	CHECK_EQ(idle(), 0);
	far = take(40 * MIB);
	CHECK_EQ(gpu.taken[BO_GTT], 40 * MIB);
	object_tick(NULL);
	give(near);
	all_is_done();
	object_reclaim(dev0, 0);
	CHECK_EQ(idle(), 0);
	give(far);
	all_is_done();
	object_tick(NULL);
	give(take(30 * MIB));
	CHECK_EQ(idle(), 30 * MIB);
	/* The card is wanted for what cannot move: that goes, and nothing is moved. */
	near = take(20 * MIB);
	all_is_done();
	CHECK(object_evict(dev0, 30 * MIB));
	CHECK_EQ(gpu.taken[BO_GTT], 0);
	CHECK_EQ(gpu.taken[BO_VRAM], 20 * MIB);
	give(take(30 * MIB));
	all_is_done();
	member.region.own->room_blocks[0] = 15;
	object_tick(NULL);
	CHECK_EQ(member.region.own->room_blocks[0], 0);
	CHECK_EQ(gpu.taken[BO_GTT], 0);
	CHECK_EQ(gpu.taken[BO_VRAM], 20 * MIB);
	give(near);
	check_figures();
}

/* One that went to host memory as if it were somebody's is not given out: fresh memory is near. */
static void one_that_was_moved_is_not_had(void)
{
	struct bo_ctx ctx = { 0 };
	uint64_t addr, gone;

	start("8g", RATION_FLAG_OVERSUBSCRIBE);
	addr = take(32 * MIB);
	give(addr);
	all_is_done();
	CHECK_EQ(bo_evict(object_bos(dev0), BO_VRAM, 32 * MIB, &ctx, &gone), 0);
	CHECK_EQ(gpu.taken[BO_GTT], 32 * MIB);
	CHECK(take(32 * MIB) != addr);
	object_tick(NULL);
	CHECK_EQ(gpu.taken[BO_GTT], 0);
	check_figures();
}

static void who_is_held_keeps_none(void)
{
	uint64_t addr;

	start("8g", RATION_FLAG_MOVABLE);
	addr = take(32 * MIB);
	give(take(64 * MIB));
	all_is_done();
	object_keep(false);
	CHECK_EQ(idle(), 0);
	CHECK_EQ(charged(), 32 * MIB);
	give(addr);
	all_is_done();
	object_reclaim(dev0, 0);
	CHECK_EQ(charged(), 0);
	object_keep(true);
	give(take(64 * MIB));
	CHECK_EQ(idle(), 64 * MIB);
}

/* Who has its addresses might use it still. */
static void what_others_had_is_not_kept(void)
{
	struct object_info info;
	uint64_t addr;

	start("8g", RATION_FLAG_MOVABLE);
	addr = take(32 * MIB);
	CHECK(object_find(addr, &info));
	CHECK_EQ(object_pin(addr, info.id), 0);
	all_is_done();
	give(addr);
	CHECK_EQ(idle(), 0);
	/* What has its addresses after it is another. */
	addr = take(32 * MIB);
	give(addr);
	CHECK_EQ(idle(), 32 * MIB);
}

static void it_ends_with_a_context(void)
{
	start("8g", RATION_FLAG_MOVABLE);
	take(16 * MIB);
	give(take(32 * MIB));
	all_is_done();
	object_context_put_back(object_context_take(&contexts[0]));
	CHECK_EQ(idle(), 32 * MIB);
	object_context_end(object_context_take(&contexts[0]));
	CHECK_EQ(idle(), 0);
	CHECK_EQ(charged(), 0);
}

/* However long that takes. */
static void one_that_is_not_wanted_goes(void)
{
	start("8g", RATION_FLAG_MOVABLE);
	give(take(32 * MIB));
	all_is_done();
	while (idle()) {
		object_tick(NULL);
		usleep(10000);
	}
	CHECK_EQ(charged(), 0);
	check_figures();
}

/* Of 16 GiB: others on the card, who cannot ask for it, are to find some. */
static void none_is_kept_on_a_full_card(void)
{
	start("8g", RATION_FLAG_MOVABLE);
	card_free_bytes = 15 * GIB;
	give(take(32 * MIB));
	all_is_done();
	object_tick(NULL);
	CHECK_EQ(idle(), 32 * MIB);
	card_free_bytes = GIB - 1;
	object_tick(NULL);
	CHECK_EQ(idle(), 0);
	give(take(32 * MIB));
	CHECK_EQ(idle(), 0);
	card_free_bytes = 2 * GIB - 1;
	object_tick(NULL);
	give(take(32 * MIB));
	CHECK_EQ(idle(), 0);
	card_free_bytes = 2 * GIB;
	object_tick(NULL);
	give(take(32 * MIB));
	CHECK_EQ(idle(), 32 * MIB);
	/* As much as is kept has to be there beside it. */
	give(take(800 * MIB));
	card_free_bytes = 0;
	all_is_done();
	object_tick(NULL);
	CHECK_EQ(idle(), 0);
	CHECK_EQ(charged(), 0);
	/* Who does not know keeps them. */
	card_free_bytes = UINT64_MAX;
	object_tick(NULL);
	give(take(32 * MIB));
	object_tick(NULL);
	CHECK_EQ(idle(), 32 * MIB);
}

static void others_have_it_when_they_ask(void)
{
	start("8g", RATION_FLAG_MOVABLE);
	give(take(32 * MIB));
	all_is_done();
	object_tick(NULL);
	__atomic_fetch_add(&member.region.own->room_wanted, 1, __ATOMIC_RELEASE);
	object_tick(NULL);
	CHECK_EQ(idle(), 0);
	CHECK_EQ(charged(), 0);
	/* Nobody else has any, so nobody is asked. */
	give(take(32 * MIB));
	CHECK(!others_give(dev0, UINT64_MAX));
	CHECK_EQ(idle(), 32 * MIB);
}

/* Which are kept, in the order of their frees. */
enum { KINDS = 4, LIVE = 24, KEPT = 4096 };
/* An eighth of the limit. */
#define BOUND_BYTES (8 * GIB)

static const uint64_t kinds[KINDS] = { BLOCK, 130 * BLOCK, 8 * BLOCK, 66 * BLOCK };

static struct {
	struct {
		uint64_t addr, bytes, fence;
	} live[LIVE], kept[KEPT];
	unsigned live_count, kept_count;
	uint64_t kept_bytes;
	unsigned seed;
} model;

static unsigned draw(unsigned below)
{
	return (unsigned)rand_r(&model.seed) % below;
}

static void forget(unsigned i)
{
	model.kept_bytes -= model.kept[i].bytes;
	model.kept_count--;
	memmove(&model.kept[i], &model.kept[i + 1], (model.kept_count - i) * sizeof(model.kept[0]));
}

/* The one freed last of those that are done, of the size; -1: none. */
static int find_kept(uint64_t bytes)
{
	for (int i = (int)model.kept_count - 1; i >= 0; i--)
		if (model.kept[i].bytes == bytes && model.kept[i].fence <= gpu.done)
			return i;
	return -1;
}

static void model_take(void)
{
	uint64_t bytes = kinds[draw(KINDS)], addr;
	unsigned steps = gpu.steps;
	int at = find_kept(bytes);

	if (model.live_count == LIVE)
		return;
	addr = take(bytes);
	CHECK_EQ(gpu.steps == steps, at >= 0);
	if (at >= 0) {
		CHECK_EQ(addr, model.kept[at].addr);
		forget((unsigned)at);
	}
	model.live[model.live_count].addr = addr;
	model.live[model.live_count++].bytes = bytes;
}

static void model_give(void)
{
	unsigned i = draw(model.live_count);

	while (model.kept_bytes + model.live[i].bytes > BOUND_BYTES)
		forget(0);
	model.kept[model.kept_count].addr = model.live[i].addr;
	model.kept[model.kept_count].bytes = model.live[i].bytes;
	model.kept[model.kept_count++].fence = gpu.epoch + 1;
	model.kept_bytes += model.live[i].bytes;
	give(model.live[i].addr);
	model.live[i] = model.live[--model.live_count];
}

static void model_step(void)
{
	unsigned what = draw(100);

	if (what < 45 || !model.live_count) {
		model_take();
	} else if (what < 90) {
		model_give();
	} else if (what < 98) {
		atomic_fetch_add(&gpu.epoch, 1);
		if (draw(2))
			atomic_store(&gpu.done,
				     gpu.epoch - draw((unsigned)(gpu.epoch - gpu.done) + 1));
		/* What is done is known. */
		object_idle_bytes(dev0);
	} else if (what < 99) {
		object_reclaim(dev0, 0);
		while (model.kept_count)
			forget(0);
	} else {
		others_give(dev0, UINT64_MAX);
	}
}

static void random_programs(void)
{
	start("64g", RATION_FLAG_MOVABLE);
	for (model.seed = 1; model.seed < 8; model.seed += 2) {
		unsigned kept = 0;

		for (unsigned s = 0; s < 4000; s++) {
			uint64_t live_bytes = 0;

			model_step();
			CHECK(model.kept_count < KEPT);
			for (unsigned i = 0; i < model.live_count; i++)
				live_bytes += model.live[i].bytes;
			CHECK_EQ(idle(), model.kept_bytes);
			CHECK(charged() >= live_bytes + model.kept_bytes);
			CHECK(object_idle_bytes(dev0) == charged() - live_bytes);
			check_figures();
			kept += model.kept_count;
		}
		CHECK(kept > 0);
	}
}

enum { THREADS = 4, STEPS = BUILD_SANITIZED ? 1500 : 6000, MINE = 8 };

static _Atomic bool is_over;

/* Each has what it takes for itself alone: what two had at once would be seen in the marks. */
static _Atomic unsigned marks[64 * GIB / BLOCK];

static void mark(uint64_t addr, uint64_t bytes, unsigned from, unsigned to)
{
	for (uint64_t at = addr; at < addr + bytes; at += BLOCK)
		CHECK_EQ(atomic_exchange(&marks[(at - BASE) / BLOCK], to), from);
}

static void *take_and_give(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg, live = 0, self = seed;
	uint64_t addrs[MINE], bytes[MINE];

	for (int i = 0; i < STEPS; i++) {
		unsigned what = (unsigned)rand_r(&seed) % 16;

		if (what < 8 && live < MINE) {
			bytes[live] = kinds[(unsigned)rand_r(&seed) % KINDS] / 2;
			bytes[live] = bytes_round_up(bytes[live], BLOCK);
			if (object_alloc(dev0, &contexts[seed % CONTEXTS], bytes[live],
					 &addrs[live]) < 0)
				continue;
			mark(addrs[live], bytes[live], 0, self);
			live++;
		} else if (what < 15 && live) {
			live--;
			mark(addrs[live], bytes[live], self, 0);
			give(addrs[live]);
		} else if (what == 15) {
			all_is_done();
			object_idle_bytes(dev0);
		}
	}
	while (live--) {
		mark(addrs[live], bytes[live], self, 0);
		give(addrs[live]);
	}
	return NULL;
}

/* The worker, whom others ask, and who is held now and then. */
static void *work(void *arg)
{
	for (unsigned i = 0; !is_over; i++) {
		if (i % 7 == 0)
			__atomic_fetch_add(&member.region.own->room_wanted, 1, __ATOMIC_RELEASE);
		if (i % 11 == 0)
			object_keep(false);
		object_tick(NULL);
		object_keep(true);
		usleep(200);
	}
	return arg;
}

static void threads(void)
{
	pthread_t takers[THREADS], worker;

	start("1g", RATION_FLAG_MOVABLE);
	CHECK_EQ(pthread_create(&worker, NULL, work, NULL), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&takers[i], NULL, take_and_give, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(takers[i], NULL), 0);
	is_over = true;
	CHECK_EQ(pthread_join(worker, NULL), 0);
	all_is_done();
	all_is_done();
	object_reclaim(dev0, 0);
	CHECK_EQ(idle(), 0);
	CHECK_EQ(charged(), 0);
	check_figures();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(none_is_kept_without_a_worker),
		fresh_test(it_is_had_again_without_the_driver),
		fresh_test(sizes_and_contexts),
		fresh_test(what_was_freed_last_is_had_first),
		fresh_test(its_work_has_to_be_done),
		fresh_test(no_more_than_so_much_is_kept),
		fresh_test(it_goes_before_anything_is_refused),
		fresh_test(it_goes_when_the_card_is_full),
		fresh_test(it_goes_before_anything_leaves_the_card),
		fresh_test(one_that_was_moved_is_not_had),
		fresh_test(who_is_held_keeps_none),
		fresh_test(what_others_had_is_not_kept),
		fresh_test(it_ends_with_a_context),
		fresh_test(one_that_is_not_wanted_goes),
		fresh_test(none_is_kept_on_a_full_card),
		fresh_test(others_have_it_when_they_ask),
		fresh_test(random_programs),
		fresh_test(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
