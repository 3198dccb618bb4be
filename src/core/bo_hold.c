#include "core/bo_hold.h"

#include "base/clock.h"
#include "core/bo_device.h"
#include "core/bo_reserve.h"

#include <errno.h>
#include <stdlib.h>

/*
 * How much moves at a time: memory for the next is taken when copies of one have ended, and what
 * they have left goes back. Between two the device copies nothing; but what goes to the process's
 * own pages is there twice meanwhile.
 */
#define BATCH_BYTES (UINT64_C(4) << 30)
#define PAGES_BATCH_BYTES (UINT64_C(1) << 30)
enum { BATCH = 128 };
/* How often it is looked whether fences are done. */
#define LOOK_NS (100 * NSEC_PER_USEC)

/* Objects that are moved together, reserved and with a reference each. */
struct batch {
	struct bo *objects[BATCH];
	unsigned count;
	bool is_any_busy; /* somebody else has another */
};

/* A reference to what may have lost its last one. */
static bool get_unless_deleted(struct bo *bo)
{
	uint32_t refs = __atomic_load_n(&bo->refs, __ATOMIC_RELAXED);

	while (refs && !__atomic_compare_exchange_n(&bo->refs, &refs, refs + 1, true,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return refs > 0;
}

/* By address: what lies side by side is mapped together. */
static void put_in(struct batch *batch, struct bo *bo)
{
	unsigned at = batch->count++;

	for (; at > 0 && batch->objects[at - 1]->addr > bo->addr; at--)
		batch->objects[at] = batch->objects[at - 1];
	batch->objects[at] = bo;
}

/* With the mutex. */
static void pick(struct batch *batch, struct bo *bo)
{
	if (!bo_reserve_try(bo, NULL)) {
		batch->is_any_busy = true;
		return;
	}
	if (get_unless_deleted(bo))
		put_in(batch, bo);
	else
		bo_reserve_end(bo);
}

static uint64_t batch_bytes(enum bo_place place, const struct bo_ctx *ctx)
{
	if (place != BO_GTT && ctx->batch_bytes)
		return ctx->batch_bytes;
	/* From GTT to pages: from the host's memory to as much of it. */
	return place == BO_GTT ? PAGES_BATCH_BYTES : BATCH_BYTES;
}

static void fill(struct batch *batch, struct bo_device *device, enum bo_place place,
		 const struct bo_ctx *ctx)
{
	uint64_t most_bytes = batch_bytes(place, ctx), bytes = 0;
	struct bo *bo;

	*batch = (struct batch){ .count = 0 };
	bo_device_lock(device);
	for (unsigned i = 0; i < BO_PRIORITIES; i++)
		TAILQ_FOREACH(bo, &device->managers[place].lru[i], in_list) {
			if (batch->count == BATCH || bytes >= most_bytes)
				goto out_unlock;
			pick(batch, bo);
			bytes += bo->bytes;
		}
out_unlock:
	bo_device_unlock(device);
}

/* Gives them back. True when any has left the place. */
static bool release(struct batch *batch, enum bo_place place)
{
	bool has_any_left = false;

	for (unsigned i = 0; i < batch->count; i++) {
		struct bo *bo = batch->objects[i];

		has_any_left |= bo->place != place;
		bo_reserve_drop(bo);
		bo_put(bo);
	}
	return has_any_left;
}

static bool wait_for_some(struct bo_device *device, int64_t until_ns)
{
	bool is_any;

	bo_device_lock(device);
	is_any = bo_reserve_wait(device, until_ns);
	bo_device_unlock(device);
	return is_any || clock_now_ns() < until_ns;
}

static int move_all(struct bo_device *device, enum bo_place place,
		    const struct bo_placement *placement, struct bo_ctx *ctx)
{
	int64_t until_ns = ctx->no_wait ? 0 : clock_now_ns() + BO_WAIT_NS;
	struct batch batch;
	int rc;

	for (;;) {
		fill(&batch, device, place, ctx);
		if (batch.count == 0) {
			if (!batch.is_any_busy)
				return 0;
			if (!wait_for_some(device, until_ns))
				return -EBUSY;
			continue;
		}
		rc = bo_validate_all(batch.objects, batch.count, placement, ctx);
		if (!release(&batch, place) && rc < 0)
			return rc;
	}
}

/* Asks for the last of what nobody has any more: who has it reserved may not be able to ask. */
static void ask_deleted(struct bo_device *device)
{
	uint64_t fence = 0;
	struct bo *bo;

	bo_device_lock(device);
	TAILQ_FOREACH(bo, &device->deleted, in_list)
		if (bo->fence > fence)
			fence = bo->fence;
	bo_device_unlock(device);
	if (fence)
		device->ops->is_done(device->owner, fence);
}

/* What others are about to give back goes too. */
static int end_deleted(struct bo_device *device, const struct bo_ctx *ctx)
{
	int64_t until_ns = ctx->no_wait ? 0 : clock_now_ns() + BO_WAIT_NS;

	while (bo_reap(device)) {
		int64_t now_ns = clock_now_ns();

		if (now_ns >= until_ns)
			return -EBUSY;
		ask_deleted(device);
		/* A fence that is done wakes nobody. */
		wait_for_some(device, now_ns + LOOK_NS);
	}
	return 0;
}

static const struct bo_want in_system[] = { { .place = BO_SYSTEM } };
static const struct bo_placement away = { in_system, 1 };

int bo_hold(struct bo_device *device, struct bo_ctx *ctx)
{
	int rc;

	bo_reap(device);
	rc = move_all(device, BO_VRAM, &away, ctx);
	return rc < 0 ? rc : end_deleted(device, ctx);
}

uint64_t bo_hold_bytes(struct bo_device *device)
{
	uint64_t bytes = 0;
	struct bo *bo;

	bo_device_lock(device);
	for (unsigned i = 0; i < BO_PRIORITIES; i++)
		TAILQ_FOREACH(bo, &device->managers[BO_VRAM].lru[i], in_list)
			bytes += bo->bytes;
	bo_device_unlock(device);
	return bytes;
}

int bo_hold_all(struct bo_device *device, struct bo_ctx *ctx)
{
	int rc = bo_hold(device, ctx);

	return rc < 0 ? rc : move_all(device, BO_GTT, &away, ctx);
}

/* Nothing is evicted for it: what goes from one place for another would never end. */
int bo_unhold(struct bo_device *device, struct bo_ctx *ctx)
{
	static const struct bo_want wants[] = { { BO_VRAM, BO_DESIRED }, { BO_GTT, BO_DESIRED } };
	static const struct bo_placement back = { wants, 2 };

	return move_all(device, BO_SYSTEM, &back, ctx);
}

int bo_gather(struct bo_device *device, struct bo_ctx *ctx)
{
	static const struct bo_want wants[] = { { .place = BO_VRAM, .flags = BO_DESIRED } };
	static const struct bo_placement home = { wants, 1 };

	return move_all(device, BO_GTT, &home, ctx);
}

/* With the mutex: how many are there; the first `room` of them are written. */
static unsigned list_spans(struct bo_device *device, struct bo_span *spans, unsigned room)
{
	struct bo_list *lists[BO_PRIORITIES + 2] = { &device->pinned, &device->deleted };
	unsigned count = 0;
	struct bo *bo;

	for (unsigned i = 0; i < BO_PRIORITIES; i++)
		lists[i + 2] = &device->managers[BO_VRAM].lru[i];
	for (unsigned i = 0; i < BO_PRIORITIES + 2; i++)
		TAILQ_FOREACH(bo, lists[i], in_list) {
			if (bo->place != BO_VRAM)
				continue;
			if (count < room)
				spans[count] = (struct bo_span){ bo->addr, bo->bytes };
			count++;
		}
	return count;
}

int bo_spans(struct bo_device *device, struct bo_span **out_spans, unsigned *out_count)
{
	struct bo_span *spans = NULL;
	unsigned room = 0, count;

	for (;;) {
		bo_device_lock(device);
		count = list_spans(device, spans, room);
		bo_device_unlock(device);
		if (count <= room)
			break;
		free(spans);
		room = count + 16;
		spans = malloc(room * sizeof(*spans));
		if (!spans)
			return -ENOMEM;
	}
	*out_spans = spans;
	*out_count = count;
	return 0;
}
