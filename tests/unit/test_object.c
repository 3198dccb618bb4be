/*
 * Objects on a driver of the test's own: random programs against a model, with steps that fail,
 * with little on the card, and in threads. Always: what is charged is what there is, nothing
 * passes a limit, and no byte is given out again while work that was submitted before its free
 * may run.
 */
#include "object_gpu.h"

#include "core/object_context.h"
#include "core/object_evict.h"
#include "core/object_pin.h"
#include "core/object_share.h"
#include "core/object_use.h"

#include <pthread.h>
#include <stdlib.h>

enum { LIVE = 200 };

/* What the program has, and what it freed while work that may use it was under way. */
struct piece {
	uint64_t addr, bytes, fence;
	int ctx;
	bool is_pinned;
};

static struct {
	struct piece live[LIVE], freed[100000];
	unsigned live_count, freed_count;
	unsigned seed;
} model;

static unsigned draw(unsigned below)
{
	return (unsigned)rand_r(&model.seed) % below;
}

static uint64_t draw_bytes(void)
{
	static const uint64_t edges[] = { 1,         511,   512,       513,     MIB,
					  BLOCK - 1, BLOCK, BLOCK + 1, 3 * MIB, 300 * MIB };

	if (draw(8) == 0)
		return edges[draw(sizeof(edges) / sizeof(*edges) - (draw(4) != 0))];
	return 1 + ((uint64_t)draw(1 << 30) << 8) % (UINT64_C(1) << (4 + draw(21)));
}

static bool overlaps(const struct piece *p, uint64_t addr, uint64_t bytes)
{
	return addr < p->addr + p->bytes && p->addr < addr + bytes;
}

static void check_fresh(uint64_t addr, uint64_t bytes)
{
	uint64_t end = atomic_load(&gpu.done);
	unsigned kept = 0;

	CHECK_EQ(addr % 512, 0);
	CHECK(addr >= BASE && addr + bytes <= BASE + ADDRESSES);
	for (unsigned i = 0; i < model.live_count; i++)
		CHECK(!overlaps(&model.live[i], addr, bytes));
	for (unsigned i = 0; i < model.freed_count; i++) {
		if (model.freed[i].fence <= end)
			continue;
		CHECK(!overlaps(&model.freed[i], addr, bytes));
		model.freed[kept++] = model.freed[i];
	}
	model.freed_count = kept;
}

static void take(void)
{
	struct piece p = { .bytes = draw_bytes(), .ctx = (int)draw(CONTEXTS) };
	int rc;

	if (model.live_count == LIVE)
		return;
	rc = object_alloc(dev0, &contexts[p.ctx], p.bytes, &p.addr);
	if (rc < 0) {
		CHECK(rc == -EDQUOT || rc == -ENOMEM);
		return;
	}
	check_fresh(p.addr, p.bytes);
	model.live[model.live_count++] = p;
}

static void look_at(const struct piece *p)
{
	struct object_info info;
	uint64_t at = p->addr + ((uint64_t)draw(1 << 30) << 4) % p->bytes;

	CHECK(object_find(at, &info));
	CHECK_EQ(info.addr, p->addr);
	CHECK_EQ(info.bytes, p->bytes);
	CHECK_EQ(info.is_pinned, p->is_pinned);
	CHECK(info.ctx == &contexts[p->ctx]);
	CHECK(object_use(at, p->addr + p->bytes - at));
	CHECK(!object_use(at, p->addr + p->bytes - at + 1));
	/* No more than there is. */
	object_use_part(at, UINT64_MAX, &(struct backing_uses){ .weight = UINT32_MAX });
	if (object_find(p->addr + p->bytes, &info))
		CHECK(info.addr != p->addr);
	if (at != p->addr)
		CHECK_EQ(object_free(at), -EINVAL);
}

static void give(unsigned i)
{
	struct piece p = model.live[i];

	p.fence = fence(NULL);
	CHECK_EQ(object_free(p.addr), 0);
	CHECK_EQ(object_free(p.addr), -EINVAL);
	model.live[i] = model.live[--model.live_count];
	CHECK(model.freed_count < sizeof(model.freed) / sizeof(*model.freed));
	model.freed[model.freed_count++] = p;
}

static void pin(struct piece *p)
{
	struct object_info info;

	CHECK(object_find(p->addr, &info));
	if (object_pin(p->addr, info.id) < 0)
		return;
	p->is_pinned = true;
	CHECK_EQ(object_pin(p->addr, info.id), 0);
	CHECK_EQ(object_pin(p->addr, info.id + 1), -ENOENT);
}

/* A context ends, or does not after all. */
static void end_context(void)
{
	int ctx = (int)draw(CONTEXTS);
	struct object_context *taken = object_context_take(&contexts[ctx]);
	unsigned kept = 0;

	if (draw(2)) {
		object_context_put_back(taken);
		return;
	}
	object_context_end(taken);
	for (unsigned i = 0; i < model.live_count; i++)
		if (model.live[i].ctx != ctx)
			model.live[kept++] = model.live[i];
	model.live_count = kept;
}

static void work_goes_on(void)
{
	uint64_t epoch = atomic_fetch_add(&gpu.epoch, 1) + 1;

	if (draw(2))
		atomic_store(&gpu.done, epoch - draw((unsigned)(epoch - gpu.done) + 1));
}

static void step(void)
{
	unsigned i = model.live_count ? draw(model.live_count) : 0;
	unsigned what = draw(100);

	if (what < 45 || !model.live_count)
		take();
	else if (what < 80)
		give(i);
	else if (what < 88)
		look_at(&model.live[i]);
	else if (what < 92)
		work_goes_on();
	else if (what < 94)
		pin(&model.live[i]);
	else if (what < 95)
		object_tick(NULL);
	else if (what == 95)
		object_reclaim(dev0, 0);
	else if (what == 97)
		object_evict(dev0, (1 + draw(20)) * BLOCK);
	else if (what == 96 && draw(20) == 0)
		end_context();
	if (!gpu.fail_at || gpu.steps < gpu.fail_at)
		check_figures();
}

static void end_all(void)
{
	while (model.live_count)
		give(0);
	atomic_store(&gpu.done, atomic_fetch_add(&gpu.epoch, 2));
	object_reclaim(dev0, 0);
	atomic_store(&gpu.done, gpu.epoch);
	object_reclaim(dev0, 0);
	check_figures();
	CHECK_EQ(charged(), 0);
	CHECK_EQ(object_idle_bytes(dev0), 0);
}

static void program(unsigned seed, unsigned steps)
{
	model.seed = seed;
	for (unsigned s = 0; s < steps; s++)
		step();
	end_all();
}

enum { STEPS = BUILD_SANITIZED ? 1000 : 4000 };

static void random_programs(void)
{
	start("400m", RATION_FLAG_MOVABLE);
	for (unsigned seed = 1; seed <= 6; seed++)
		program(seed, STEPS);
}

static void random_programs_on_a_full_card(void)
{
	start("4g", RATION_FLAG_MOVABLE);
	gpu.room[BO_VRAM] = 100 * MIB;
	for (unsigned seed = 20; seed <= 23; seed++)
		program(seed, STEPS);
	CHECK(gpu.taken[BO_GTT] == 0);
}

static void random_programs_that_spill(void)
{
	start("4g", RATION_FLAG_OVERSUBSCRIBE);
	member.region.own->resident_bytes = 40 * MIB;
	member.region.own->host_bytes = 200 * MIB;
	for (unsigned seed = 40; seed <= 45; seed++)
		program(seed, STEPS);
	CHECK(member.region.own->residency[member.slot.index].moved_bytes > 0);
}

/* Whatever fails, once: the program goes on, and nothing is lost. */
static void steps_that_fail(void)
{
	start("400m", RATION_FLAG_OVERSUBSCRIBE);
	member.region.own->resident_bytes = 40 * MIB;
	for (unsigned n = 1; n < 120; n += BUILD_SANITIZED ? 3 : 1) {
		gpu.steps = 0;
		gpu.fail_at = n;
		program(100 + n, 300);
	}
}

static void *free_slowly(void *arg)
{
	uint64_t *addr = arg;

	CHECK_EQ(object_free(*addr), 0);
	return NULL;
}

/* 64 MiB are had, of which another thread is about to give back 64. */
static void have_what_is_given_back(void)
{
	pthread_t other;
	uint64_t addr, next;

	CHECK_EQ(object_alloc(dev0, &contexts[0], 64 * MIB, &addr), 0);
	atomic_store(&gpu.done, 1);
	atomic_store(&gpu.ends_slowly, true);
	CHECK_EQ(pthread_create(&other, NULL, free_slowly, &addr), 0);
	while (!atomic_load(&gpu.is_ending))
		usleep(1000);
	CHECK_EQ(object_alloc(dev0, &contexts[0], 64 * MIB, &next), 0);
	pthread_join(other, NULL);
	CHECK_EQ(charged(), 64 * MIB);
	CHECK_EQ(object_free(next), 0);
}

/* What another thread is about to give back is waited for: who needs it is not out of memory. */
static void what_is_given_back_slowly_is_had(void)
{
	start("4g", RATION_FLAG_MOVABLE);
	object_keep(false);
	gpu.room[BO_VRAM] = 64 * MIB;
	have_what_is_given_back();
}

/* Also where it is the limit that has no room, and the other is the worker. */
static void what_is_given_back_slowly_counts_until_then(void)
{
	start("64m", RATION_FLAG_MOVABLE);
	object_keep(false);
	have_what_is_given_back();
}

/* What is asked for goes, coldest first, as far as host memory has room; a pinned one stays. */
static void objects_leave_the_card(void)
{
	struct object_info o;
	uint64_t addrs[8];

	start("4g", RATION_FLAG_OVERSUBSCRIBE);
	member.region.own->host_bytes = 96 * MIB;
	for (int i = 0; i < 8; i++)
		CHECK_EQ(object_alloc(dev0, &contexts[0], 16 * MIB, &addrs[i]), 0);
	CHECK(object_find(addrs[0], &o));
	CHECK_EQ(object_pin(addrs[0], o.id), 0);
	CHECK_EQ(object_evict_most(dev0), 128 * MIB);
	CHECK(object_evict(dev0, 20 * MIB));
	CHECK_EQ(gpu.taken[BO_GTT], 32 * MIB);
	check_figures();
	CHECK(object_evict(dev0, UINT64_MAX));
	CHECK_EQ(gpu.taken[BO_GTT], 96 * MIB);
	CHECK(!object_evict(dev0, BLOCK));
	check_figures();
	/* What the tenant's others ask for, by the worker. */
	CHECK_EQ(object_free(addrs[3]), 0);
	CHECK_EQ(object_reclaim(dev0, INT64_MAX), true);
	member.region.own->room_blocks[0] = 1;
	object_tick(NULL);
	CHECK_EQ(member.region.own->room_blocks[0], 0);
	CHECK_EQ(gpu.taken[BO_GTT], 96 * MIB);
	/* Nobody else has any: it is not waited for, and nothing stays asked for. */
	member.region.own->host_bytes = 16 * MIB;
	CHECK(!object_evict(dev0, 512 * MIB));
	CHECK_EQ(member.region.own->room_blocks[0], 0);
	check_figures();
}

/* Work does not end: what was freed is not given out, and a refusal comes in time. */
static void what_was_freed_waits_for_its_work(void)
{
	uint64_t addr, other;

	start("4m", RATION_FLAG_MOVABLE);
	gpu.ends_when_waited_for = false;
	CHECK_EQ(object_alloc(dev0, &contexts[0], 4 * MIB, &addr), 0);
	CHECK_EQ(object_free(addr), 0);
	CHECK_EQ(object_idle_bytes(dev0), 4 * MIB);
	CHECK_EQ(object_alloc(dev0, &contexts[0], BLOCK, &other), -EDQUOT);
	CHECK_EQ(object_alloc(dev0, &contexts[0], 100, &other), -EDQUOT);
	gpu.ends_when_waited_for = true;
	CHECK_EQ(object_alloc(dev0, &contexts[0], 4 * MIB, &other), 0);
	CHECK_EQ(object_free(other), 0);
}

/* Freed, it is charged until whoever has it is done; nobody else gets it then. */
static void share_and_free(uint64_t bytes, unsigned count)
{
	struct object_share *share;
	struct object_info info;
	uint64_t addr, end;

	CHECK_EQ(object_alloc(dev0, &contexts[0], bytes, &addr), 0);
	CHECK(object_find(addr, &info));
	CHECK_EQ(object_share_begin(addr, info.id, &share), -ENOENT);
	CHECK_EQ(object_pin(addr, info.id), 0);
	CHECK_EQ(object_share_begin(addr, info.id + 1, &share), -ENOENT);
	CHECK_EQ(object_share_begin(addr + 1, info.id, &share), -ENOENT);
	CHECK_EQ(object_share_begin(addr, info.id, &share), 0);
	CHECK_EQ(share->count, count);
	CHECK_EQ(share->bytes, bytes);
	CHECK_EQ(share->bos[0]->addr + share->offset_bytes, addr);
	end = share->bos[0]->addr;
	for (unsigned i = 0; i < count; i++) {
		CHECK_EQ(share->bos[i]->addr, end);
		CHECK(share->bos[i]->place == BO_VRAM && share->bos[i]->pins > 0);
		end += share->bos[i]->bytes;
	}
	CHECK(end >= addr + bytes);
	CHECK_EQ(object_free(addr), 0);
	atomic_store(&gpu.done, UINT64_MAX);
	/* It is not waited for either, whatever the patience. */
	object_reclaim(dev0, INT64_MAX);
	CHECK(charged() >= bytes && gpu.taken[BO_VRAM] >= bytes);
	object_share_end(share);
	object_reclaim(dev0, 0);
	CHECK_EQ(charged(), 0);
	CHECK_EQ(gpu.taken[BO_VRAM], 0);
	CHECK_EQ(object_share_begin(addr, info.id, &share), -ENOENT);
	atomic_store(&gpu.done, gpu.epoch);
}

static void what_is_shared_stays(void)
{
	start("1g", RATION_FLAG_MOVABLE);
	share_and_free(1000, 1);
	share_and_free(3 * MIB, 1);
	share_and_free(20 * MIB, 1);
	share_and_free(600 * MIB, 3);
}

static void *pin_it(void *arg)
{
	struct object_info info;

	CHECK(object_find(*(const uint64_t *)arg, &info));
	return (void *)(intptr_t)object_pin(info.addr, info.id);
}

/*
 * Two of two parts each, and room for one: whoever has a part gives it back where the other has the
 * other, and then one of them gets both.
 */
static void one_of_two_pins_has_room(void)
{
	enum { TIMES = BUILD_SANITIZED ? 10 : 300 };
	uint64_t addrs[3], bytes = 512 * MIB;
	pthread_t pinners[2];

	start("4g", RATION_FLAG_OVERSUBSCRIBE);
	member.region.own->resident_bytes = bytes;
	gpu.comes_slowly = true;
	for (int time = 0; time < TIMES; time++) {
		int pinned = 0;

		/* The first has all of the room until then. */
		for (int i = 0; i < 3; i++)
			CHECK_EQ(object_alloc(dev0, contexts, bytes, &addrs[i]), 0);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(pthread_create(&pinners[i], NULL, pin_it, &addrs[i + 1]), 0);
		for (int i = 0; i < 2; i++) {
			void *rc;

			CHECK_EQ(pthread_join(pinners[i], &rc), 0);
			pinned += (intptr_t)rc == 0;
			CHECK((intptr_t)rc == 0 || (intptr_t)rc == -ENOMEM);
		}
		CHECK_EQ(pinned, 1);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(object_free(addrs[i]), 0);
		atomic_store(&gpu.done, atomic_fetch_add(&gpu.epoch, 1) + 1);
		object_reclaim(dev0, 0);
	}
	end_all();
}

static void addresses_that_are_no_objects(void)
{
	struct backing_uses uses = { .weight = 1 };
	struct object_info info;
	uint64_t addr;

	start("64m", RATION_FLAG_MOVABLE);
	CHECK(!object_is_ours(BASE - 1) && object_is_ours(BASE) &&
	      !object_is_ours(BASE + ADDRESSES));
	CHECK(!object_find(BASE, &info) && !object_find(1, &info));
	CHECK_EQ(object_free(BASE), -EINVAL);
	CHECK_EQ(object_free(1), -ENOENT);
	CHECK(object_use(1, 1) && object_use(BASE, 0) && !object_use(BASE, 1));
	object_use_part(1, 1, &uses);
	object_use_part(BASE, 0, &uses);
	object_use_part(BASE, UINT64_MAX, &uses);
	object_use_whole(BASE, &uses);
	CHECK_EQ(uses.far_bytes, 0);
	CHECK_EQ(object_alloc(dev0, &contexts[0], ADDRESSES + 1, &addr), -ENOMEM);
	CHECK_EQ(object_alloc(dev0, &contexts[0], 65 * MIB, &addr), -EDQUOT);
	CHECK_EQ(object_alloc(dev0, &contexts[0], 64 * MIB, &addr), 0);
}

static void *work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg, live = 0;
	struct piece mine[32];

	for (int i = 0; i < (BUILD_SANITIZED ? 1000 : 3000); i++) {
		unsigned k = live ? (unsigned)rand_r(&seed) % live : 0;
		struct object_info info;

		switch (rand_r(&seed) % 8) {
		case 0:
		case 1:
		case 2:
			if (live == 32)
				break;
			mine[live].bytes = 1 + (uint64_t)rand_r(&seed) % (4 * MIB);
			if (object_alloc(dev0, &contexts[seed % CONTEXTS], mine[live].bytes,
					 &mine[live].addr) == 0)
				live++;
			break;
		case 3:
		case 4:
			if (!live)
				break;
			CHECK_EQ(object_free(mine[k].addr), 0);
			mine[k] = mine[--live];
			break;
		case 5:
			if (!live)
				break;
			CHECK(object_find(mine[k].addr, &info));
			CHECK_EQ(info.bytes, mine[k].bytes);
			object_pin(info.addr, info.id);
			break;
		case 6:
			if (live)
				CHECK(object_use(mine[k].addr, mine[k].bytes));
			object_idle_bytes(dev0);
			break;
		default:
			atomic_store(&gpu.done, atomic_fetch_add(&gpu.epoch, 1));
		}
	}
	while (live)
		CHECK_EQ(object_free(mine[--live].addr), 0);
	return NULL;
}

static _Atomic bool is_over;

static void *ticks(void *arg)
{
	while (!is_over)
		object_tick(NULL);
	return arg;
}

static void threads(void)
{
	pthread_t t[4], ticker;

	start("300m", RATION_FLAG_OVERSUBSCRIBE);
	member.region.own->resident_bytes = 60 * MIB;
	CHECK(pthread_create(&ticker, NULL, ticks, NULL) == 0);
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&t[i], NULL, work, (void *)(i + 1)) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	is_over = true;
	CHECK(pthread_join(ticker, NULL) == 0);
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(random_programs),
		fresh_test(random_programs_on_a_full_card),
		fresh_test(random_programs_that_spill),
		fresh_test(steps_that_fail),
		fresh_test(what_is_given_back_slowly_is_had),
		fresh_test(what_is_given_back_slowly_counts_until_then),
		fresh_test(objects_leave_the_card),
		fresh_test(what_was_freed_waits_for_its_work),
		fresh_test(what_is_shared_stays),
		fresh_test(one_of_two_pins_has_room),
		fresh_test(addresses_that_are_no_objects),
		fresh_test(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
