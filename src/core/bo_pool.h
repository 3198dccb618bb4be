/*
 * Memory handles that are not in use, kept because making them is what costs. A handle serves
 * requests of its own size alone: what is mapped is a whole handle, so that none can be cut.
 *
 * No call of the driver: who takes a handle out, by whatever function, releases it or uses it.
 * What is kept still is memory of its place. One pool is for one place of one device, and its
 * handles were the process's own: what a handle holds may be seen by who gets it. Thread safe.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* Sizes are multiples of the first, up to so many of it. */
#define BO_POOL_GRAIN_BYTES (UINT64_C(2) << 20)
enum { BO_POOL_SIZES = 512 };

struct bo_pool_entry;
TAILQ_HEAD(bo_pool_list, bo_pool_entry);

struct bo_pool {
	pthread_mutex_t mutex;
	/* the mutex */
	uint64_t bound_bytes; /* that may be kept */
	uint64_t kept_bytes;
	uint64_t round;                           /* counts bo_pool_tick() */
	struct bo_pool_list sizes[BO_POOL_SIZES]; /* what was given last comes first */
	struct bo_pool_list all;                  /* likewise */
};

/* A handle that leaves the pool, by who calls: to be released. */
struct bo_pool_handle {
	uint64_t handle, bytes;
};

void bo_pool_init(struct bo_pool *pool, uint64_t bound_bytes);

/* There is nothing in it any more: bo_pool_trim() came before. */
void bo_pool_fini(struct bo_pool *pool);

/* Takes the handle of these bytes that was given last. False: there is none. */
bool bo_pool_take(struct bo_pool *pool, uint64_t bytes, uint64_t *out_handle);

/*
 * Keeps a handle. False: it has no such size, would pass the bound, or there is no memory for
 * it; it stays the caller's.
 */
bool bo_pool_give(struct bo_pool *pool, uint64_t bytes, uint64_t handle);

/* From now on no more is given than this; what is above it, bo_pool_trim() takes out. */
void bo_pool_set_bound(struct bo_pool *pool, uint64_t bound_bytes);

/*
 * Takes out, what was given first before all, until no more than `keep_bytes` are kept, or `room`
 * handles are out. Returns how many: the caller's to release; fewer than `room` when that is all.
 */
unsigned bo_pool_trim(struct bo_pool *pool, uint64_t keep_bytes, struct bo_pool_handle *out_handles,
		      unsigned room);

/*
 * A round of the clock is over. Takes out up to `room` handles that have lain in the pool for more
 * than `rounds` of them, as bo_pool_trim().
 */
unsigned bo_pool_tick(struct bo_pool *pool, uint64_t rounds, struct bo_pool_handle *out_handles,
		      unsigned room);

uint64_t bo_pool_kept(struct bo_pool *pool);
