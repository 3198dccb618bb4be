#include "core/bo_swap.h"

#include "core/bo_batch.h"
#include "core/bo_device.h"
#include "core/bo_reserve.h"
#include "core/bo_room.h"

#include <errno.h>

/* What goes at a time. */
#define PART_BYTES (UINT64_C(256) << 20)
/* The rc of what is in a batch that has not moved. */
enum { PENDING = 1 };

static const struct bo_want in_vram[] = { { .place = BO_VRAM, .flags = BO_DESIRED } };
static const struct bo_placement vram = { in_vram, 1 };

/* Some that go, or that come. */
struct side {
	struct bo_swap *all;
	unsigned count;
	unsigned next;    /* those before were given memory, or refused */
	unsigned settled; /* those before are not in a batch any more */
};

struct swap {
	struct bo_device *device;
	struct bo_ctx ctx;
	struct bo_round round;
	const struct bo_patience *patience; /* may be NULL */
	struct side goes, comes;
	struct bo_batch out;  /* all that goes */
	unsigned sent;        /* of `out`: their parts are under way or were */
	struct bo_batch part; /* what moves together */
};

static void reserve_all(struct swap *s, struct side *side)
{
	for (unsigned i = 0; i < side->count; i++) {
		struct bo_swap *one = &side->all[i];

		one->rc = bo_reserve(one->bo, &s->ctx);
		one->is_had = one->rc == 0;
		/* Until it is asked. */
		if (one->is_had)
			one->rc = -ECANCELED;
	}
}

static void end_all(struct side *side)
{
	for (unsigned i = 0; i < side->count; i++) {
		struct bo_swap *one = &side->all[i];

		if (!one->is_had)
			continue;
		/* Who did not move was asked, not used. */
		if (one->rc == 0)
			bo_unreserve(one->bo);
		else
			bo_reserve_drop(one->bo);
	}
}

/* Memory for the next of a side, in the batch. 0, also when it was refused; -ENOSPC. */
static int take(struct swap *s, struct side *side, const struct bo_placement *placement,
		struct bo_batch *batch)
{
	struct bo_swap *one = &side->all[side->next];
	enum bo_place place = BO_NONE;
	struct bo_memory memory;
	int rc;

	if (!one->is_had)
		return 0;
	rc = bo_batch_has_room(batch) ?
		     bo_room_prepare(one->bo, placement, &s->round, &place, &memory) :
		     -ENOMEM;
	if (rc == -ENOSPC)
		return rc;
	if (rc == 0)
		bo_batch_add(batch, one->bo, place, memory);
	/* Where it was there already it is done. */
	one->rc = rc == 0 ? PENDING : rc > 0 ? 0 : rc;
	return 0;
}

static bool is_over(const struct swap *s)
{
	const struct bo_patience *patience = s->patience;

	return patience && patience->is_over && patience->is_over(patience->arg);
}

/* -EBUSY when it took too long for others: to make host memory takes longer than to copy to it. */
static int take_goes(struct swap *s)
{
	const struct bo_ops *ops = s->device->ops;
	struct side *goes = &s->goes;

	for (; goes->next < goes->count; goes->next++) {
		struct bo_swap *one = &goes->all[goes->next];

		if (is_over(s))
			return -EBUSY;
		if (take(s, goes, ops->evict_to(s->device->owner, one->bo, BO_VRAM), &s->out) < 0)
			one->rc = -ENOMEM;
	}
	return 0;
}

/* As many as have room now. Where more of it is to come the others wait for that. */
static void take_comes(struct swap *s, bool has_more)
{
	struct side *comes = &s->comes;

	for (; comes->next < comes->count; comes->next++)
		if (take(s, comes, &vram, &s->part) < 0) {
			if (has_more)
				return;
			comes->all[comes->next].rc = -ENOMEM;
		}
}

static void take_part(struct swap *s)
{
	bool has_more = s->sent < s->out.count;
	uint64_t bytes = 0;

	s->part.count = 0;
	while (s->sent < s->out.count && bytes < PART_BYTES && bo_batch_has_room(&s->part)) {
		const struct bo_move *move = &s->out.moves[s->sent++];

		bo_batch_add(&s->part, move->bo, move->to_place, move->to);
		bytes += move->bo->bytes;
	}
	take_comes(s, has_more);
}

/* Batches have objects in the order of their side. */
static void settle(struct swap *s, const struct bo_move *move, int rc)
{
	struct side *side = move->from_place == BO_VRAM ? &s->goes : &s->comes;

	while (side->all[side->settled].bo != move->bo)
		side->settled++;
	side->all[side->settled].rc = rc;
}

static void run_part(struct swap *s)
{
	struct bo_batch *part = &s->part;

	for (unsigned i = 0; i < part->count; i++)
		bo_round_drop(&s->round, part->moves[i].to_place, part->moves[i].to.bytes);
	bo_batch_run(part);
	for (unsigned i = 0; i < part->count; i++)
		settle(s, &part->moves[i], part->moves[i].rc);
}

/* Gives memory back that was for others of the batch than the first `from`. */
static void cancel(struct swap *s, struct bo_batch *batch, unsigned from, int rc)
{
	for (unsigned i = from; i < batch->count; i++) {
		const struct bo_move *move = &batch->moves[i];

		bo_round_drop(&s->round, move->to_place, move->to.bytes);
		bo_device_give(s->device, move->to_place, move->to);
		settle(s, move, rc);
	}
	batch->count = from;
}

/* All has memory that goes, or was refused; nothing stands still if nothing can be done then. */
static int begin(struct swap *s)
{
	const struct bo_ops *ops = s->device->ops;
	int rc = take_goes(s);

	if (rc == 0)
		take_part(s);
	if (rc == 0 && s->part.count == 0)
		return -ENOMEM;
	if (rc == 0 && ops->begin)
		rc = ops->begin(s->device->owner, s->patience);
	if (rc < 0) {
		cancel(s, &s->part, 0, rc);
		cancel(s, &s->out, s->sent, rc);
	}
	return rc;
}

static void run(struct swap *s)
{
	const struct bo_ops *ops = s->device->ops;

	do {
		run_part(s);
		/* What has left makes room yet. */
		if (s->sent < s->out.count && is_over(s))
			cancel(s, &s->out, s->sent, -ECANCELED);
		take_part(s);
	} while (s->part.count);
	if (ops->end)
		ops->end(s->device->owner);
}

int bo_swap(struct bo_device *device, struct bo_swap *goes, unsigned goes_count,
	    struct bo_swap *comes, unsigned comes_count, const struct bo_patience *patience)
{
	struct swap s = {
		.device = device,
		.ctx = { .no_wait = true },
		.patience = patience,
		.goes = { .all = goes, .count = goes_count },
		.comes = { .all = comes, .count = comes_count },
	};
	int rc;

	bo_batch_init(&s.out, device);
	bo_batch_init(&s.part, device);
	bo_round_begin(&s.round, device, &s.ctx);
	reserve_all(&s, &s.goes);
	reserve_all(&s, &s.comes);
	rc = begin(&s);
	if (rc == 0)
		run(&s);
	end_all(&s.goes);
	end_all(&s.comes);
	bo_round_end(&s.round);
	bo_batch_fini(&s.part);
	bo_batch_fini(&s.out);
	return rc;
}
