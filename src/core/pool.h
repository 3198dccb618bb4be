/*
 * Memory pools: a pool is charged by what the driver says it holds of the device, not by what was
 * asked of it. That figure is known only after a call, and falls inside other calls
 * (synchronisations), so it is asked for after each allocation and wherever it matters.
 *
 * An allocation that may make the pool grow reserves first; what the pool then really holds is
 * settled against that reservation. Reservations of threads under way count for the pool together:
 * one thread's figure may already hold another's growth.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

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

/* Reserves `bytes` for a growth of the known pool. 0 or -EDQUOT. */
int pool_reserve(const void *pool, uint64_t bytes);

/*
 * True while a pool of the device is over: it grew by what the limit does not allow, which cannot
 * be known before (room in pieces), and the tenant is still above its limit. Nothing is to be asked
 * of the device's pools then. A store does not count: it keeps what it has as long as graphs live.
 */
bool pool_any_over(struct dev dev);

/*
 * A number before the driver is asked for a pool's figure: an answer is dropped when one that was
 * asked for later has been settled.
 */
uint64_t pool_ask(void);

/*
 * Settles: the driver says the pool holds `held_bytes`, and this thread had reserved
 * `reserved_bytes` for it (0: none). What it holds is charged whatever the limit. 0, -EDQUOT while
 * it is over: the caller gives memory back and settles again; or -ESTALE when the region is lost.
 */
int pool_settle(const void *pool, uint64_t ticket, uint64_t held_bytes, uint64_t reserved_bytes);

/* The driver gave no figure: what this thread had reserved stays charged until it gives one. */
void pool_keep(const void *pool, uint64_t reserved_bytes);

/* Nothing became of a reservation. */
void pool_cancel(const void *pool, uint64_t reserved_bytes);

/*
 * Takes a pool out before the driver destroys it, so that its handle can be another's at once: NULL
 * when it is not known. Then it was destroyed or it was not. If it was empty all that it held goes;
 * else it stays charged, as the driver keeps it until the last allocation is freed, and goes by
 * pool_release_orphans().
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
