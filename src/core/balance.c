#include "core/balance.h"

#include "core/bo_device.h"
#include "core/rdma.h"

#include <errno.h>
#include <stdlib.h>

/* One round moves no more than this, so that it stalls the program for some ten milliseconds. */
#define MOST_BYTES (UINT64_C(1) << 30)
/*
 * Moves that did not get their moment are tried again after 2, 4, .. rounds, and no more than so
 * many.
 */
enum { MOST_REST = 64 };

static const struct bo_want in_gtt[] = { { .place = BO_GTT } };
static const struct bo_placement gtt = { in_gtt, 1 };
/* Nobody goes for it who was not chosen. */
static const struct bo_want in_free_vram[] = { { .place = BO_VRAM, .flags = BO_DESIRED } };
static const struct bo_placement free_vram = { in_free_vram, 1 };

/* What can be moved, with a reference to each. */
struct looked_at {
	struct heat_item *items;
	unsigned *goes;
	unsigned count, room;
	unsigned far_count;
};

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
			heat_tick(&o->heat, atomic_exchange(&o->uses, 0));
			l->items[l->count++] = (struct heat_item){ .heat = &o->heat,
								   .bytes = bo->bytes,
								   .is_near = place == BO_VRAM,
								   .user = bo_get(bo) };
			l->far_count += place != BO_VRAM;
		}
}

static bool look(struct looked_at *l, struct bo_device *device)
{
	bo_device_lock(device);
	l->room = count_in(device, BO_VRAM) + count_in(device, BO_GTT);
	bo_device_unlock(device);
	l->items = calloc(l->room + 1, sizeof(*l->items));
	l->goes = calloc(l->room + 1, sizeof(*l->goes));
	if (!l->items || !l->goes)
		return false;
	bo_device_lock(device);
	look_in(l, device, BO_VRAM);
	look_in(l, device, BO_GTT);
	bo_device_unlock(device);
	return true;
}

static void end_look(struct looked_at *l)
{
	for (unsigned i = 0; i < l->count; i++)
		bo_put(&object_of(&l->items[i])->bo);
	free(l->items);
	free(l->goes);
}

/* Moves them together; who is in use is left out. 0, or why some did not go. */
static int move(struct looked_at *l, const unsigned *which, unsigned count,
		const struct bo_placement *to)
{
	struct bo_ctx ctx = { .no_wait = true };
	struct bo **bos = calloc(count, sizeof(struct bo *));
	unsigned had = 0;
	int rc = 0;

	if (!bos)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		struct bo *bo = &object_of(&l->items[which[i]])->bo;

		if (bo_reserve(bo, &ctx) == 0)
			bos[had++] = bo;
		else
			rc = -EBUSY;
	}
	if (rc == 0)
		rc = bo_validate_all(bos, had, to, &ctx);
	while (had)
		bo_unreserve(bos[--had]);
	for (unsigned i = 0; i < count && rc == 0; i++)
		heat_moved(&object_of(&l->items[which[i]])->heat);
	free(bos);
	return rc;
}

/* Moves what pays most. 0 also when nothing does. */
static int move_best(struct looked_at *l, struct backing_device *device)
{
	struct heat_plan plan = { .goes = l->goes };
	uint64_t room_bytes = backing_room(device, BO_VRAM);
	int rc;

	heat_plan(l->items, l->count, room_bytes, MOST_BYTES, &plan);
	if (!plan.is_any)
		return 0;
	if (plan.goes_count && rdma_look())
		return -EPERM;
	if (plan.goes_count == 0) {
		rc = move(l, &plan.comes, 1, &free_vram);
		if (rc != -ENOMEM)
			return rc;
		/* The card is full before the bound is reached. */
		heat_plan(l->items, l->count, 0, MOST_BYTES, &plan);
		if (!plan.is_any)
			return 0;
	}
	rc = move(l, plan.goes, plan.goes_count, &gtt);
	return rc < 0 ? rc : move(l, &plan.comes, 1, &free_vram);
}

static void tell(struct balance *balance, int rc)
{
	if (rc == 0) {
		balance->failed = 0;
		return;
	}
	if (balance->failed < 6)
		balance->failed++;
	balance->rest = 1u << balance->failed;
	if (balance->rest > MOST_REST)
		balance->rest = MOST_REST;
}

bool balance_tick(struct balance *balance, struct backing_device *device)
{
	struct looked_at l = { .count = 0 };
	bool has_far;

	if (!device->bounds.may_spill || bo_device_used(&device->bo, BO_GTT) == 0)
		return false;
	if (look(&l, &device->bo)) {
		if (balance->rest)
			balance->rest--;
		else if (l.far_count)
			tell(balance, move_best(&l, device));
	}
	has_far = l.far_count > 0;
	end_look(&l);
	return has_far;
}
