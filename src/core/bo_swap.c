#include "core/bo_swap.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/bo_batch.h"
#include "core/bo_device.h"
#include "core/bo_reserve.h"
#include "core/bo_room.h"

#include <errno.h>
#include <stdlib.h>

/* What goes at a time; of pairs, since before the first and behind the last one way is idle. */
#define PART_BYTES (UINT64_C(256) << 20)
#define PAIRS_PART_BYTES (UINT64_C(128) << 20)
/* The rc of what has memory, or another's to come, and has not moved. */
enum { PENDING = 1 };

static const struct bo_want in_vram[] = { { .place = BO_VRAM, .flags = BO_DESIRED } };
static const struct bo_placement vram = { in_vram, 1 };

/* Some that go, or that come. */
struct side {
	struct bo_swap *all;
	unsigned count;
	unsigned next;    /* those before were given memory, or refused */
	unsigned settled; /* the last that was: the next is not far */
};

/* Two of one size, by their number in `out` and in the side that comes. */
struct pair {
	unsigned goes, comes;
};

struct swap {
	struct bo_device *device;
	struct bo_ctx ctx;
	struct bo_round round;
	const struct bo_patience *patience; /* may be NULL */
	struct side goes, comes;
	struct bo_batch pairs; /* who goes, and who comes in the place of each */
	struct bo_batch out;   /* all else that goes */
	unsigned sent;         /* of `out`: their parts are under way or were */
	struct bo_batch part;  /* what moves together */
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

	if (one->rc != -ECANCELED)
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
		/* Gone already, wherever to. */
		if (one->is_had && one->bo->place != BO_VRAM)
			one->rc = 0;
		if (take(s, goes, ops->evict_to(s->device->owner, one->bo, BO_VRAM), &s->out) < 0)
			one->rc = -ENOMEM;
	}
	return 0;
}

/* The first that may come in the place of the goer; none: the number of all. */
static unsigned find_heir(struct swap *s, const struct bo_move *goer)
{
	struct side *comes = &s->comes;
	unsigned i;

	for (i = comes->next; i < comes->count; i++) {
		struct bo_swap *one = &comes->all[i];
		int rc;

		if (one->rc != -ECANCELED || one->bo->bytes != goer->from.bytes)
			continue;
		rc = bo_room_follow(one->bo, &vram, &s->round);
		one->rc = rc == 0 ? PENDING : rc > 0 ? 0 : rc;
		if (rc == 0)
			break;
	}
	/* Where all are of one size the next is the next. */
	while (comes->next < comes->count && comes->all[comes->next].rc != -ECANCELED)
		comes->next++;
	return i;
}

/* Of all that goes. */
static unsigned find_pairs(struct swap *s, struct pair *pairs)
{
	unsigned count = 0;

	for (unsigned i = 0; i < s->out.count; i++) {
		unsigned heir = find_heir(s, &s->out.moves[i]);

		if (heir < s->comes.count)
			pairs[count++] = (struct pair){ i, heir };
	}
	s->comes.next = 0;
	return count;
}

/* How many of the pairs, from one on, are a part. */
static unsigned part_of(const struct swap *s, const struct pair *pairs, unsigned from,
			unsigned count)
{
	uint64_t bytes = 0;
	unsigned n = 0;

	do
		bytes += s->out.moves[pairs[from + n++].goes].bo->bytes;
	while (from + n < count && bytes < PAIRS_PART_BYTES);
	return n;
}

/* Those of a part: where its goers stand in the batch. */
static void add_heirs(struct swap *s, const struct pair *part, unsigned count, unsigned first)
{
	for (unsigned i = 0; i < count; i++)
		bo_batch_add_heir(&s->pairs, s->comes.all[part[i].comes].bo, first + i);
}

/* Behind each part that goes stand the heirs of the part before it. */
static void add_pairs(struct swap *s, const struct pair *pairs, unsigned count)
{
	unsigned before = 0, before_count = 0, before_first = 0, n;

	for (unsigned from = 0; from < count; from += n) {
		unsigned first = s->pairs.count;

		n = part_of(s, pairs, from, count);
		for (unsigned i = from; i < from + n; i++) {
			const struct bo_move *move = &s->out.moves[pairs[i].goes];

			bo_batch_add(&s->pairs, move->bo, move->to_place, move->to);
		}
		add_heirs(s, &pairs[before], before_count, before_first);
		before = from;
		before_count = n;
		before_first = first;
	}
	add_heirs(s, &pairs[before], before_count, before_first);
}

/* Those of `out` that have an heir are in `pairs` in its place. */
static void leave_out(struct swap *s, const struct pair *pairs, unsigned count)
{
	unsigned left = 0, next = 0;

	for (unsigned i = 0; i < s->out.count; i++) {
		if (next < count && pairs[next].goes == i)
			next++;
		else
			s->out.moves[left++] = s->out.moves[i];
	}
	s->out.count = left;
}

/* Without memory for that there are none. */
static void make_pairs(struct swap *s)
{
	struct pair *pairs = malloc((s->out.count + 1) * sizeof(*pairs));
	unsigned count;

	if (pairs && bo_batch_make_room(&s->pairs, 2 * s->out.count)) {
		count = find_pairs(s, pairs);
		add_pairs(s, pairs, count);
		leave_out(s, pairs, count);
	}
	free(pairs);
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
	bool has_more = s->pairs.count || s->sent < s->out.count;
	uint64_t bytes = 0;

	s->part.count = 0;
	while (s->sent < s->out.count && bytes < PART_BYTES && bo_batch_has_room(&s->part)) {
		const struct bo_move *move = &s->out.moves[s->sent++];

		bo_batch_add(&s->part, move->bo, move->to_place, move->to);
		bytes += move->bo->bytes;
	}
	take_comes(s, has_more);
}

/* Batches have objects nearly in the order of their side. */
static void settle(struct swap *s, const struct bo_move *move, int rc)
{
	struct side *side = move->from_place == BO_VRAM ? &s->goes : &s->comes;

	while (side->all[side->settled].bo != move->bo)
		side->settled = (side->settled + 1) % side->count;
	side->all[side->settled].rc = rc;
}

static void drop(struct swap *s, const struct bo_move *move)
{
	if (!move->giver)
		bo_round_drop(&s->round, move->to_place, move->to.bytes);
}

static void run_batch(struct swap *s, struct bo_batch *batch)
{
	for (unsigned i = 0; i < batch->count; i++)
		drop(s, &batch->moves[i]);
	s->ctx.moved_bytes += bo_batch_run(batch);
	for (unsigned i = 0; i < batch->count; i++)
		settle(s, &batch->moves[i], batch->moves[i].rc);
	batch->count = 0;
}

/* Gives memory back that was for others of the batch than the first `from`. */
static void cancel(struct swap *s, struct bo_batch *batch, unsigned from, int rc)
{
	for (unsigned i = from; i < batch->count; i++) {
		const struct bo_move *move = &batch->moves[i];

		drop(s, move);
		if (!move->giver)
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

	if (rc == 0) {
		make_pairs(s);
		take_part(s);
	}
	if (rc == 0 && s->part.count == 0 && s->pairs.count == 0)
		return -ENOMEM;
	if (rc == 0 && ops->begin)
		rc = ops->begin(s->device->owner, s->patience);
	if (rc < 0) {
		cancel(s, &s->part, 0, rc);
		cancel(s, &s->pairs, 0, rc);
		cancel(s, &s->out, s->sent, rc);
	}
	return rc;
}

static void run(struct swap *s)
{
	const struct bo_ops *ops = s->device->ops;
	int64_t start_ns = clock_now_ns();

	run_batch(s, &s->pairs);
	/* Whose giver did not go may have another's room. */
	s->comes.next = 0;
	do {
		run_batch(s, &s->part);
		/* What has left makes room yet. */
		if (s->sent < s->out.count && is_over(s))
			cancel(s, &s->out, s->sent, -ECANCELED);
		take_part(s);
	} while (s->part.count);
	if (ops->end)
		ops->end(s->device->owner);
	log_debug("objects changed places: %llu bytes in %lld us",
		  (unsigned long long)s->ctx.moved_bytes,
		  (long long)((clock_now_ns() - start_ns) / NSEC_PER_USEC));
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
	bo_batch_init(&s.pairs, device);
	bo_round_begin(&s.round, device, &s.ctx);
	reserve_all(&s, &s.goes);
	reserve_all(&s, &s.comes);
	rc = begin(&s);
	if (rc == 0)
		run(&s);
	end_all(&s.goes);
	end_all(&s.comes);
	bo_round_end(&s.round);
	bo_batch_fini(&s.pairs);
	bo_batch_fini(&s.part);
	bo_batch_fini(&s.out);
	return rc;
}
