#include "drv/gpu_store.h"

#include "base/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Handles that leave the pool at a time; rounds of a tenth of a second that one may lie in it. */
enum { HANDLES = 32, ROUNDS = 300 };

/* One block of host memory, created, mapped and allowed. */
static bool can_map_host(struct cuda_ord ord)
{
	uint64_t addr, handle;
	bool is_there = false;

	if (gpu_vmm_create(ord, GPU_VMM_HOST, GPU_VMM_GRAIN_BYTES, &handle) < 0)
		return false;
	if (gpu_vmm_reserve(GPU_VMM_GRAIN_BYTES, 0, &addr) < 0)
		goto out_release;
	if (gpu_vmm_map(addr, GPU_VMM_GRAIN_BYTES, handle) < 0)
		goto out_unreserve;
	is_there = gpu_vmm_allow(addr, GPU_VMM_GRAIN_BYTES, &ord, 1) == 0;
	gpu_vmm_unmap_surely(addr, GPU_VMM_GRAIN_BYTES);
out_unreserve:
	gpu_vmm_unreserve(addr, GPU_VMM_GRAIN_BYTES);
out_release:
	gpu_vmm_release(handle);
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

static int make_host(struct gpu_store *store, struct gpu_chunk *chunk)
{
	int rc;

	if (bo_pool_take(&store->host, chunk->bytes, &chunk->handle)) {
		count_kept(store, -(int64_t)chunk->bytes);
		return 0;
	}
	rc = count_taken(store, chunk->bytes);
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

static int make(struct gpu_store *store, struct gpu_chunk *chunk)
{
	return chunk->kind == GPU_VMM_HOST ?
		       make_host(store, chunk) :
		       gpu_vmm_create(store->ord, chunk->kind, chunk->bytes, &chunk->handle);
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
	struct gpu_chunk *chunk;
	int rc;

	if (kind == GPU_VMM_HOST && !store->has_host)
		return -ENOTSUP;
	chunk = new_chunk(kind, bytes);
	if (!chunk)
		return -ENOMEM;
	rc = make(store, chunk);
	if (rc < 0)
		free(chunk);
	else
		*out_chunk = chunk;
	return rc;
}

void gpu_store_share(struct gpu_chunk *chunk)
{
	atomic_fetch_add(&chunk->users, 1);
}

static void give_host(struct gpu_store *store, const struct gpu_chunk *chunk)
{
	/* Counted before another thread can take it out again. */
	count_kept(store, (int64_t)chunk->bytes);
	if (chunk->handle && bo_pool_give(&store->host, chunk->bytes, chunk->handle))
		return;
	count_kept(store, -(int64_t)chunk->bytes);
	if (chunk->handle)
		release_host(store, chunk->handle);
	else
		munmap(chunk->pages, chunk->bytes);
	count_given(store, chunk->bytes);
}

void gpu_store_give(struct gpu_store *store, struct gpu_chunk *chunk)
{
	if (atomic_fetch_sub(&chunk->users, 1) > 1)
		return;
	if (chunk->kind == GPU_VMM_HOST)
		give_host(store, chunk);
	else
		gpu_vmm_release(chunk->handle);
	free(chunk);
}

static void release(struct gpu_store *store, const struct bo_pool_handle *handles, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		release_host(store, handles[i].handle);
		count_kept(store, -(int64_t)handles[i].bytes);
		count_given(store, handles[i].bytes);
	}
}

void gpu_store_trim(struct gpu_store *store, uint64_t keep_bytes)
{
	struct bo_pool_handle handles[HANDLES];
	unsigned n;

	do {
		n = bo_pool_trim(&store->host, keep_bytes, handles, HANDLES);
		release(store, handles, n);
	} while (n == HANDLES);
}

bool gpu_store_has_host_handles(const struct gpu_store *store)
{
	return atomic_load(&store->host_handles) > 0;
}

void gpu_store_tick(struct gpu_store *store)
{
	struct bo_pool_handle handles[HANDLES];

	release(store, handles, bo_pool_tick(&store->host, ROUNDS, handles, HANDLES));
}
