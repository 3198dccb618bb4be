#include "cuda_pool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_address.h"
#include "cuda_device.h"
#include "cuda_extent.h"
#include "cuda_heap.h"
#include "cuda_memory.h"
#include "cuda_object.h"
#include "cuda_shared.h"
#include "cuda_stream.h"
#include "cuda_work.h"

#define GROWTH_BYTES ((uint64_t)32 << 20)
#define UNIT_BYTES ((uint64_t)512)

/* Memory whose cuMemFreeAsync the stream has not come to. Its own stream may have it again before
 * that; what is then left of it becomes free. */
struct cuda_pool_piece {
	struct CUmemPoolHandle_st *pool;
	uint64_t start, bytes, stream_id;
	struct cuda_pool_piece *next;
};

struct CUmemPoolHandle_st {
	CUdevice dev;     /* constant */
	int fd;           /* constant: the file its memory lies in; -1: none */
	bool is_imported; /* constant: of another process, which counts it */
	bool is_managed;  /* constant: its pages lie in host memory, which no device counts */
	bool is_default, is_ending;
	uint64_t file_bytes;
	struct cuda_pool_stats stats;
	struct cuda_extents free;
	struct cuda_pool_piece *pending;
	struct cuda_range **allocation; /* by ascending start */
	int count, room;
	uint64_t access; /* other ordinals that may touch it; both locks */
	struct cuda_pool_held *held;
	uint64_t spare_start, spare_bytes; /* of its file: where memory lay that it gave back */
	struct CUmemPoolHandle_st *next;
};

static struct {
	struct CUmemPoolHandle_st *all;
	struct CUmemPoolHandle_st *initial[MACHINE_DEVICES], *current[MACHINE_DEVICES];
	uint64_t last_id;
} pools; /* the driver's lock */

bool cuda_pool_is_accessible(const struct CUmemPoolHandle_st *pool, CUdevice dev,
			     enum range_access access)
{
	(void)access;
	return dev == pool->dev || (pool->access >> dev & 1);
}

struct cuda_pool_stats *cuda_pool_stats(struct CUmemPoolHandle_st *pool)
{
	return &pool->stats;
}

CUdevice cuda_pool_device(const struct CUmemPoolHandle_st *pool)
{
	return pool->dev;
}

void cuda_pool_set_access(struct CUmemPoolHandle_st *pool, CUdevice dev, bool allowed)
{
	uint64_t bit = (uint64_t)1 << dev;

	cuda_range_lock_alone();
	pool->access = allowed ? pool->access | bit : pool->access & ~bit;
	cuda_range_unlock();
}

bool cuda_pool_is_imported(const struct CUmemPoolHandle_st *pool)
{
	return pool->is_imported;
}

struct cuda_pool_held **cuda_pool_held(struct CUmemPoolHandle_st *pool)
{
	return &pool->held;
}

int cuda_pool_file(const struct CUmemPoolHandle_st *pool)
{
	return pool->fd;
}

struct CUmemPoolHandle_st *cuda_pool_new(CUdevice dev, uint64_t max_bytes, int fd)
{
	struct CUmemPoolHandle_st *pool = calloc(1, sizeof(*pool));

	if (!pool || cuda_object_add(OBJECT_POOL, pool) != 0) {
		if (fd >= 0)
			close(fd);
		free(pool);
		return NULL;
	}
	pool->dev = dev;
	pool->fd = fd;
	pool->stats.max_bytes = max_bytes;
	for (int i = 0; i < 3; i++)
		pool->stats.reuse[i] = 1;
	pool->next = pools.all;
	pools.all = pool;
	return pool;
}

struct CUmemPoolHandle_st *cuda_pool_new_imported(CUdevice dev, int fd)
{
	struct CUmemPoolHandle_st *pool = cuda_pool_new(dev, 0, fd);

	if (pool)
		pool->is_imported = true;
	return pool;
}

struct CUmemPoolHandle_st *cuda_pool_new_managed(CUdevice dev, uint64_t max_bytes)
{
	struct CUmemPoolHandle_st *pool = cuda_pool_new(dev, max_bytes, -1);

	if (pool)
		pool->is_managed = true;
	return pool;
}

bool cuda_pool_is_managed(const struct CUmemPoolHandle_st *pool)
{
	return pool->is_managed;
}

struct CUmemPoolHandle_st *cuda_pool_default(CUdevice dev)
{
	if (!pools.initial[dev]) {
		pools.initial[dev] = cuda_pool_new(dev, 0, -1);
		if (pools.initial[dev])
			pools.initial[dev]->is_default = true;
	}
	return pools.initial[dev];
}

struct CUmemPoolHandle_st *cuda_pool_current(CUdevice dev)
{
	return pools.current[dev] ? pools.current[dev] : cuda_pool_default(dev);
}

void cuda_pool_set_current(CUdevice dev, struct CUmemPoolHandle_st *pool)
{
	pools.current[dev] = pool;
}

/* Index of the first allocation that ends behind `address`. */
static int find(const struct CUmemPoolHandle_st *pool, uint64_t address)
{
	int low = 0, high = pool->count;

	while (low < high) {
		int mid = (low + high) / 2;
		const struct cuda_range *a = pool->allocation[mid];

		if (a->start + a->size_bytes <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct cuda_range *cuda_pool_find(struct CUmemPoolHandle_st *pool, uint64_t address)
{
	int i = find(pool, address);

	return i < pool->count && pool->allocation[i]->start <= address ? pool->allocation[i] :
									  NULL;
}

static int add_allocation(struct CUmemPoolHandle_st *pool, struct cuda_range *a)
{
	int at;

	if (pool->count == pool->room) {
		int room = pool->room ? pool->room * 2 : 64;
		void *grown = realloc(pool->allocation, (size_t)room * sizeof(*pool->allocation));

		if (!grown)
			return -1;
		pool->allocation = grown;
		pool->room = room;
	}
	at = find(pool, a->start);
	memmove(&pool->allocation[at + 1], &pool->allocation[at],
		(size_t)(pool->count - at) * sizeof(*pool->allocation));
	pool->allocation[at] = a;
	pool->count++;
	return 0;
}

static uint64_t taken_bytes(uint64_t bytes)
{
	return (bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
}

/* Makes an allocation with a place and a size one of the pool's. */
static int enter_allocation(struct CUmemPoolHandle_st *pool, struct cuda_range *a)
{
	a->kind = RANGE_POOL;
	a->dev = pool->dev;
	a->pool = pool;
	a->buffer_id = ((uint64_t)1 << 32) + ++pools.last_id;
	if (add_allocation(pool, a) != 0)
		return -1;
	pool->stats.used_bytes += taken_bytes(a->size_bytes);
	if (pool->stats.used_high_bytes < pool->stats.used_bytes)
		pool->stats.used_high_bytes = pool->stats.used_bytes;
	return 0;
}

/* Memory of an allocation that is over. What was imported goes alone. */
static void give_back(struct CUmemPoolHandle_st *pool, uint64_t start, uint64_t bytes)
{
	if (pool->is_imported)
		cuda_memory_delete(cuda_range_find(start));
	else
		cuda_extent_add(&pool->free, start, bytes);
}

/* Takes an allocation out of the pool's table; its memory is the caller's. */
static void drop_allocation(struct CUmemPoolHandle_st *pool, struct cuda_range *a)
{
	int at = find(pool, a->start);

	pool->count--;
	memmove(&pool->allocation[at], &pool->allocation[at + 1],
		(size_t)(pool->count - at) * sizeof(*pool->allocation));
	pool->stats.used_bytes -= taken_bytes(a->size_bytes);
	free(a);
}

/* The first region of the pool at or behind an address; NULL when there is none. */
static struct cuda_range *next_region(const struct CUmemPoolHandle_st *pool, uint64_t address)
{
	struct cuda_range *range = cuda_range_next(address);

	while (range && range->pool != pool)
		range = cuda_range_next(range->start + range->size_bytes);
	return range;
}

void cuda_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep_bytes)
{
	struct cuda_range *region = next_region(pool, 0);

	while (region && pool->stats.reserved_bytes > keep_bytes) {
		uint64_t start = region->start, bytes = region->size_bytes;

		if (pool->stats.reserved_bytes - bytes >= keep_bytes &&
		    cuda_extent_take_at(&pool->free, start, bytes) == 0) {
			pool->stats.reserved_bytes -= bytes;
			cuda_memory_delete(region);
		}
		region = next_region(pool, start + bytes);
	}
}

void cuda_pool_trim_all(void)
{
	for (struct CUmemPoolHandle_st *p = pools.all; p; p = p->next)
		if (p->stats.reserved_bytes > p->stats.threshold_bytes)
			cuda_pool_trim(p, p->stats.threshold_bytes);
}

/* Memory of the pool's own file, at addresses of its own. */
static int take_file(struct CUmemPoolHandle_st *pool, struct cuda_range *region)
{
	uint64_t map = 0, map_bytes, end = pool->file_bytes + region->size_bytes;

	if (machine_take(region->index, region->size_bytes) != 0)
		return -1;
	if (pool->spare_bytes == region->size_bytes) {
		map = pool->spare_start;
		pool->spare_bytes = 0;
	}
	if (cuda_shared_grow(pool->fd, end) == 0 &&
	    cuda_shared_map(pool->fd, pool->file_bytes, region->size_bytes, &region->start, &map,
			    &map_bytes) == 0) {
		region->file_offset = pool->file_bytes;
		pool->file_bytes = end;
		return 0;
	}
	machine_give(region->index, region->size_bytes);
	return -1;
}

/* Pages of the host; a kernel that touches them does not move them here. */
static int take_pages(struct cuda_range *region)
{
	void *map = mmap(NULL, region->size_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	region->start = (uint64_t)map;
	return map == MAP_FAILED ? -1 : 0;
}

static int take_region(struct CUmemPoolHandle_st *pool, struct cuda_range *region)
{
	if (pool->is_managed)
		return take_pages(region);
	if (pool->fd >= 0)
		return take_file(pool, region);
	return cuda_heap_take(region->index, region->size_bytes, &region->start);
}

void cuda_pool_release(struct cuda_range *region)
{
	struct CUmemPoolHandle_st *pool = region->pool;

	if (pool->fd < 0 && !pool->is_managed) {
		cuda_heap_give(region->index, region->start, region->size_bytes, region->export);
		return;
	}
	if (pool->is_imported || pool->is_managed) {
		munmap((void *)region->start, region->size_bytes);
		return;
	}
	/* As much that it takes next lies at the same addresses, as on a card. */
	if (pool->spare_bytes)
		munmap((void *)pool->spare_start, pool->spare_bytes);
	cuda_address_blank(region->start, region->size_bytes);
	pool->spare_start = region->start;
	pool->spare_bytes = region->size_bytes;
	(void)fallocate(pool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)region->file_offset, (off_t)region->size_bytes);
	machine_give_exported(region->index, region->size_bytes, region->export);
}

static int grow(struct CUmemPoolHandle_st *pool, uint64_t bytes)
{
	uint64_t size = (bytes + GROWTH_BYTES - 1) / GROWTH_BYTES * GROWTH_BYTES;
	struct cuda_range *region;

	if (size < bytes)
		return -1;
	if (pool->stats.max_bytes && pool->stats.reserved_bytes + size > pool->stats.max_bytes)
		return -1;
	region = calloc(1, sizeof(*region));
	if (!region)
		return -1;
	*region = (struct cuda_range){ .size_bytes = size,
				       .kind = RANGE_POOL,
				       .dev = pool->dev,
				       .index = cuda_device_index(pool->dev),
				       .pool = pool };
	if (take_region(pool, region) != 0)
		goto out_free;
	if (cuda_range_insert(region) != 0)
		goto out_give;
	if (cuda_extent_add(&pool->free, region->start, size) != 0) {
		cuda_memory_delete(region);
		return -1;
	}
	pool->stats.reserved_bytes += size;
	if (pool->stats.reserved_high_bytes < pool->stats.reserved_bytes)
		pool->stats.reserved_high_bytes = pool->stats.reserved_bytes;
	return 0;

out_give:
	cuda_pool_release(region);
out_free:
	free(region);
	return -1;
}

/* What the same stream has freed and not come to yet: in its order that is free. */
static int take_pending(struct CUmemPoolHandle_st *pool, uint64_t bytes, uint64_t stream_id,
			uint64_t *out_start)
{
	for (struct cuda_pool_piece *p = pool->pending; p; p = p->next) {
		if (p->stream_id != stream_id || p->bytes < bytes)
			continue;
		*out_start = p->start;
		p->start += bytes;
		p->bytes -= bytes;
		return 0;
	}
	return -1;
}

/* Waits until no free is pending. False when there was none to wait for. */
static bool settle(struct CUmemPoolHandle_st *pool)
{
	bool waited = pool->pending;

	while (pool->pending)
		cuda_work_wait();
	return waited;
}

CUresult cuda_pool_alloc(struct CUmemPoolHandle_st *pool, uint64_t bytes,
			 struct CUstream_st *stream, uint64_t *out_address)
{
	uint64_t taken = taken_bytes(bytes);
	struct cuda_range *a;

	if (pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	if (taken < bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a = calloc(1, sizeof(*a));
	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (take_pending(pool, taken, stream->id, &a->start) != 0 &&
	       cuda_extent_take(&pool->free, taken, UNIT_BYTES, &a->start) != 0) {
		if (grow(pool, taken) != 0 && !settle(pool)) {
			free(a);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	a->size_bytes = bytes;
	if (enter_allocation(pool, a) != 0) {
		cuda_extent_add(&pool->free, a->start, taken);
		free(a);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out_address = a->start;
	return CUDA_SUCCESS;
}

CUresult cuda_pool_adopt(struct CUmemPoolHandle_st *pool, uint64_t offset, uint64_t bytes,
			 uint64_t *out_address)
{
	struct cuda_range *region = calloc(1, sizeof(*region)), *a = calloc(1, sizeof(*a));

	if (!region || !a ||
	    cuda_shared_map(pool->fd, offset, bytes, &a->start, &region->start,
			    &region->size_bytes) != 0)
		goto out_free;
	region->kind = RANGE_POOL;
	region->dev = pool->dev;
	region->pool = pool;
	if (cuda_range_insert(region) != 0)
		goto out_release;
	a->size_bytes = bytes;
	if (enter_allocation(pool, a) == 0) {
		*out_address = a->start;
		return CUDA_SUCCESS;
	}
	cuda_range_remove(region);
out_release:
	cuda_pool_release(region);
out_free:
	free(region);
	free(a);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void delete_pool(struct CUmemPoolHandle_st *pool)
{
	struct CUmemPoolHandle_st **link = &pools.all;

	cuda_pool_trim(pool, 0);
	if (pool->spare_bytes)
		munmap((void *)pool->spare_start, pool->spare_bytes);
	while (*link != pool)
		link = &(*link)->next;
	*link = pool->next;
	cuda_extent_fini(&pool->free);
	free(pool->allocation);
	if (pool->fd >= 0)
		close(pool->fd);
	free(pool);
}

/* A pool that was destroyed goes with the last memory in it. */
static void delete_if_over(struct CUmemPoolHandle_st *pool)
{
	if (pool->is_ending && pool->count == 0 && !pool->pending)
		delete_pool(pool);
}

CUresult cuda_pool_end(struct CUmemPoolHandle_st *pool)
{
	if (pool->is_default || (pool->is_imported && (pool->count || pool->pending)))
		return CUDA_ERROR_INVALID_VALUE;
	cuda_object_remove(pool);
	cuda_pool_held_end(&pool->held);
	if (pools.current[pool->dev] == pool)
		pools.current[pool->dev] = NULL;
	pool->is_ending = true;
	delete_if_over(pool);
	return CUDA_SUCCESS;
}

CUresult cuda_pool_free(struct CUmemPoolHandle_st *pool, uint64_t address)
{
	struct cuda_range *a = cuda_pool_find(pool, address);

	if (!a || a->start != address)
		return CUDA_ERROR_INVALID_VALUE;
	give_back(pool, a->start, taken_bytes(a->size_bytes));
	drop_allocation(pool, a);
	delete_if_over(pool);
	return CUDA_SUCCESS;
}

/* The stream has come to the free: what its own stream did not take again is free for all. */
static void release_piece(struct cuda_work *work)
{
	struct cuda_pool_piece *piece = work->piece, **link = &piece->pool->pending;
	struct CUmemPoolHandle_st *pool = piece->pool;

	while (*link != piece)
		link = &(*link)->next;
	*link = piece->next;
	if (piece->bytes)
		give_back(pool, piece->start, piece->bytes);
	free(piece);
	delete_if_over(pool);
}

static const struct cuda_work_ops free_ops = { .release = release_piece };

CUresult cuda_pool_free_async(struct CUmemPoolHandle_st *pool, uint64_t address,
			      struct CUstream_st *stream)
{
	struct cuda_range *a = cuda_pool_find(pool, address);
	struct cuda_pool_piece *piece;
	struct cuda_work *work;

	if (!a || a->start != address)
		return CUDA_ERROR_INVALID_VALUE;
	piece = calloc(1, sizeof(*piece));
	work = cuda_work_new(&free_ops);
	if (!piece || !work) {
		free(piece);
		free(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*piece = (struct cuda_pool_piece){ pool, a->start, taken_bytes(a->size_bytes), stream->id,
					   pool->pending };
	pool->pending = piece;
	work->piece = piece;
	drop_allocation(pool, a);
	return cuda_stream_enqueue(stream, work);
}

void cuda_pool_empty_device(CUdevice dev)
{
	for (struct CUmemPoolHandle_st *p = pools.all; p; p = p->next) {
		if (p->dev != dev)
			continue;
		settle(p);
		while (p->count) {
			struct cuda_range *a = p->allocation[p->count - 1];

			give_back(p, a->start, taken_bytes(a->size_bytes));
			drop_allocation(p, a);
		}
		cuda_pool_trim(p, 0);
	}
}
