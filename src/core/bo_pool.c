#include "core/bo_pool.h"

#include "base/bytes.h"

#include <stdlib.h>

struct bo_pool_entry {
	TAILQ_ENTRY(bo_pool_entry) in_list;
	uint64_t handle;
	uint64_t round; /* in which it was given */
};

#define MIB UINT64_C(1048576)

/* Ascending. */
static const uint64_t class_bytes[BO_POOL_CLASSES] = { 2 * MIB, 32 * MIB, 64 * MIB, 512 * MIB };

void bo_pool_init(struct bo_pool *pool, uint64_t bound_bytes)
{
	*pool = (struct bo_pool){ .bound_bytes = bound_bytes };
	pthread_mutex_init(&pool->mutex, NULL);
	for (unsigned i = 0; i < BO_POOL_CLASSES; i++)
		TAILQ_INIT(&pool->lists[i]);
}

void bo_pool_fini(struct bo_pool *pool)
{
	pthread_mutex_destroy(&pool->mutex);
}

uint64_t bo_pool_class_bytes(uint64_t bytes)
{
	unsigned i = BO_POOL_CLASSES - 1;

	while (i > 0 && class_bytes[i] > bytes)
		i--;
	return class_bytes[i];
}

/* NULL: no class has this size. */
static struct bo_pool_list *list_of(struct bo_pool *pool, uint64_t bytes)
{
	for (unsigned i = 0; i < BO_POOL_CLASSES; i++)
		if (class_bytes[i] == bytes)
			return &pool->lists[i];
	return NULL;
}

bool bo_pool_take(struct bo_pool *pool, uint64_t bytes, uint64_t *out_handle)
{
	struct bo_pool_list *list = list_of(pool, bytes);
	struct bo_pool_entry *entry;

	if (!list)
		return false;
	pthread_mutex_lock(&pool->mutex);
	entry = TAILQ_FIRST(list);
	if (entry) {
		TAILQ_REMOVE(list, entry, in_list);
		pool->kept_bytes -= bytes;
	}
	pthread_mutex_unlock(&pool->mutex);
	if (!entry)
		return false;
	*out_handle = entry->handle;
	free(entry);
	return true;
}

bool bo_pool_give(struct bo_pool *pool, uint64_t bytes, uint64_t handle)
{
	struct bo_pool_list *list = list_of(pool, bytes);
	struct bo_pool_entry *entry = list ? malloc(sizeof(*entry)) : NULL;
	bool has_room;

	if (!entry)
		return false;
	pthread_mutex_lock(&pool->mutex);
	has_room = bytes <= bytes_beyond(pool->bound_bytes, pool->kept_bytes);
	if (has_room) {
		entry->handle = handle;
		entry->round = pool->round;
		pool->kept_bytes += bytes;
		TAILQ_INSERT_HEAD(list, entry, in_list);
	}
	pthread_mutex_unlock(&pool->mutex);
	if (!has_room)
		free(entry);
	return has_room;
}

void bo_pool_set_bound(struct bo_pool *pool, uint64_t bound_bytes)
{
	pthread_mutex_lock(&pool->mutex);
	pool->bound_bytes = bound_bytes;
	pthread_mutex_unlock(&pool->mutex);
}

/* The class whose oldest entry is the oldest, of equal ones the largest; -1: all are empty. */
static int oldest_class(const struct bo_pool *pool)
{
	uint64_t oldest_round = UINT64_MAX;
	int oldest = -1;

	for (int i = BO_POOL_CLASSES - 1; i >= 0; i--) {
		const struct bo_pool_entry *entry = TAILQ_LAST(&pool->lists[i], bo_pool_list);

		if (entry && entry->round < oldest_round) {
			oldest_round = entry->round;
			oldest = i;
		}
	}
	return oldest;
}

/*
 * Takes out, oldest first, while more than keep_bytes are kept and what is oldest was given before
 * `before_round`. With the mutex.
 */
static unsigned take_out(struct bo_pool *pool, uint64_t keep_bytes, uint64_t before_round,
			 struct bo_pool_handle *out_handles, unsigned room)
{
	unsigned count = 0;

	while (count < room && pool->kept_bytes > keep_bytes) {
		int oldest = oldest_class(pool);
		struct bo_pool_entry *entry = TAILQ_LAST(&pool->lists[oldest], bo_pool_list);

		if (entry->round >= before_round)
			break;
		TAILQ_REMOVE(&pool->lists[oldest], entry, in_list);
		pool->kept_bytes -= class_bytes[oldest];
		out_handles[count].handle = entry->handle;
		out_handles[count++].bytes = class_bytes[oldest];
		free(entry);
	}
	return count;
}

unsigned bo_pool_trim(struct bo_pool *pool, uint64_t keep_bytes, struct bo_pool_handle *out_handles,
		      unsigned room)
{
	unsigned count;

	pthread_mutex_lock(&pool->mutex);
	count = take_out(pool, keep_bytes, UINT64_MAX, out_handles, room);
	pthread_mutex_unlock(&pool->mutex);
	return count;
}

unsigned bo_pool_tick(struct bo_pool *pool, uint64_t rounds, struct bo_pool_handle *out_handles,
		      unsigned room)
{
	unsigned count = 0;

	pthread_mutex_lock(&pool->mutex);
	pool->round++;
	if (pool->round > rounds)
		count = take_out(pool, 0, pool->round - rounds, out_handles, room);
	pthread_mutex_unlock(&pool->mutex);
	return count;
}

uint64_t bo_pool_kept(struct bo_pool *pool)
{
	uint64_t bytes;

	pthread_mutex_lock(&pool->mutex);
	bytes = pool->kept_bytes;
	pthread_mutex_unlock(&pool->mutex);
	return bytes;
}
