#include "drv/gpu_store.h"

#include "base/bytes.h"
#include "drv/gpu_fence.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Chunks that leave the pool at a time; rounds of a tenth of a second that one may lie in it. */
enum { CHUNKS = 32, ROUNDS = 300 };

/* What the driver does not let go keeps its address, which is nobody's any more. */
static void leave_addr(struct gpu_chunk *chunk)
{
	if (chunk->addr && gpu_vmm_unmap_surely(chunk->addr, chunk->bytes) == 0)
		gpu_vmm_unreserve(chunk->addr, chunk->bytes);
	chunk->addr = 0;
}

/* Maps it at an address of its own, if it can be. */
static void take_addr(struct cuda_ord ord, struct gpu_chunk *chunk)
{
	if (gpu_vmm_reserve(chunk->bytes, 0, &chunk->addr) < 0)
		return;
	if (gpu_vmm_map(chunk->addr, chunk->bytes, chunk->handle) < 0) {
		gpu_vmm_unreserve(chunk->addr, chunk->bytes);
		chunk->addr = 0;
	} else if (gpu_vmm_allow(chunk->addr, chunk->bytes, &ord, 1) < 0) {
		leave_addr(chunk);
	}
}

/* An address that holds in the context that there is now. */
static void renew_addr(struct gpu_store *store, struct gpu_chunk *chunk)
{
	uint64_t serial;

	if (!gpu_fence_context(store->ord, &serial) || gpu_store_addr(chunk, serial))
		return;
	leave_addr(chunk);
	chunk->serial = serial;
	take_addr(store->ord, chunk);
}

uint64_t gpu_store_addr(const struct gpu_chunk *chunk, uint64_t serial)
{
	return chunk->serial == serial ? chunk->addr : 0;
}

/* One block of host memory, created, mapped and allowed. */
static bool can_map_host(struct cuda_ord ord)
{
	struct gpu_chunk chunk = { .bytes = GPU_VMM_GRAIN_BYTES };
	bool is_there;

	if (gpu_vmm_create(ord, GPU_VMM_HOST, chunk.bytes, &chunk.handle) < 0)
		return false;
	take_addr(ord, &chunk);
	is_there = chunk.addr != 0;
	leave_addr(&chunk);
	gpu_vmm_release(chunk.handle);
	return is_there;
}

void gpu_store_init(struct gpu_store *store, struct cuda_ord ord, uint64_t keep_bytes)
{
	*store = (struct gpu_store){ .ord = ord };
	store->has_host = can_map_host(ord);
	bo_pool_init(&store->host, keep_bytes);
}

void gpu_store_count(struct gpu_store *store, const struct bo_host *count)
{
	store->count = count;
}

/* Before host memory is taken. 0 or -ENOMEM. */
static int count_taken(struct gpu_store *store, uint64_t bytes)
{
	const struct bo_host *count = store->count;

	if (!count || count->take(count->arg, bytes) == 0)
		return 0;
	/* What is kept, of other sizes, is among what has no more room. */
	gpu_store_trim(store, bytes_beyond(bo_pool_kept(&store->host), bytes));
	return count->take(count->arg, bytes) == 0 ? 0 : -ENOMEM;
}

/* Takes what was had uncounted off what is given back: the rest. */
static uint64_t settle(struct gpu_store *store, uint64_t bytes)
{
	uint64_t owed = atomic_load(&store->uncounted_bytes), part;

	do
		part = owed < bytes ? owed : bytes;
	while (part && !atomic_compare_exchange_weak(&store->uncounted_bytes, &owed, owed - part));
	return bytes - part;
}

/* After it was given back. */
static void count_given(struct gpu_store *store, uint64_t bytes)
{
	bytes = settle(store, bytes);
	if (store->count && bytes)
		store->count->give(store->count->arg, bytes);
}

static void count_kept(struct gpu_store *store, int64_t bytes)
{
	if (store->count && bytes)
		store->count->keep(store->count->arg, bytes);
}

/* Pages of the process, which a fork child has no use for. */
static int map_pages(struct gpu_chunk *chunk)
{
	void *m = mmap(NULL, chunk->bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (m == MAP_FAILED)
		return -ENOMEM;
	madvise(m, chunk->bytes, MADV_HUGEPAGE);
	madvise(m, chunk->bytes, MADV_DONTFORK);
	chunk->pages = m;
	return 0;
}

/* Which nobody else knows. */
static void release_host(struct gpu_store *store, uint64_t handle)
{
	if (gpu_vmm_release(handle) == 0)
		atomic_fetch_sub(&store->host_handles, 1);
}

static struct gpu_chunk *new_chunk(enum gpu_vmm_kind kind, uint64_t bytes)
{
	struct gpu_chunk *chunk = calloc(1, sizeof(*chunk));

	if (!chunk)
		return NULL;
	chunk->kind = kind;
	chunk->bytes = bytes;
	atomic_init(&chunk->users, 1);
	return chunk;
}

/* NULL: none of this size is kept. */
static struct gpu_chunk *take_kept(struct gpu_store *store, uint64_t bytes)
{
	struct gpu_chunk *chunk;
	uint64_t kept;

	if (!bo_pool_take(&store->host, bytes, &kept))
		return NULL;
	count_kept(store, -(int64_t)bytes);
	chunk = (struct gpu_chunk *)(uintptr_t)kept;
	atomic_store(&chunk->users, 1);
	return chunk;
}

static int create_host(struct gpu_store *store, struct gpu_chunk *chunk)
{
	int rc = count_taken(store, chunk->bytes);

	if (rc < 0)
		return rc;
	rc = gpu_vmm_create(store->ord, GPU_VMM_HOST, chunk->bytes, &chunk->handle);
	if (rc == -ENOMEM) {
		/* What is kept, of another size, may be what is missing. */
		gpu_store_trim(store, 0);
		rc = gpu_vmm_create(store->ord, GPU_VMM_HOST, chunk->bytes, &chunk->handle);
	}
	if (rc < 0)
		count_given(store, chunk->bytes);
	else
		atomic_fetch_add(&store->host_handles, 1);
	return rc;
}

int gpu_store_take_pages(struct gpu_store *store, uint64_t bytes, enum gpu_store_why why,
			 struct gpu_chunk **out_chunk)
{
	struct gpu_chunk *chunk = new_chunk(GPU_VMM_HOST, bytes);
	int rc = chunk ? count_taken(store, bytes) : -ENOMEM;

	if (chunk && rc < 0 && why == GPU_STORE_INSTEAD) {
		atomic_fetch_add(&store->uncounted_bytes, bytes);
		rc = 0;
	}
	if (rc < 0)
		goto out_free;
	rc = map_pages(chunk);
	if (rc < 0)
		goto out_give;
	*out_chunk = chunk;
	return 0;
out_give:
	count_given(store, bytes);
out_free:
	free(chunk);
	return rc;
}

int gpu_store_take(struct gpu_store *store, enum gpu_vmm_kind kind, uint64_t bytes,
		   struct gpu_chunk **out_chunk)
{
	bool is_host = kind == GPU_VMM_HOST;
	struct gpu_chunk *chunk;
	int rc = 0;

	if (is_host && !store->has_host)
		return -ENOTSUP;
	chunk = is_host ? take_kept(store, bytes) : NULL;
	if (!chunk) {
		chunk = new_chunk(kind, bytes);
		if (!chunk)
			return -ENOMEM;
		rc = is_host ? create_host(store, chunk) :
			       gpu_vmm_create(store->ord, kind, bytes, &chunk->handle);
	}
	if (rc < 0) {
		free(chunk);
		return rc;
	}
	if (is_host)
		renew_addr(store, chunk);
	*out_chunk = chunk;
	return 0;
}

void gpu_store_share(struct gpu_chunk *chunk)
{
	atomic_fetch_add(&chunk->users, 1);
}

/* Nobody has it any more, nor the pool. */
static void end_chunk(struct gpu_store *store, struct gpu_chunk *chunk)
{
	leave_addr(chunk);
	if (chunk->handle && chunk->kind == GPU_VMM_HOST)
		release_host(store, chunk->handle);
	else if (chunk->handle)
		gpu_vmm_release(chunk->handle);
	else
		munmap(chunk->pages, chunk->bytes);
	free(chunk);
}

static void give_host(struct gpu_store *store, struct gpu_chunk *chunk)
{
	uint64_t bytes = chunk->bytes;

	/* Counted before another thread can take it out again. */
	count_kept(store, (int64_t)bytes);
	if (chunk->handle && bo_pool_give(&store->host, bytes, (uint64_t)(uintptr_t)chunk))
		return;
	count_kept(store, -(int64_t)bytes);
	end_chunk(store, chunk);
	count_given(store, bytes);
}

void gpu_store_give(struct gpu_store *store, struct gpu_chunk *chunk)
{
	if (atomic_fetch_sub(&chunk->users, 1) > 1)
		return;
	if (chunk->kind == GPU_VMM_HOST)
		give_host(store, chunk);
	else
		end_chunk(store, chunk);
}

static void end_kept(struct gpu_store *store, const struct bo_pool_handle *kept, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		end_chunk(store, (struct gpu_chunk *)(uintptr_t)kept[i].handle);
		count_kept(store, -(int64_t)kept[i].bytes);
		count_given(store, kept[i].bytes);
	}
}

void gpu_store_trim(struct gpu_store *store, uint64_t keep_bytes)
{
	struct bo_pool_handle kept[CHUNKS];
	unsigned n;

	do {
		n = bo_pool_trim(&store->host, keep_bytes, kept, CHUNKS);
		end_kept(store, kept, n);
	} while (n == CHUNKS);
}

bool gpu_store_has_host_handles(const struct gpu_store *store)
{
	return atomic_load(&store->host_handles) > 0;
}

void gpu_store_tick(struct gpu_store *store)
{
	struct bo_pool_handle kept[CHUNKS];

	end_kept(store, kept, bo_pool_tick(&store->host, ROUNDS, kept, CHUNKS));
}
