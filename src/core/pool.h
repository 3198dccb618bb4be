/*
 * Memory pools: a pool is charged by what the driver says it holds of the device, not by what was
 * asked of it. That figure is known only after a call, and falls inside other calls
 * (synchronisations), so it is asked for after each allocation and wherever it matters.
 *
 * Whether the pool grows for an allocation is not known before: its room may lie in pieces, or be
 * of frees that another stream has not come to. So each allocation reserves, in doubt, the most
 * that the pool may grow by, and what it really did is settled against that: no growth is ever
 * beyond what is charged. Reservations of threads under way count for the pool together: one
 * thread's figure may already hold another's growth.
 *
 * Pools grow until POOL_STEP_BYTES of the limit are left, not to the limit: with less, nothing
 * could be asked of a full pool any more, though it has room, since it might grow. Who asks then
 * may let it grow into that step, to find out; it gives back what it grew by and is refused. So in
 * a full tenant one request for each step that is left is under way at a time; others wait for it.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* What a pool grows by, at least and in multiples of it (docs/real-gpu.md). */
#define POOL_STEP_BYTES (UINT64_C(32) << 20)

/* Starts: fork children begin with nothing. */
void pool_init(void);

enum pool_kind {
	POOL_DEVICE,
	POOL_MANAGED, /* counts whole, and is not in the driver's figure for the process */
	POOL_STORE,   /* of graphs (core/graph.h) */
};

/*
 * Makes the pool known, with nothing charged; does nothing to one that is known. Returns false
 * where there is no memory for it.
 */
bool pool_enter(const void *pool, struct dev dev, enum pool_kind kind);

/* The device of a known pool. */
bool pool_device(const void *pool, struct dev *out_dev);

/* Reserves `bytes` for a growth of the known pool that is certain to come. 0 or -EDQUOT. */
int pool_reserve(const void *pool, uint64_t bytes);

/* One allocation under way. All zeros: nothing is reserved for it. */
struct pool_doubt {
	const void *pool;
	struct dev dev;
	uint64_t bytes;      /* reserved */
	uint64_t most_bytes; /* what the pool may grow by for it */
	bool is_firm;        /* the growth may stay: the step was left beside it */
};

/*
 * Reserves for an allocation by which the pool grows by `most_bytes` at most: with the step on top
 * if `is_firm`. 0 or -EDQUOT, at once.
 */
int pool_doubt(struct pool_doubt *d, const void *pool, uint64_t most_bytes, bool is_firm);

/* Another pool of the device served it. */
void pool_doubt_move(struct pool_doubt *d, const void *pool);

/*
 * As pool_settle() after the call, with what is left of the reservation given back. -EDQUOT too
 * when it grew and that may not stay: the caller gives memory back, settles that, and then says
 * pool_undone(); until then others wait for what it grew by.
 */
int pool_settle_doubt(struct pool_doubt *d, uint64_t ticket, uint64_t held_bytes);
void pool_undone(struct pool_doubt *d);

/* As pool_keep(), of what the pool may have grown by. */
void pool_keep_doubt(struct pool_doubt *d);

/*
 * True while a pool of the device is over: it grew by more than was reserved, which no driver was
 * seen to do, and the tenant is still above its limit. A store does not count: it keeps what it has
 * as long as graphs live.
 */
bool pool_any_over(struct dev dev);

/*
 * A number before the driver is asked for a pool's figure. Two figures that were asked for side by
 * side cannot be told in order: who settles second is told to ask again, with -EAGAIN, and nothing
 * has changed. With POOL_ASKED_OFTEN it is the larger one that counts.
 */
#define POOL_ASKED_OFTEN UINT64_MAX
uint64_t pool_ask(void);

/*
 * Settles: the driver says the pool holds `held_bytes`, and this thread had reserved
 * `reserved_bytes` for it (0: none). What it holds is charged whatever the limit. 0, -EDQUOT while
 * it is over: the caller gives memory back and settles again; -EAGAIN; or -ESTALE when the region
 * is lost.
 */
int pool_settle(const void *pool, uint64_t ticket, uint64_t held_bytes, uint64_t reserved_bytes);

/* The driver gave no figure: what this thread had reserved stays charged until it gives one. */
void pool_keep(const void *pool, uint64_t reserved_bytes);

/* Nothing became of a reservation. */
void pool_cancel(const void *pool, uint64_t reserved_bytes);

/* True when a managed pool was ever known; one load. */
bool pool_any_managed(void);

/* The pool gave out memory at this address: of managed pools it is remembered (core/piece.h). */
void pool_given(const void *pool, uint64_t addr);

/*
 * Takes a pool out before the driver destroys it, so that its handle can be another's at once: NULL
 * when it is not known. Then it was destroyed or it was not. If it was empty all that it held goes;
 * else it stays charged, as the driver keeps it until the streams have come to the last free, and
 * goes by pool_release_orphans(), or if it is managed with the last piece (core/piece.h). So does
 * what an allocation that was under way meanwhile has in doubt.
 */
struct pool *pool_take(const void *pool);
void pool_end(struct pool *pool, bool was_empty);
void pool_put_back(struct pool *pool);

/* True while memory of destroyed pools is charged on the device. */
bool pool_any_orphans(struct dev dev);

/*
 * Takes up to `bytes` off the charges of destroyed pools of the device: the card holds less.
 * Returns how much.
 */
uint64_t pool_release_orphans(struct dev dev, uint64_t bytes);

/* True when any pool is known: one load, for who looks often. */
bool pool_any(void);

/* The device's pool that comes after `after` (NULL: the first), NULL at the end. */
const void *pool_next(struct dev dev, const void *after);

/* What is charged for the pool. */
uint64_t pool_charged(const void *pool);
