#include "cuda_range.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_context.h"
#include "cuda_pool.h"

static struct {
	pthread_rwlock_t lock;
	struct cuda_range **range; /* by ascending start, none overlapping */
	int count, room;
	uint64_t last_id;
} map = { .lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP };

void cuda_range_lock_shared(void)
{
	pthread_rwlock_rdlock(&map.lock);
}

void cuda_range_lock_alone(void)
{
	pthread_rwlock_wrlock(&map.lock);
}

void cuda_range_unlock(void)
{
	pthread_rwlock_unlock(&map.lock);
}

/* Index of the first range that ends behind `address`. */
static int find(uint64_t address)
{
	int low = 0, high = map.count;

	while (low < high) {
		int mid = (low + high) / 2;

		if (map.range[mid]->start + map.range[mid]->size_bytes <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct cuda_range *cuda_range_find(uint64_t address)
{
	int i = find(address);

	return i < map.count && map.range[i]->start <= address ? map.range[i] : NULL;
}

struct cuda_range *cuda_range_next(uint64_t address)
{
	int i = find(address);

	if (i < map.count && map.range[i]->start < address)
		i++;
	return i < map.count ? map.range[i] : NULL;
}

bool cuda_range_is_free(uint64_t start, uint64_t size_bytes)
{
	int i = find(start);

	return i == map.count || map.range[i]->start >= start + size_bytes;
}

int cuda_range_insert(struct cuda_range *range)
{
	int at, err = 0;

	cuda_range_lock_alone();
	if (map.count == map.room) {
		int room = map.room ? map.room * 2 : 64;
		void *grown = realloc(map.range, (size_t)room * sizeof(*map.range));

		if (!grown) {
			err = -ENOMEM;
			goto out;
		}
		map.range = grown;
		map.room = room;
	}
	at = find(range->start);
	memmove(&map.range[at + 1], &map.range[at], (size_t)(map.count - at) * sizeof(*map.range));
	map.range[at] = range;
	map.count++;
	range->buffer_id = ++map.last_id;
out:
	cuda_range_unlock();
	return err;
}

void cuda_range_remove(struct cuda_range *range)
{
	int at;

	cuda_range_lock_alone();
	at = find(range->start);
	map.count--;
	memmove(&map.range[at], &map.range[at + 1], (size_t)(map.count - at) * sizeof(*map.range));
	cuda_range_unlock();
}

static bool is_allowed(const struct CUctx_st *ctx, const struct cuda_range *range,
		       enum range_access access)
{
	uint64_t bit = (uint64_t)1 << ctx->dev;

	switch (range->kind) {
	case RANGE_MANAGED:
	case RANGE_HOST:
	case RANGE_REGISTERED:
		return true;
	case RANGE_ARRAY:
		return false;
	case RANGE_MAPPED:
	case RANGE_GRAPH:
		return (access == RANGE_WRITE ? range->writers : range->readers) & bit;
	case RANGE_POOL:
		return cuda_pool_is_accessible(range->pool, ctx->dev, access);
	default:
		return range->dev == ctx->dev || (ctx->peers >> range->dev & 1);
	}
}

static bool is_copyable(const struct CUctx_st *ctx, const struct cuda_range *range,
			enum range_access access)
{
	if (range->kind == RANGE_LINEAR || range->kind == RANGE_MODULE ||
	    range->kind == RANGE_IPC || range->kind == RANGE_ARRAY)
		return true;
	return is_allowed(ctx, range, access);
}

typedef bool (*range_rule)(const struct CUctx_st *ctx, const struct cuda_range *range,
			   enum range_access access);

static bool holds(range_rule rule, const struct CUctx_st *ctx, uint64_t address,
		  uint64_t size_bytes, enum range_access access)
{
	uint64_t end = address + size_bytes;

	if (end < address)
		return false;
	for (int i = find(address); address < end; i++) {
		if (i == map.count || map.range[i]->start > address)
			return false;
		if (!rule(ctx, map.range[i], access))
			return false;
		address = map.range[i]->start + map.range[i]->size_bytes;
	}
	return true;
}

bool cuda_range_is_accessible(const struct CUctx_st *ctx, uint64_t address, uint64_t size_bytes,
			      enum range_access access)
{
	return holds(is_allowed, ctx, address, size_bytes, access);
}

bool cuda_range_is_copyable(const struct CUctx_st *ctx, uint64_t address, uint64_t size_bytes,
			    enum range_access access)
{
	return holds(is_copyable, ctx, address, size_bytes, access);
}

/* Neighbours of another kind are other allocations. */
bool cuda_range_is_spanned(uint64_t address, uint64_t size_bytes)
{
	uint64_t end = address + size_bytes;
	int i = find(address), first = i;

	if (end < address)
		return false;
	for (; address < end; i++) {
		if (i == map.count || map.range[i]->start > address)
			return false;
		if (i > first && map.range[i]->kind != RANGE_MAPPED)
			return false;
		if (i > first && map.range[first]->kind != RANGE_MAPPED)
			return false;
		address = map.range[i]->start + map.range[i]->size_bytes;
	}
	return true;
}
