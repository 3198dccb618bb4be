/*
 * The memory that buffer objects lie in, in chunks: the device's own, or the host's. A chunk of
 * host memory that the driver can map has two users while an object goes from where it is mapped to
 * where it is not.
 *
 * Host memory is pinned when it is made, which takes twenty times as long as to copy into it; so
 * what is given back stays at hand in a pool, for half a minute. It is counted from when it is made
 * until the machine has it again. Device memory goes back at once: it is not charged any more.
 *
 * Thread safe. The driver is called without a lock and without the gate: nothing of this is mapped.
 */
#pragma once

#include "core/bo_host.h"
#include "core/bo_pool.h"
#include "core/device.h"
#include "drv/gpu_vmm.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gpu_chunk {
	/* constant */
	enum gpu_vmm_kind kind;
	uint64_t bytes;
	uint64_t handle; /* of the driver; 0: `pages` instead */
	void *pages;
	_Atomic unsigned users;
	bool is_fresh; /* its taker's: nothing is mapped to it yet (drv/gpu_bo.c) */
};

struct gpu_store {
	/* constant */
	struct cuda_ord ord;
	bool has_host;               /* host memory is the driver's, and can be mapped */
	const struct bo_host *count; /* NULL: nobody counts; set before anything is taken */
	/* atomic */
	_Atomic uint64_t host_handles;    /* of host memory that the driver has for us */
	_Atomic uint64_t uncounted_bytes; /* of host memory in use: see gpu_store_take_pages() */
	/* has a lock of its own */
	struct bo_pool host; /* handles of host memory that nobody has */
};

/*
 * Asks whether the device can reach host memory, by doing it once. Of that no more than keep_bytes
 * is kept that nobody has.
 */
void gpu_store_init(struct gpu_store *store, struct cuda_ord ord, uint64_t keep_bytes);

/* Host memory is counted there from now on, before anything is taken. */
void gpu_store_count(struct gpu_store *store, const struct bo_host *count);

/* Memory with one user that can be mapped. 0, -ENOMEM, -ENOTSUP, or what the driver said. */
int gpu_store_take(struct gpu_store *store, enum gpu_vmm_kind kind, uint64_t bytes,
		   struct gpu_chunk **out_chunk);

enum gpu_store_why {
	GPU_STORE_MORE,
	/*
	 * In place of as much host memory that goes back in a moment: where the count has no room
	 * it is had uncounted until something does.
	 */
	GPU_STORE_INSTEAD,
};

/*
 * Host memory with one user that is the process's own pages: it cannot be mapped, and is there
 * where the driver has no more of the other kind, or is to have none. 0 or -ENOMEM.
 */
int gpu_store_take_pages(struct gpu_store *store, uint64_t bytes, enum gpu_store_why why,
			 struct gpu_chunk **out_chunk);

/* One user more. */
void gpu_store_share(struct gpu_chunk *chunk);

/* One less; with the last it goes back. Nothing is mapped to it then. */
void gpu_store_give(struct gpu_store *store, struct gpu_chunk *chunk);

/* Gives back what nobody has, down to keep_bytes of it. */
void gpu_store_trim(struct gpu_store *store, uint64_t keep_bytes);

/* True while the driver has host memory for us, in use or kept. */
bool gpu_store_has_host_handles(const struct gpu_store *store);

/* A round of the clock is over: what nobody has had for some rounds goes back. */
void gpu_store_tick(struct gpu_store *store);
