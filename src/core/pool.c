#include "core/pool.h"

#include "base/bytes.h"
#include "base/process.h"
#include "base/tree.h"
#include "core/doubt.h"
#include "core/given.h"
#include "core/leaving.h"
#include "core/lent.h"
#include "core/piece.h"
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
	uint64_t settled; /* the number asked last when it was settled last */
	uint64_t charged_bytes;
	uint64_t pending_bytes;    /* reservations of threads under way */
	uint64_t used_bytes;       /* of pending: already charged by another thread's figure */
	uint64_t over_bytes;       /* of charged: grown by when the limit did not allow it */
	struct piece_pool *pieces; /* of managed memory; else NULL */
};

RB_HEAD(pool_tree, pool);

struct pool_state {
	_Atomic uint64_t asked;   /* atomic */
	_Atomic uint64_t count;   /* of the known pools; written under mutex */
	_Atomic bool has_managed; /* one was known; atomic */
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
			if (kind == POOL_MANAGED) {
				pool->pieces = piece_pool_new();
				atomic_store(&state.s.has_managed, true);
			}
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

/* At once: the sum and pending_bytes grow together, as another thread's figure needs them. */
static int reserve(const void *key, uint64_t bytes)
{
	struct pool *pool;
	int rc = -EDQUOT;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (pool)
		rc = quota_take(pool->dev, QUOTA_DATA, bytes);
	if (rc == 0)
		pool->pending_bytes += bytes;
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}

/* Others that are in doubt need the mutex: it is not held while they are waited for. */
int pool_reserve(const void *key, uint64_t bytes)
{
	int rc = reserve(key, bytes);
	struct dev dev;

	if (rc != -EDQUOT || !pool_device(key, &dev))
		return rc;
	return LEAVING_TRY(dev, bytes_sum(bytes, quota_kept(dev)), reserve(key, bytes));
}

int pool_doubt(struct pool_doubt *d, const void *key, uint64_t most_bytes, bool is_firm)
{
	uint64_t bytes = is_firm ? bytes_sum(most_bytes, POOL_STEP_BYTES) : most_bytes;
	struct pool *pool;
	int rc = -EDQUOT;

	*d = (struct pool_doubt){ .pool = key };
	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (pool) {
		d->dev = pool->dev;
		rc = quota_doubt(pool->dev, QUOTA_DATA, bytes);
	}
	if (rc == 0) {
		pool->pending_bytes += bytes;
		d->bytes = bytes;
		d->most_bytes = most_bytes;
		d->is_firm = is_firm;
	}
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
	int rc = quota_take(pool->dev, QUOTA_DATA, bytes);

	if (rc == -EDQUOT) {
		rc = quota_charge(pool->dev, QUOTA_DATA, bytes);
		pool->over_bytes += bytes;
	}
	return rc;
}

/* What this thread has reserved when it settles. */
struct own {
	uint64_t bytes;      /* that no other thread's figure has used */
	uint64_t most_bytes; /* of it, what its own call may have taken; the rest is used last */
	uint64_t back_bytes; /* out: what is to be released */
};

/* mutex held: charges `bytes` more. 0 or -ESTALE. */
static int charge_more(struct pool *pool, uint64_t bytes, struct own *own)
{
	uint64_t first = bytes_least(bytes, own->most_bytes), borrowed, rest;
	int rc = 0;

	borrowed = bytes_least(bytes - first, pool->pending_bytes - pool->used_bytes);
	pool->used_bytes += borrowed;
	rest = bytes_least(bytes - first - borrowed, own->bytes - first);
	own->back_bytes = own->bytes - first - rest;
	if (bytes > first + borrowed + rest)
		rc = grow(pool, bytes - first - borrowed - rest);
	if (rc < 0)
		bytes = first + borrowed + rest;
	pool->charged_bytes += bytes;
	add_physical(pool, (int64_t)bytes);
	return rc;
}

/* mutex held: the pool holds `bytes` less; what this thread has reserved was for nothing. */
static void charge_less(struct pool *pool, uint64_t bytes, struct own *own)
{
	pool->charged_bytes -= bytes;
	pool->over_bytes -= bytes_least(pool->over_bytes, bytes);
	add_physical(pool, -(int64_t)bytes);
	bytes -= given_keep(pool->key, pool->dev, bytes);
	if (pool->kind == POOL_STORE) {
		lent_end_stored();
		bytes -= lent_claim(pool->dev, bytes);
	}
	own->back_bytes = own->bytes + bytes;
}

/* mutex held. True where the figure may be older than the one that was settled last. */
static bool is_aside(const struct pool *pool, uint64_t ticket)
{
	return ticket <= pool->settled;
}

/* mutex held. As pool_settle(), but for what is to be released. */
static int settle(struct pool *pool, uint64_t ticket, uint64_t held_bytes, struct own *own)
{
	int rc = 0;

	if (ticket == POOL_ASKED_OFTEN && held_bytes < pool->charged_bytes)
		held_bytes = pool->charged_bytes;
	pool->settled = atomic_load(&state.s.asked);
	if (held_bytes >= pool->charged_bytes)
		rc = charge_more(pool, held_bytes - pool->charged_bytes, own);
	else
		charge_less(pool, pool->charged_bytes - held_bytes, own);
	return rc;
}

int pool_settle(const void *key, uint64_t ticket, uint64_t held_bytes, uint64_t reserved_bytes)
{
	struct pool *pool;
	struct own own;
	int rc = 0;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (!pool)
		goto out;
	rc = is_aside(pool, ticket) ? -EAGAIN : 0;
	if (rc < 0)
		goto out;
	own.bytes = own.most_bytes = take_reservation(pool, reserved_bytes);
	rc = settle(pool, ticket, held_bytes, &own);
	quota_release(pool->dev, QUOTA_DATA, own.back_bytes);
	if (rc == 0 && is_over(pool))
		rc = -EDQUOT;
out:
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}

/*
 * mutex held: the pool grew for the call, by some of what was reserved for it, or by what nobody
 * has reserved. That may stay while the step is left, of which others under way may still give
 * back.
 */
static bool may_stay(const struct pool_doubt *d)
{
	return d->is_firm || doubt_left_at_best(d->dev, d->bytes) >= POOL_STEP_BYTES;
}

/* `bytes` of it are in doubt no more, `back_bytes` are released. */
static void end_doubt(struct pool_doubt *d, uint64_t bytes, uint64_t back_bytes)
{
	if (bytes || back_bytes)
		quota_doubt_over(d->dev, QUOTA_DATA, bytes, back_bytes);
	d->bytes -= bytes;
}

/*
 * mutex held: the pool was destroyed while the call was under way, and perhaps served it before.
 * What it may have grown by stays charged.
 */
static void orphan(struct pool_doubt *d)
{
	uint64_t bytes = bytes_least(d->bytes, d->most_bytes);

	state.s.orphan_bytes[d->dev.v] += bytes;
	track_physical_add(d->dev, (int64_t)bytes);
	end_doubt(d, d->bytes, d->bytes - bytes);
}

int pool_settle_doubt(struct pool_doubt *d, uint64_t ticket, uint64_t held_bytes)
{
	uint64_t charged_bytes, over_bytes, grown_bytes;
	struct pool *pool;
	struct own own;
	int rc = 0;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(d->pool);
	if (!pool) {
		orphan(d);
		goto out;
	}
	rc = is_aside(pool, ticket) ? -EAGAIN : 0;
	if (rc < 0)
		goto out;
	charged_bytes = pool->charged_bytes;
	over_bytes = pool->over_bytes;
	own.bytes = take_reservation(pool, d->bytes);
	own.most_bytes = bytes_least(own.bytes, d->most_bytes);
	rc = settle(pool, ticket, held_bytes, &own);
	/* What another's figure has used of it, what this one has, and what is beyond both. */
	grown_bytes = bytes_beyond(d->bytes, own.bytes) +
		      bytes_least(bytes_beyond(pool->charged_bytes, charged_bytes),
				  own.most_bytes) +
		      bytes_beyond(pool->over_bytes, over_bytes);
	end_doubt(d, bytes_beyond(d->bytes, grown_bytes), own.back_bytes);
	if (rc == 0 && (is_over(pool) || (grown_bytes && !may_stay(d))))
		rc = -EDQUOT;
	if (rc != -EDQUOT)
		end_doubt(d, d->bytes, 0);
out:
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}

void pool_undone(struct pool_doubt *d)
{
	end_doubt(d, d->bytes, 0);
}

void pool_doubt_move(struct pool_doubt *d, const void *key)
{
	struct pool *from, *to;

	pthread_mutex_lock(&state.s.mutex);
	from = find(d->pool);
	to = find(key);
	/* What another thread's figure has used of it stays with the pool that grew. */
	if (from && to && from->used_bytes == 0) {
		from->pending_bytes -= d->bytes;
		to->pending_bytes += d->bytes;
		d->pool = key;
	}
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held. */
static void keep(struct pool *pool, uint64_t own)
{
	pool->charged_bytes += own;
	add_physical(pool, (int64_t)own);
}

void pool_keep(const void *key, uint64_t reserved_bytes)
{
	struct pool *pool;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (pool)
		keep(pool, take_reservation(pool, reserved_bytes));
	pthread_mutex_unlock(&state.s.mutex);
}

void pool_keep_doubt(struct pool_doubt *d)
{
	struct pool *pool;
	uint64_t own, kept;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(d->pool);
	if (pool) {
		own = take_reservation(pool, d->bytes);
		kept = bytes_least(own, d->most_bytes);
		keep(pool, kept);
		end_doubt(d, d->bytes, own - kept);
	} else {
		orphan(d);
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

bool pool_any_managed(void)
{
	return atomic_load_explicit(&state.s.has_managed, memory_order_relaxed);
}

void pool_given(const void *key, uint64_t addr)
{
	struct pool *pool;

	pthread_mutex_lock(&state.s.mutex);
	pool = find(key);
	if (pool)
		piece_given(pool->pieces, addr);
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

/* mutex held: what of the bytes of destroyed pools is to be released. */
static uint64_t without_given(struct dev dev, uint64_t bytes)
{
	return bytes - given_keep(NULL, dev, bytes);
}

void pool_end(struct pool *pool, bool was_empty)
{
	int d = pool->dev.v;

	pthread_mutex_lock(&state.s.mutex);
	given_pool_end(pool->key);
	if (was_empty) {
		add_physical(pool, -(int64_t)pool->charged_bytes);
		quota_release(pool->dev, QUOTA_DATA, without_given(pool->dev, pool->charged_bytes));
	} else if (pool->kind == POOL_DEVICE) {
		state.s.orphan_bytes[d] += pool->charged_bytes;
		state.s.orphans_are_over[d] |= is_over(pool);
	}
	piece_pool_end(pool->pieces, pool->dev, was_empty ? 0 : pool->charged_bytes);
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
		quota_release(dev, QUOTA_DATA, without_given(dev, bytes));
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
