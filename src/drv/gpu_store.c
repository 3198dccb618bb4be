#include "drv/gpu_store.h"

#include "core/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

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
	gpu_vmm_unmap(addr, GPU_VMM_GRAIN_BYTES);
out_unreserve:
	gpu_vmm_unreserve(addr, GPU_VMM_GRAIN_BYTES);
out_release:
	gpu_vmm_release(handle);
	return is_there;
}

void gpu_store_init(struct gpu_store *store, struct cuda_ord ord, uint64_t keep_bytes)
{
	*store = (struct gpu_store){ .ord = ord, .keep_bytes = keep_bytes };
	store->has_host = GATE_CALL(can_map_host(ord));
	pthread_mutex_init(&store->mutex, NULL);
	TAILQ_INIT(&store->kept);
}

/* mutex. */
static struct gpu_chunk *take_kept(struct gpu_store *store, uint64_t bytes)
{
	struct gpu_chunk *chunk;

	TAILQ_FOREACH(chunk, &store->kept, link)
		if (chunk->bytes == bytes)
			break;
	if (chunk) {
		TAILQ_REMOVE(&store->kept, chunk, link);
		store->kept_bytes -= bytes;
	}
	return chunk;
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

static int make(struct gpu_store *store, struct gpu_chunk *chunk)
{
	int rc;

	if (chunk->kind == GPU_VMM_HOST && !store->has_host)
		return map_pages(chunk);
	rc = GATE_CALL(gpu_vmm_create(store->ord, chunk->kind, chunk->bytes, &chunk->handle));
	if (rc != -ENOMEM)
		return rc;
	/* What is kept may be what is missing: host memory is the same, device memory needs tables. */
	gpu_store_trim(store, 0);
	return GATE_CALL(gpu_vmm_create(store->ord, chunk->kind, chunk->bytes, &chunk->handle));
}

static void end(struct gpu_chunk *chunk)
{
	if (chunk->handle)
		GATE_CALL(gpu_vmm_release(chunk->handle));
	else
		munmap(chunk->pages, chunk->bytes);
	free(chunk);
}

int gpu_store_take(struct gpu_store *store, enum gpu_vmm_kind kind, uint64_t bytes,
		   struct gpu_chunk **out_chunk)
{
	struct gpu_chunk *chunk = NULL;
	int rc;

	if (kind == GPU_VMM_HOST) {
		pthread_mutex_lock(&store->mutex);
		chunk = take_kept(store, bytes);
		pthread_mutex_unlock(&store->mutex);
	}
	if (!chunk) {
		chunk = calloc(1, sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		chunk->kind = kind;
		chunk->bytes = bytes;
		rc = make(store, chunk);
		if (rc < 0) {
			free(chunk);
			return rc;
		}
	}
	atomic_store(&chunk->users, 1);
	*out_chunk = chunk;
	return 0;
}

void gpu_store_share(struct gpu_chunk *chunk)
{
	atomic_fetch_add(&chunk->users, 1);
}

void gpu_store_give(struct gpu_store *store, struct gpu_chunk *chunk)
{
	bool is_kept = false;

	if (atomic_fetch_sub(&chunk->users, 1) > 1)
		return;
	if (chunk->kind == GPU_VMM_HOST) {
		pthread_mutex_lock(&store->mutex);
		is_kept = chunk->bytes <= store->keep_bytes - store->kept_bytes;
		if (is_kept) {
			TAILQ_INSERT_HEAD(&store->kept, chunk, link);
			store->kept_bytes += chunk->bytes;
		}
		pthread_mutex_unlock(&store->mutex);
	}
	if (!is_kept)
		end(chunk);
}

void gpu_store_trim(struct gpu_store *store, uint64_t keep_bytes)
{
	struct gpu_chunk *chunk;

	for (;;) {
		pthread_mutex_lock(&store->mutex);
		chunk = store->kept_bytes > keep_bytes ?
				TAILQ_LAST(&store->kept, gpu_chunk_list) :
				NULL;
		if (chunk) {
			TAILQ_REMOVE(&store->kept, chunk, link);
			store->kept_bytes -= chunk->bytes;
		}
		pthread_mutex_unlock(&store->mutex);
		if (!chunk)
			return;
		end(chunk);
	}
}
