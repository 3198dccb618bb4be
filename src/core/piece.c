#include "core/piece.h"

#include "base/hash.h"
#include "base/process.h"
#include "core/quota.h"
#include "core/track.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MARKS = 16 };

struct mark {
	uint64_t stream, mark;
};

/* state.mutex; once it is taken out of `marked`, its taker's. */
struct piece_pool {
	struct piece_pool *next; /* in `marked` */
	uint64_t pieces;         /* given out, those that are being freed too */
	uint64_t bytes;          /* charged until the last of them is freed */
	struct dev dev;
	bool has_ended;
	bool is_short; /* there are pieces that are not counted */
	unsigned marks;
	struct mark mark[MARKS];
};

/* The link is first, so that what is found is known by it. */
struct piece {
	struct hash_link link; /* by address */
	struct piece_pool *pool;
};

struct piece_state {
	_Atomic uint64_t count; /* written under mutex; atomic */
	/* Orders the rest; taken before the quota's. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct hash pieces;
	struct piece_pool *marked; /* that have ended, with no piece left */
	_Atomic uint64_t waiting;  /* of these, taken out or not; atomic */
};
PROCESS_STATE(piece_state, state);

void piece_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

struct piece_pool *piece_pool_new(void)
{
	return calloc(1, sizeof(struct piece_pool));
}

/* mutex held: ends the pool if nothing of it is left. */
static void end_if_done(struct piece_pool *pool)
{
	if (!pool->has_ended || pool->pieces)
		return;
	if (pool->marks) {
		pool->next = state.s.marked;
		state.s.marked = pool;
		atomic_fetch_add(&state.s.waiting, 1);
		return;
	}
	if (!pool->is_short) {
		track_managed_add(pool->dev, -(int64_t)pool->bytes);
		quota_release(pool->dev, QUOTA_DATA, pool->bytes);
	}
	free(pool);
}

void piece_pool_end(struct piece_pool *pool, struct dev dev, uint64_t bytes)
{
	if (!pool)
		return;
	pthread_mutex_lock(&state.s.mutex);
	pool->has_ended = true;
	pool->dev = dev;
	pool->bytes = bytes;
	end_if_done(pool);
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held. */
static void insert(struct piece *piece)
{
	hash_insert(&state.s.pieces, &piece->link);
	atomic_fetch_add(&state.s.count, 1);
}

/* mutex held. */
static struct piece *take(uint64_t addr)
{
	struct piece *piece = (struct piece *)hash_find(&state.s.pieces, addr);

	if (!piece)
		return NULL;
	hash_remove(&state.s.pieces, &piece->link);
	atomic_fetch_sub(&state.s.count, 1);
	return piece;
}

/* mutex held. */
static void end(struct piece *piece)
{
	piece->pool->pieces--;
	end_if_done(piece->pool);
	free(piece);
}

void piece_given(struct piece_pool *pool, uint64_t addr)
{
	struct piece *piece, *old;

	if (!pool)
		return;
	piece = calloc(1, sizeof(*piece));
	pthread_mutex_lock(&state.s.mutex);
	/* What stood there was freed unseen. */
	old = take(addr);
	if (piece) {
		piece->link.key = addr;
		piece->pool = pool;
		pool->pieces++;
		insert(piece);
	} else {
		pool->is_short = true;
	}
	if (old)
		end(old);
	pthread_mutex_unlock(&state.s.mutex);
}

bool piece_any(void)
{
	return atomic_load_explicit(&state.s.count, memory_order_relaxed) > 0;
}

struct piece *piece_take(uint64_t addr)
{
	struct piece *piece;

	if (!piece_any())
		return NULL;
	pthread_mutex_lock(&state.s.mutex);
	piece = take(addr);
	pthread_mutex_unlock(&state.s.mutex);
	return piece;
}

void piece_over(struct piece *piece, bool is_freed)
{
	if (!piece)
		return;
	pthread_mutex_lock(&state.s.mutex);
	if (is_freed)
		end(piece);
	else
		insert(piece);
	pthread_mutex_unlock(&state.s.mutex);
}

uint64_t piece_mark(const struct piece *piece, uint64_t stream)
{
	const struct piece_pool *pool = piece->pool;
	uint64_t mark = 0;

	pthread_mutex_lock(&state.s.mutex);
	for (unsigned i = 0; i < pool->marks; i++)
		if (pool->mark[i].stream == stream)
			mark = pool->mark[i].mark;
	pthread_mutex_unlock(&state.s.mutex);
	return mark;
}

bool piece_add_mark(struct piece *piece, uint64_t stream, uint64_t mark)
{
	struct piece_pool *pool = piece->pool;
	bool has_room;

	pthread_mutex_lock(&state.s.mutex);
	has_room = pool->marks < MARKS;
	if (has_room)
		pool->mark[pool->marks++] = (struct mark){ stream, mark };
	pthread_mutex_unlock(&state.s.mutex);
	return has_room;
}

void piece_stay(struct piece *piece)
{
	pthread_mutex_lock(&state.s.mutex);
	piece->pool->is_short = true;
	pthread_mutex_unlock(&state.s.mutex);
}

bool piece_any_marked(void)
{
	return atomic_load_explicit(&state.s.waiting, memory_order_relaxed) > 0;
}

void piece_settle(bool (*has_come)(uint64_t mark))
{
	struct piece_pool *asked, *pool;

	if (!piece_any_marked())
		return;
	pthread_mutex_lock(&state.s.mutex);
	asked = state.s.marked;
	state.s.marked = NULL;
	pthread_mutex_unlock(&state.s.mutex);
	while ((pool = asked)) {
		asked = pool->next;
		for (unsigned i = pool->marks; i-- > 0;)
			if (has_come(pool->mark[i].mark))
				pool->mark[i] = pool->mark[--pool->marks];
		pthread_mutex_lock(&state.s.mutex);
		atomic_fetch_sub(&state.s.waiting, 1);
		end_if_done(pool);
		pthread_mutex_unlock(&state.s.mutex);
	}
}
