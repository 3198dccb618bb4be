#include "core/pool.h"

#include "base/bytes.h"
#include "base/process.h"
#include "base/tree.h"
#include "core/quota.h"
#include "core/track.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct pool {
	RB_ENTRY(pool) entry;
	const void *key;
	struct dev dev;
	enum pool_kind kind;
	uint64_t ticket; /* of the figure settled last */
	uint64_t charged_bytes;
	uint64_t pending_bytes; /* reservations of threads under way */
	uint64_t used_bytes;    /* of pending: already charged by another thread's figure */
	uint64_t over_bytes;    /* of charged: grown by when the limit did not allow it */
};

RB_HEAD(pool_tree, pool);

struct pool_state {
	_Atomic uint64_t asked; /* atomic */
	_Atomic uint64_t count; /* of the known pools; written under mutex */
	/* Orders the rest; taken before the quota's. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct pool_tree pools;
	uint64_t orphan_bytes[RATION_DEVICES];
	bool orphans_are_over[RATION_DEVICES]; /* one that was destroyed was over, as over_bytes */
};
PROCESS_STATE(pool_state, state);

static int pool_compare(const struct pool *a, const struct pool *b)
{
	return (uintptr_t)a->key < (uintptr_t)b->key ? -1 : (uintptr_t)a->key > (uintptr_t)b->key;
}

RB_GENERATE_STATIC(pool_tree, pool, entry, pool_compare)

void pool_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

/* mutex held. */
static struct pool *find(const void *key)
{
	struct pool want = { .key = key };

	return RB_FIND(pool_tree, &state.s.pools, &want);
}

/* mutex held. */
static bool is_over(struct pool *pool)
{
	if (pool->over_bytes && !quota_is_over(pool->dev))
		pool->over_bytes = 0;
	return pool->over_bytes > 0;
}

bool pool_enter(const void *key, struct dev dev, enum pool_kind kind)
{
	struct pool *pool;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (!pool) {
		pool = calloc(1, sizeof(*pool));
		if (pool) {
			pool->key = key;
			pool->dev = dev;
			pool->kind = kind;
			RB_INSERT(pool_tree, &state.s.pools, pool);
			atomic_fetch_add(&state.s.count, 1);
		}
	}
	pthread_mutex_unlock(&state.s.mutex);
	return pool != NULL;
}

bool pool_device(const void *key, struct dev *out_dev)
{
	struct pool *pool;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (pool)
		*out_dev = pool->dev;
	pthread_mutex_unlock(&state.s.mutex);
	return pool != NULL;
}

int pool_reserve(const void *key, uint64_t bytes)
{
	struct pool *pool;
	int rc = -EDQUOT;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (pool)
		rc = quota_reserve(pool->dev, QUOTA_DATA, bytes);
	if (rc == 0)
		pool->pending_bytes += bytes;
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}

bool pool_any_over(struct dev dev)
{
	bool *orphans = &state.s.orphans_are_over[dev.v];
	struct pool *pool;
	bool is_any;

	pthread_mutex_lock(&state.s.mutex);
	*orphans = *orphans && state.s.orphan_bytes[dev.v] && quota_is_over(dev);
	is_any = *orphans;
	RB_FOREACH(pool, pool_tree, &state.s.pools)
		is_any |= pool->dev.v == dev.v && pool->kind != POOL_STORE && is_over(pool);
	pthread_mutex_unlock(&state.s.mutex);
	return is_any;
}

uint64_t pool_ask(void)
{
	return atomic_fetch_add(&state.s.asked, 1) + 1;
}

/* mutex held: this thread's reservation leaves; what another thread has not used of it is left. */
static uint64_t take_reservation(struct pool *pool, uint64_t reserved_bytes)
{
	uint64_t used = bytes_least(pool->used_bytes, reserved_bytes);

	pool->pending_bytes -= bytes_least(pool->pending_bytes, reserved_bytes);
	pool->used_bytes -= used;
	return reserved_bytes - used;
}

/* Keeps what is tracked in step with the driver's figure for the process. */
static void add_physical(const struct pool *pool, int64_t bytes)
{
	if (pool->kind == POOL_MANAGED)
		track_managed_add(pool->dev, bytes);
	else
		track_physical_add(pool->dev, bytes);
}

/*
 * mutex held: charges what nobody has reserved. The card has given it: it counts whatever the
 * limit, or the next request would find room that is not there. 0, or -ESTALE when the region is
 * lost.
 */
static int grow(struct pool *pool, uint64_t bytes)
{
	int rc = quota_reserve(pool->dev, QUOTA_DATA, bytes);

	if (rc == -EDQUOT) {
		rc = quota_charge(pool->dev, QUOTA_DATA, bytes);
		pool->over_bytes += bytes;
	}
	return rc;
}

/* mutex held: charges `bytes` more, `own` of them reserved by this thread. 0 or -ESTALE. */
static int charge_more(struct pool *pool, uint64_t bytes, uint64_t own)
{
	uint64_t borrowed;
	int rc = 0;

	if (bytes <= own) {
		quota_release(pool->dev, QUOTA_DATA, own - bytes);
	} else {
		borrowed = bytes_least(bytes - own, pool->pending_bytes - pool->used_bytes);
		pool->used_bytes += borrowed;
		if (bytes > own + borrowed)
			rc = grow(pool, bytes - own - borrowed);
		if (rc < 0)
			bytes = own + borrowed;
	}
	pool->charged_bytes += bytes;
	add_physical(pool, (int64_t)bytes);
	return rc;
}

/* mutex held: the pool holds `bytes` less; `own` were reserved by this thread for nothing. */
static void charge_less(struct pool *pool, uint64_t bytes, uint64_t own)
{
	pool->charged_bytes -= bytes;
	pool->over_bytes -= bytes_least(pool->over_bytes, bytes);
	add_physical(pool, -(int64_t)bytes);
	quota_release(pool->dev, QUOTA_DATA, bytes + own);
}

int pool_settle(const void *key, uint64_t ticket, uint64_t held_bytes, uint64_t reserved_bytes)
{
	struct pool *pool;
	uint64_t own;
	int rc = 0;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (!pool)
		goto out;
	own = take_reservation(pool, reserved_bytes);
	if (ticket < pool->ticket)
		held_bytes = pool->charged_bytes;
	else
		pool->ticket = ticket;
	if (held_bytes >= pool->charged_bytes)
		rc = charge_more(pool, held_bytes - pool->charged_bytes, own);
	else
		charge_less(pool, pool->charged_bytes - held_bytes, own);
	if (rc == 0 && is_over(pool))
		rc = -EDQUOT;
out:
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}

void pool_keep(const void *key, uint64_t reserved_bytes)
{
	struct pool *pool;
	uint64_t own;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (pool) {
		own = take_reservation(pool, reserved_bytes);
		pool->charged_bytes += own;
		add_physical(pool, (int64_t)own);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void pool_cancel(const void *key, uint64_t reserved_bytes)
{
	struct pool *pool;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (pool)
		quota_release(pool->dev, QUOTA_DATA, take_reservation(pool, reserved_bytes));
	pthread_mutex_unlock(&state.s.mutex);
}

struct pool *pool_take(const void *key)
{
	struct pool *pool;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (pool) {
		RB_REMOVE(pool_tree, &state.s.pools, pool);
		atomic_fetch_sub(&state.s.count, 1);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return pool;
}

void pool_put_back(struct pool *pool)
{
	pthread_mutex_lock(&state.s.mutex);
	RB_INSERT(pool_tree, &state.s.pools, pool);
	atomic_fetch_add(&state.s.count, 1);
	pthread_mutex_unlock(&state.s.mutex);
}

void pool_end(struct pool *pool, bool was_empty)
{
	int d = pool->dev.v;

	pthread_mutex_lock(&state.s.mutex);
	if (was_empty) {
		add_physical(pool, -(int64_t)pool->charged_bytes);
		quota_release(pool->dev, QUOTA_DATA, pool->charged_bytes);
	} else if (pool->kind == POOL_DEVICE) {
		state.s.orphan_bytes[d] += pool->charged_bytes;
		state.s.orphans_are_over[d] |= is_over(pool);
	}
	pthread_mutex_unlock(&state.s.mutex);
	free(pool);
}

bool pool_any_orphans(struct dev dev)
{
	bool is_any;

	pthread_mutex_lock(&state.s.mutex);
	is_any = state.s.orphan_bytes[dev.v] > 0;
	pthread_mutex_unlock(&state.s.mutex);
	return is_any;
}

uint64_t pool_release_orphans(struct dev dev, uint64_t bytes)
{
	pthread_mutex_lock(&state.s.mutex);
	bytes = bytes_least(bytes, state.s.orphan_bytes[dev.v]);
	state.s.orphan_bytes[dev.v] -= bytes;
	if (bytes) {
		track_physical_add(dev, -(int64_t)bytes);
		quota_release(dev, QUOTA_DATA, bytes);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}

bool pool_any(void)
{
	return atomic_load_explicit(&state.s.count, memory_order_relaxed) > 0;
}

const void *pool_next(struct dev dev, const void *after)
{
	struct pool want = { .key = after }, *pool;
	const void *key = NULL;

	pthread_mutex_lock(&state.s.mutex);
	pool = RB_NFIND(pool_tree, &state.s.pools, &want);
	while (pool && (pool->key == after || pool->dev.v != dev.v))
		pool = RB_NEXT(pool_tree, &state.s.pools, pool);
	if (pool)
		key = pool->key;
	pthread_mutex_unlock(&state.s.mutex);
	return key;
}

uint64_t pool_charged(const void *key)
{
	struct pool *pool;
	uint64_t bytes;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	bytes = pool ? pool->charged_bytes : 0;
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}
