#include "core/piece.h"

#include "base/hash.h"
#include "base/process.h"
#include "core/quota.h"
#include "core/track.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* state.mutex */
struct piece_pool {
	uint64_t pieces; /* given out, those that are being freed too */
	uint64_t bytes;  /* charged until the last of them is freed */
	struct dev dev;
	bool has_ended;
	bool is_short; /* there are pieces that are not counted */
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
