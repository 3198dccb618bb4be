#include "core/bo_evict.h"

#include "base/bytes.h"
#include "core/bo_batch.h"
#include "core/bo_device.h"
#include "core/bo_reap.h"
#include "core/bo_reserve.h"
#include "core/bo_room.h"
#include "core/bo_ticket.h"

#include <errno.h>

/* What a walk found. */
struct find {
	struct bo_batch *batch; /* victims, reserved and with a reference each */
	uint64_t bytes;         /* that they have */
	struct bo *busy;        /* the first that somebody else has, with a reference */
};

static bool may_go(const struct bo *bo, enum bo_place place, const struct bo_round *round)
{
	const struct bo_ops *ops = bo->device->ops;

	if (bo == round->placed || bo_round_has_refused(round, bo))
		return false;
	if (bo->is_reserved && bo->holder && bo->holder == round->ctx->ticket)
		return false;
	if (!ops->evict_to || round->is_over)
		return false;
	return !ops->is_valuable || ops->is_valuable(bo->device->owner, bo, place);
}

/* Makes the object a victim, if nobody has it. With the mutex; false ends the walk. */
static bool pick(struct bo *bo, enum bo_place place, struct bo_round *round, struct find *find)
{
	if (!may_go(bo, place, round))
		return true;
	if (!bo_batch_has_room(find->batch))
		return false;
	if (!bo_reserve_try(bo, round->ctx->ticket)) {
		if (!find->busy && bo_device_get(bo))
			find->busy = bo;
	} else if (bo_device_get(bo)) {
		bo_batch_add(find->batch, bo, BO_NONE, (struct bo_memory){ 0, 0 });
		find->bytes += bo->memory.bytes;
	} else {
		bo_reserve_end(bo);
	}
	return true;
}

/* Takes victims, first the least recently used of the lowest priority, until they have `bytes`. */
static void walk(struct bo_device *device, enum bo_place place, uint64_t bytes,
		 struct bo_round *round, struct find *find)
{
	struct bo *bo;

	bo_device_lock(device);
	for (unsigned i = 0; i < BO_PRIORITIES; i++)
		TAILQ_FOREACH(bo, &device->managers[place].lru[i], in_list)
			if (find->bytes >= bytes || !pick(bo, place, round, find))
				goto out_unlock;
out_unlock:
	bo_device_unlock(device);
}

/* The error to hand on: what asks for something, before what may be better later. */
static int worse(int a, int b)
{
	if (a == -EDEADLK || b == -EDEADLK)
		return -EDEADLK;
	if (a == -EBUSY || b == -EBUSY)
		return -EBUSY;
	return a == 0 || a == -ENOSPC ? b : a;
}

/* Why one of them did not go, for the round: what was busy, or captured, may go a moment later. */
static void note_refusal(struct bo_round *round, int rc)
{
	round->was_busy |= rc == -EBUSY || rc == -EAGAIN;
}

/* Says where a victim goes, with memory there. */
static int send(struct bo_move *victim, struct bo_round *round)
{
	struct bo_device *device = victim->bo->device;
	const struct bo_placement *placement;
	enum bo_room_pass pass = BO_ROOM_FREE;
	int rc = bo_round_wait(round, victim->bo);

	if (rc < 0)
		return rc;
	placement = device->ops->evict_to(device->owner, victim->bo, victim->from_place);
	if (placement->count == 0)
		return 0;
	do
		rc = bo_room_find(victim->bo, placement, pass, round, &victim->to_place,
				  &victim->to);
	while (rc < 0 && rc != -EDEADLK && pass++ == BO_ROOM_FREE);
	return rc;
}

/* Gives victims back: who did not go will not be asked again. */
static void release(struct bo_batch *batch, unsigned from, struct bo_round *round)
{
	for (unsigned i = from; i < batch->count; i++) {
		struct bo_move *move = &batch->moves[i];

		if (move->rc < 0)
			bo_round_refuse(round, move->bo);
		bo_reserve_drop(move->bo);
		bo_put(move->bo);
	}
}

/*
 * Sends all of them, and keeps in the batch what has a place to go to. Returns why others have
 * none.
 */
static int send_all(struct bo_batch *batch, struct bo_round *round)
{
	struct bo_move swap;
	unsigned sent = 0;
	int worst = 0;

	for (unsigned i = 0; i < batch->count; i++) {
		int rc = worst == -EDEADLK ? worst : send(&batch->moves[i], round);

		if (rc < 0) {
			note_refusal(round, rc);
			worst = worse(worst, rc);
			continue;
		}
		swap = batch->moves[sent];
		batch->moves[sent++] = batch->moves[i];
		batch->moves[i] = swap;
	}
	release(batch, sent, round);
	batch->count = sent;
	return worst;
}

/* What came of one batch. */
struct evicted {
	uint64_t bytes;  /* that went */
	unsigned tried;  /* victims */
	struct bo *busy; /* as in struct find */
	int rc;          /* why others did not go */
};

/* Moves victims of about `bytes` together. */
static struct evicted evict_batch(struct bo_device *device, enum bo_place place, uint64_t bytes,
				  struct bo_round *round)
{
	struct bo_batch batch;
	struct find find = { .batch = &batch };
	struct evicted evicted = { .bytes = 0 };

	bo_batch_init(&batch, device);
	round->leaving |= 1u << place;
	walk(device, place, bytes, round, &find);
	evicted.tried = batch.count;
	evicted.busy = find.busy;
	evicted.rc = send_all(&batch, round);
	for (unsigned i = 0; i < batch.count; i++)
		bo_round_drop(round, batch.moves[i].to_place, batch.moves[i].to.bytes);
	round->ctx->moved_bytes += bo_batch_run(&batch);
	for (unsigned i = 0; i < batch.count; i++) {
		const struct bo_move *move = &batch.moves[i];

		if (move->rc == 0 || move->rc == -EIO)
			evicted.bytes += move->from.bytes;
		else
			evicted.rc = worse(evicted.rc, move->rc);
		note_refusal(round, move->rc);
	}
	release(&batch, 0, round);
	bo_batch_fini(&batch);
	round->leaving &= ~(1u << place);
	return evicted;
}

/* Waits until somebody else's object is free. Takes over its reference. */
static int wait_for_busy(struct bo *busy, struct bo_round *round)
{
	struct bo_ticket *ticket = round->ctx->ticket;
	int rc = bo_reserve_until(busy, ticket, bo_round_until_soon(round));

	if (rc == -EDEADLK && round->ctx->no_wait)
		rc = -EBUSY;
	if (rc == 0)
		bo_reserve_drop(busy);
	else if (rc == -EDEADLK)
		bo_ticket_lose(ticket, busy, true);
	bo_put(busy);
	return rc;
}

/*
 * Evicts until something went or nobody is left who could, and then waits for one that is in use.
 * *out_bytes: what went. 0 when it is worth trying again; errors as bo_evict_for_room().
 */
static int evict_some(struct bo_device *device, enum bo_place place, uint64_t bytes,
		      struct bo_round *round, uint64_t *out_bytes)
{
	struct evicted evicted;
	struct bo *busy = NULL;
	int rc = -ENOSPC;

	do {
		evicted = evict_batch(device, place, bytes, round);
		if (!busy)
			busy = evicted.busy;
		else if (evicted.busy)
			bo_put(evicted.busy);
		if (evicted.rc < 0)
			rc = worse(rc, evicted.rc);
	} while (evicted.tried && !evicted.bytes && rc != -EDEADLK);
	*out_bytes = evicted.bytes;
	if (busy && !evicted.bytes && rc != -EDEADLK)
		return wait_for_busy(busy, round);
	if (busy)
		bo_put(busy);
	return evicted.bytes ? 0 : rc;
}

int bo_evict_for_room(struct bo_device *device, enum bo_place place, uint64_t bytes, uint64_t gains,
		      struct bo_round *round)
{
	uint64_t gone_bytes;
	int rc;

	if (bo_reap_place(device, place) > 0)
		return 0;
	if (!round->ctx->no_wait && bo_reap_wait(device, place, bo_round_until(round)))
		return 0;
	rc = evict_some(device, place, bytes, round, &gone_bytes);
	if (rc == 0 || rc == -EDEADLK)
		return rc;
	note_refusal(round, rc);
	/* Also who would not go may have been given back meanwhile. */
	rc = bo_round_wait_for_others(round, place, gains);
	return rc == -ENOSPC && round->was_busy ? -EBUSY : rc;
}

int bo_evict(struct bo_device *device, enum bo_place place, uint64_t bytes, struct bo_ctx *ctx,
	     uint64_t *out_bytes)
{
	uint64_t wanted_bytes = bytes_least(bytes, bo_device_used(device, place));
	uint64_t gone_bytes = bo_reap_place(device, place), some_bytes;
	struct bo_round round;
	int rc = 0;

	bo_round_begin(&round, device, ctx);
	while (gone_bytes < wanted_bytes && rc == 0) {
		rc = evict_some(device, place, wanted_bytes - gone_bytes, &round, &some_bytes);
		gone_bytes += some_bytes;
	}
	bo_round_end(&round);
	if (rc < 0 && (!gone_bytes || rc == -EDEADLK))
		return rc == -ENOSPC ? -ENOMEM : rc;
	*out_bytes = gone_bytes;
	return 0;
}
