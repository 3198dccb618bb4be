/*
 * The memory that buffer objects lie in, in chunks: the device's own, or the host's. A chunk of
 * host memory that the driver can map has two users while an object goes from where it is mapped to
 * where it is not.
 *
 * Host memory is pinned when it is made, which takes twenty times as long as to copy into it; so
 * what is given back stays at hand in a pool, for half a minute. It is counted from when it is made
 * until the machine has it again. Device memory goes back at once: it is not charged any more.
 *
 * To let the device reach host memory, and to end that, takes nearly as long as to copy it; so a
 * chunk of it is mapped once, at an address of its own, for as long as it lives, in the pool too.
 * Where the driver does not give it that it has none, and is asked again when it is taken next.
 *
 * Thread safe. The driver is called without a lock and without the gate: no work of the program's
 * uses these addresses, and none of device memory is mapped.
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
	/* its taker's */
	bool is_fresh; /* no object has it yet (drv/gpu_bo.c) */
	/* its taker's, and constant until its last user gives it back */
	uint64_t addr;   /* of its own, where the store's device alone reaches it; 0: none */
	uint64_t serial; /* of the context that there was then (drv/gpu_fence.h) */
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
	struct bo_pool host; /* host memory that nobody has: its handles are chunks */
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

/*
 * Where the device reaches the chunk in the context of that number, as long as it has a user. 0: it
 * is not mapped for that; what the end of a context does to mappings is not relied on.
 */
uint64_t gpu_store_addr(const struct gpu_chunk *chunk, uint64_t serial);

/* One less; with the last it goes back. No object has it mapped then. */
void gpu_store_give(struct gpu_store *store, struct gpu_chunk *chunk);

/* Gives back what nobody has, down to keep_bytes of it. */
void gpu_store_trim(struct gpu_store *store, uint64_t keep_bytes);

/* True while the driver has host memory for us, in use or kept. */
bool gpu_store_has_host_handles(const struct gpu_store *store);

/* A round of the clock is over: what nobody has had for some rounds goes back. */
void gpu_store_tick(struct gpu_store *store);
