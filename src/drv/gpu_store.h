/*
 * The memory that buffer objects lie in, in chunks: the device's own, or the host's. A chunk of host
 * memory that the driver can map has two users while an object goes from where it is mapped to
 * where it is not.
 *
 * Host memory is pinned when it is made, which takes longer than to copy into it; so what is given
 * back stays at hand, up to keep_bytes. Device memory goes back at once: it is not charged any more.
 *
 * Thread safe. The driver is called inside the gate, without a lock.
 */
#pragma once

#include "core/device.h"
#include "drv/gpu_vmm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct gpu_chunk {
	/* constant */
	enum gpu_vmm_kind kind;
	uint64_t bytes;
	uint64_t handle; /* of the driver; 0: `pages` instead */
	void *pages;
	_Atomic unsigned users;
	TAILQ_ENTRY(gpu_chunk) link; /* the store's mutex, while nobody has it */
};

TAILQ_HEAD(gpu_chunk_list, gpu_chunk);

struct gpu_store {
	struct cuda_ord ord; /* constant */
	bool has_host;       /* constant: host memory is the driver's, and can be mapped */
	uint64_t keep_bytes; /* constant */
	pthread_mutex_t mutex;
	/* mutex */
	struct gpu_chunk_list kept; /* the one that was given back last is first */
	uint64_t kept_bytes;
};

/* Asks whether the device can reach host memory, by doing it once. */
void gpu_store_init(struct gpu_store *store, struct cuda_ord ord, uint64_t keep_bytes);

/* Memory with one user. 0, -ENOMEM, or what the driver said. */
int gpu_store_take(struct gpu_store *store, enum gpu_vmm_kind kind, uint64_t bytes,
		   struct gpu_chunk **out_chunk);

/* One user more. */
void gpu_store_share(struct gpu_chunk *chunk);

/* One less; with the last it goes back. Nothing is mapped to it then. */
void gpu_store_give(struct gpu_store *store, struct gpu_chunk *chunk);

/* Gives back what nobody has, down to keep_bytes of it. */
void gpu_store_trim(struct gpu_store *store, uint64_t keep_bytes);
