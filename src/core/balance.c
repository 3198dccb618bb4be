#include "core/balance.h"

#include "base/clock.h"
#include "core/backing_use.h"
#include "core/bo_device.h"
#include "core/bo_swap.h"
#include "core/quota.h"
#include "core/rdma.h"

#include <errno.h>
#include <stdlib.h>

/*
 * One round moves no more than this, out and in, so that it stalls the program for some twenty
 * milliseconds; what pays much, four times as much.
 */
#define MOST_BYTES (UINT64_C(2) << 30)
/*
 * Work that is queued is waited for so long. Nothing new begins meanwhile, but the device is at
 * work, so that a program which keeps much queued loses little.
 */
#define WORK_NS (2 * NSEC_PER_SEC)
/*
 * Moves that did not get their moment are tried again after 2, 4, .. rounds. Where all of the wait
 * was in vain, after 16, 32, ..: what was waited for may itself have waited for what was held.
 * Where they are not worth much, after 32, 128, .. then. No more than so many.
 */
enum { REST = 64, VAIN_REST = 128, VAIN_REST_FOR_LITTLE = 512 };
enum { REST_UNIT = 1, VAIN_UNIT = 8 };

/* What can be moved, with a reference to each. */
struct looked_at {
	struct heat_item *items;
	struct heat_plan plan;
	struct bo_swap *swaps; /* for all of a plan: those that come, and behind them the others */
	unsigned count, room;
	unsigned far_count;
};

/* A wait for work, and what ends it. */
struct wait {
	struct backing_device *device;
	const struct balance_round *round;
};

/* What came of an attempt. */
enum outcome { NOTHING_TO_DO, MOVED, FAILED, IN_VAIN, IN_VAIN_FOR_LITTLE };

static struct backing_object *object_of(const struct heat_item *item)
{
	return (struct backing_object *)item->user;
}

static unsigned count_in(const struct bo_device *device, enum bo_place place)
{
	unsigned count = 0;
	const struct bo *bo;

	for (unsigned i = 0; i < BO_PRIORITIES; i++)
		TAILQ_FOREACH(bo, &device->managers[place].lru[i], in_list)
			count++;
	return count;
}

/* With the mutex: those of a place, as far as there is room; their round is over. */
static void look_in(struct looked_at *l, struct bo_device *device, enum bo_place place)
{
	struct bo *bo;

	for (unsigned i = 0; i < BO_PRIORITIES; i++)
		TAILQ_FOREACH(bo, &device->managers[place].lru[i], in_list) {
			struct backing_object *o = (struct backing_object *)bo;

			if (l->count == l->room)
				return;
			heat_tick(&o->heat, backing_use_take(o));
			l->items[l->count++] = (struct heat_item){ .heat = &o->heat,
								   .bytes = bo->bytes,
								   .is_near = place == BO_VRAM,
								   .user = bo_get(bo) };
			l->far_count += place != BO_VRAM;
		}
}

/* With the mutex: what is pinned does not move, and is known when it may. */
static void look_at_pinned(struct bo_device *device)
{
	struct bo *bo;

	TAILQ_FOREACH(bo, &device->pinned, in_list) {
		struct backing_object *o = (struct backing_object *)bo;

		heat_tick(&o->heat, backing_use_take(o));
	}
}

static bool look(struct looked_at *l, struct bo_device *device)
{
	size_t room;

	bo_device_lock(device);
	l->room = count_in(device, BO_VRAM) + count_in(device, BO_GTT);
	bo_device_unlock(device);
	room = (size_t)l->room + 1;
	l->items = calloc(room, sizeof(*l->items));
	l->swaps = calloc(room, sizeof(*l->swaps));
	l->plan.comes = calloc(room, sizeof(*l->plan.comes));
	l->plan.goes = calloc(room, sizeof(*l->plan.goes));
	if (!l->items || !l->swaps || !l->plan.comes || !l->plan.goes)
		return false;
	bo_device_lock(device);
	look_in(l, device, BO_VRAM);
	look_in(l, device, BO_GTT);
	look_at_pinned(device);
	bo_device_unlock(device);
	return true;
}

static void end_look(struct looked_at *l)
{
	for (unsigned i = 0; i < l->count; i++)
		bo_put(&object_of(&l->items[i])->bo);
	free(l->items);
	free(l->swaps);
	free(l->plan.comes);
	free(l->plan.goes);
}

static uint32_t word(const uint32_t *of)
{
	return __atomic_load_n(of, __ATOMIC_ACQUIRE);
}

/* True when processes of the tenant want memory, or nobody can say it any more. */
static bool is_memory_wanted(const struct ration_region *own, const struct balance_round *round)
{
	if (!quota_has_region_now())
		return true;
	for (int i = 0; i < RATION_DEVICES; i++)
		if (word(&own->room_blocks[i]))
			return true;
	return word(&own->room_wanted) != round->room_wanted ||
	       word(&own->host_wanted) != round->host_wanted;
}

/* True when others wait: processes for memory, threads for objects, whoever the worker serves. */
static bool is_over(void *arg)
{
	const struct wait *w = arg;
	struct bo_device *device = &w->device->bo;
	bool has_waiters;

	if (is_memory_wanted(w->device->bounds.own, w->round))
		return true;
	bo_device_lock(device);
	has_waiters = device->waiters > 0;
	bo_device_unlock(device);
	/* Last: it may do something of what it is asked for. */
	return has_waiters || (w->round->is_asked && w->round->is_asked());
}

static void list(struct looked_at *l, const struct heat_rank *ranks, unsigned count,
		 struct bo_swap *out)
{
	for (unsigned i = 0; i < count; i++)
		out[i].bo = &object_of(&l->items[ranks[i].item])->bo;
}

/* Of those that were asked to move. True when one did. */
static bool note(const struct bo_swap *swaps, unsigned count)
{
	bool is_any = false;

	for (unsigned i = 0; i < count; i++) {
		struct backing_object *o = (struct backing_object *)swaps[i].bo;

		if (swaps[i].rc == 0)
			heat_moved(&o->heat);
		else if (swaps[i].rc != -ECANCELED)
			heat_refused(&o->heat);
		is_any |= swaps[i].rc == 0;
	}
	return is_any;
}

/* 0 when some moved; -ENOMEM when there was no room, or why nothing was tried. */
static int run(struct looked_at *l, struct wait *w)
{
	const struct heat_plan *plan = &l->plan;
	const struct bo_patience patience = { WORK_NS, is_over, w };
	unsigned comes = plan->comes_count, goes = plan->goes_count;
	int rc;

	if (goes && rdma_look())
		return -EPERM;
	list(l, plan->comes, comes, l->swaps);
	list(l, plan->goes, goes, l->swaps + comes);
	rc = bo_swap(&w->device->bo, l->swaps + comes, goes, l->swaps, comes, &patience);
	/* That nothing stood still is nobody's refusal. */
	if (rc == 0 || (rc == -ENOMEM && goes))
		rc = note(l->swaps, comes + goes) ? 0 : -EBUSY;
	return rc;
}

/* Moves what pays most. */
static enum outcome move_best(struct looked_at *l, struct wait *w)
{
	uint64_t room_bytes = backing_room(w->device, BO_VRAM);
	int64_t start_ns = clock_now_ns();
	int rc;

	heat_plan(l->items, l->count, room_bytes, MOST_BYTES, &l->plan);
	if (l->plan.comes_count == 0)
		return NOTHING_TO_DO;
	rc = run(l, w);
	if (rc == -ENOMEM) {
		/* The card is full before the bound is reached. */
		heat_plan(l->items, l->count, 0, MOST_BYTES, &l->plan);
		if (l->plan.comes_count == 0)
			return NOTHING_TO_DO;
		rc = run(l, w);
	}
	if (rc == 0)
		return MOVED;
	if (rc != -EBUSY || clock_now_ns() - start_ns < WORK_NS)
		return FAILED;
	return l->plan.pays_much ? IN_VAIN : IN_VAIN_FOR_LITTLE;
}

static void tell(struct balance *balance, enum outcome outcome)
{
	static const struct {
		unsigned unit, most;
	} rests[] = { [FAILED] = { REST_UNIT, REST },
		      [IN_VAIN] = { VAIN_UNIT, VAIN_REST },
		      [IN_VAIN_FOR_LITTLE] = { VAIN_UNIT, VAIN_REST_FOR_LITTLE } };

	if (outcome <= MOVED) {
		balance->failed = 0;
		return;
	}
	balance->failed += outcome == IN_VAIN_FOR_LITTLE ? 2 : 1;
	if (balance->failed > 16)
		balance->failed = 16;
	balance->rest = rests[outcome].unit << balance->failed;
	if (balance->rest > rests[outcome].most)
		balance->rest = rests[outcome].most;
}

bool balance_tick(struct balance *balance, struct backing_device *device,
		  const struct balance_round *round)
{
	struct looked_at l = { .count = 0 };
	struct wait w = { device, round };
	bool has_far;

	if (!device->bounds.may_spill || bo_device_used(&device->bo, BO_GTT) == 0)
		return false;
	if (look(&l, &device->bo)) {
		if (balance->rest)
			balance->rest--;
		else if (l.far_count)
			tell(balance, move_best(&l, &w));
	}
	has_far = l.far_count > 0;
	end_look(&l);
	return has_far;
}
