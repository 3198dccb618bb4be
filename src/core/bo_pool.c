#include "core/bo_pool.h"

#include "base/bytes.h"

#include <stdlib.h>

struct bo_pool_entry {
	TAILQ_ENTRY(bo_pool_entry) in_size, in_all;
	uint64_t handle, bytes;
	uint64_t round; /* in which it was given */
};

void bo_pool_init(struct bo_pool *pool, uint64_t bound_bytes)
{
	*pool = (struct bo_pool){ .bound_bytes = bound_bytes };
	pthread_mutex_init(&pool->mutex, NULL);
	for (unsigned i = 0; i < BO_POOL_SIZES; i++)
		TAILQ_INIT(&pool->sizes[i]);
	TAILQ_INIT(&pool->all);
}

void bo_pool_fini(struct bo_pool *pool)
{
	pthread_mutex_destroy(&pool->mutex);
}

/* NULL: nothing of this size is kept. */
static struct bo_pool_list *list_of(struct bo_pool *pool, uint64_t bytes)
{
	uint64_t grains = bytes / BO_POOL_GRAIN_BYTES;

	if (bytes % BO_POOL_GRAIN_BYTES || !grains || grains > BO_POOL_SIZES)
		return NULL;
	return &pool->sizes[grains - 1];
}

/* With the mutex. */
static void remove_entry(struct bo_pool *pool, struct bo_pool_entry *entry)
{
	TAILQ_REMOVE(list_of(pool, entry->bytes), entry, in_size);
	TAILQ_REMOVE(&pool->all, entry, in_all);
	pool->kept_bytes -= entry->bytes;
}

bool bo_pool_take(struct bo_pool *pool, uint64_t bytes, uint64_t *out_handle)
{
	struct bo_pool_list *list = list_of(pool, bytes);
	struct bo_pool_entry *entry;

	if (!list)
		return false;
	pthread_mutex_lock(&pool->mutex);
	entry = TAILQ_FIRST(list);
	if (entry)
		remove_entry(pool, entry);
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
		entry->bytes = bytes;
		entry->round = pool->round;
		pool->kept_bytes += bytes;
		TAILQ_INSERT_HEAD(list, entry, in_size);
		TAILQ_INSERT_HEAD(&pool->all, entry, in_all);
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

/*
 * Takes out, oldest first, while more than keep_bytes are kept and what is oldest was given before
 * `before_round`. With the mutex.
 */
static unsigned take_out(struct bo_pool *pool, uint64_t keep_bytes, uint64_t before_round,
			 struct bo_pool_handle *out_handles, unsigned room)
{
	unsigned count = 0;

	while (count < room && pool->kept_bytes > keep_bytes) {
		struct bo_pool_entry *entry = TAILQ_LAST(&pool->all, bo_pool_list);

		if (entry->round >= before_round)
			break;
		remove_entry(pool, entry);
		out_handles[count++] = (struct bo_pool_handle){ entry->handle, entry->bytes };
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
