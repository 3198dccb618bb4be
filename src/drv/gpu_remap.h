/*
 * What is mapped at the addresses of objects, and its exchange: one call to unmap a run of
 * neighbours, map each, one for the access to the run; and back again when that fails.
 *
 * No lock; who calls has the objects and their addresses for itself, and no work uses them.
 */
#pragma once

#include "core/bo.h"
#include "drv/gpu_store.h"
#include "drv/gpu_vmm.h"

#include <pthread.h>

/* Who reaches the objects of a device: that device first, then its peers. */
struct gpu_access {
	pthread_mutex_t mutex;
	/* mutex; the first is constant */
	struct cuda_ord ords[GPU_VMM_DEVICES];
	unsigned count;
};

void gpu_access_init(struct gpu_access *access, struct cuda_ord ord);

/* Lets all of them reach what is mapped in the run. As gpu_vmm_allow(). */
int gpu_access_allow(struct gpu_access *access, uint64_t addr, uint64_t bytes);

/* What is at the address of an object meanwhile. */
enum gpu_remap_state { GPU_REMAP_OLD, GPU_REMAP_NONE, GPU_REMAP_NEW };

/* An object on its way. */
struct gpu_remap {
	struct bo_move *move;        /* that asks for it; gone when copies hang */
	uint64_t addr, bytes;        /* of the object */
	struct gpu_chunk *from, *to; /* NULL: BO_NONE */
	bool was_there, is_there;    /* mapped at its address before and after */
	enum gpu_remap_state state;
	bool is_copied; /* its copy was started */
	uint64_t alias; /* where the memory that is not at its address is mapped, 0: nowhere */
	int rc;
};

/* One of them from the chunks of its move. */
void gpu_remap_init(struct gpu_remap *r, struct bo_move *move);

/* How many of the first of `count` lie side by side, are to be treated alike and did not fail. */
unsigned gpu_remap_run(const struct gpu_remap *r, unsigned count);

/* Maps new memory of a run where nothing is; on failure there is nothing again. Sets each rc. */
void gpu_remap_place(struct gpu_access *access, struct gpu_remap *run, unsigned count);

/*
 * Puts the new memory of a run, or nothing, where the old is. On failure the old is there again,
 * and each rc says why; where that fails too nothing is there, and rc is -EIO.
 */
void gpu_remap_switch(struct gpu_access *access, struct gpu_remap *run, unsigned count);

/* Takes away what gpu_remap_place() has mapped. 0 or what the driver says. */
int gpu_remap_clear(struct gpu_remap *r);
