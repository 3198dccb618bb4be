#include "core/pool.h"

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
	bool is_over; /* it grew by what the limit does not allow, and the tenant is still above it */
};

RB_HEAD(pool_tree, pool);

struct pool_state {
	_Atomic uint64_t asked; /* atomic */
	_Atomic uint64_t count; /* of the known pools; written under mutex */
	/* Orders the rest; taken before the quota's. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct pool_tree pools;
	uint64_t orphan_bytes[RATION_DEVICES];
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

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* mutex held. */
static bool is_over(struct pool *pool)
{
	pool->is_over = pool->is_over && quota_is_over(pool->dev);
	return pool->is_over;
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
	struct pool *pool;
	bool is_any = false;

	pthread_mutex_lock(&state.s.mutex);
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
	uint64_t used = least(pool->used_bytes, reserved_bytes);

	pool->pending_bytes -= least(pool->pending_bytes, reserved_bytes);
	pool->used_bytes -= used;
	return reserved_bytes - used;
}

/* Keeps what is tracked in step with the driver's figure for the process. */
static void add_physical(const struct pool *pool, int64_t bytes)
{
	if (pool->kind != POOL_MANAGED)
		track_physical_add(pool->dev, bytes);
}

/* mutex held: charges what nobody has reserved. False when the region is lost. */
static bool grow(struct pool *pool, uint64_t bytes)
{
	if (quota_reserve(pool->dev, QUOTA_DATA, bytes) == 0)
		return true;
	pool->is_over = true;
	return quota_charge(pool->dev, QUOTA_DATA, bytes) == 0;
}

/*
 * mutex held: charges `bytes` more, `own` of them reserved by this thread. The card has given them:
 * they count whatever the limit, or the next request would find room that is not there.
 */
static void charge_more(struct pool *pool, uint64_t bytes, uint64_t own)
{
	uint64_t borrowed;

	if (bytes <= own) {
		quota_release(pool->dev, QUOTA_DATA, own - bytes);
	} else {
		borrowed = least(bytes - own, pool->pending_bytes - pool->used_bytes);
		pool->used_bytes += borrowed;
		if (bytes > own + borrowed && !grow(pool, bytes - own - borrowed))
			bytes = own + borrowed;
	}
	pool->charged_bytes += bytes;
	add_physical(pool, (int64_t)bytes);
}

int pool_settle(const void *key, uint64_t ticket, uint64_t held_bytes, uint64_t reserved_bytes)
{
	struct pool *pool;
	uint64_t own, less;
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
	if (held_bytes >= pool->charged_bytes) {
		charge_more(pool, held_bytes - pool->charged_bytes, own);
	} else {
		less = pool->charged_bytes - held_bytes;
		pool->charged_bytes = held_bytes;
		add_physical(pool, -(int64_t)less);
		quota_release(pool->dev, QUOTA_DATA, less + own);
	}
	if (is_over(pool))
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

/* mutex held: what it holds goes, or is left to who sees it go. */
static void leave(struct pool *pool, bool is_empty)
{
	if (is_empty) {
		add_physical(pool, -(int64_t)pool->charged_bytes);
		quota_release(pool->dev, QUOTA_DATA, pool->charged_bytes);
	} else if (pool->kind == POOL_DEVICE) {
		state.s.orphan_bytes[pool->dev.v] += pool->charged_bytes;
	}
	RB_REMOVE(pool_tree, &state.s.pools, pool);
	atomic_fetch_sub(&state.s.count, 1);
	free(pool);
}

void pool_destroyed(const void *key, bool was_empty)
{
	struct pool *pool;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (pool)
		leave(pool, was_empty);
	pthread_mutex_unlock(&state.s.mutex);
}

uint64_t pool_release_orphans(struct dev dev, uint64_t bytes)
{
	pthread_mutex_lock(&state.s.mutex);
	bytes = least(bytes, state.s.orphan_bytes[dev.v]);
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

int pool_list(struct dev dev, const void **out_pools, int max)
{
	struct pool *pool;
	int n = 0;

	pthread_mutex_lock(&state.s.mutex);
	RB_FOREACH(pool, pool_tree, &state.s.pools)
		if (pool->dev.v == dev.v && n < max)
			out_pools[n++] = pool->key;
	pthread_mutex_unlock(&state.s.mutex);
	return n;
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
