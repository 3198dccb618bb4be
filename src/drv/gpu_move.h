/*
 * The exchange of the memory of objects that have some: copy while old and new are both mapped,
 * then change what is at the object's address. The memory that is not there is reached at its own
 * address, if it has one (drv/gpu_store.h), else it is mapped at an alias for the moment. Of one
 * device.
 *
 * Of one thread at a time, which has everything stand still (drv/gpu_still.h). An object is whole
 * where it was until its copy is done and the new mapping stands.
 */
#pragma once

#include "drv/gpu_copy.h"
#include "drv/gpu_remap.h"

enum { GPU_MOVE_STEPS = 128 };

struct gpu_move {
	/* have locks of their own */
	struct gpu_access *access;
	struct gpu_store *store;
	/* constant */
	uint64_t alias_bytes;
	int64_t copy_ns;
	/* who has all stand still */
	uint64_t alias;  /* addresses of ours with nothing behind them between moves; 0: none now */
	uint64_t serial; /* of the context that copies, of the move under way; 0: none */
	struct gpu_copy copy;
	bool is_hung; /* copies did not end in time: the steps below are still in their hands */
	unsigned count;
	struct gpu_remap steps[GPU_MOVE_STEPS];
};

/* What is pointed to is kept. No object is larger than alias_bytes. 0, -ENOMEM, -ENOTSUP. */
int gpu_move_init(struct gpu_move *m, struct gpu_store *store, struct gpu_access *access,
		  uint64_t alias_bytes, int64_t copy_ns);

/* Exchanges them, from and to memory that is there; sets each rc. Returns how many were lost. */
unsigned gpu_move_run(struct gpu_move *m, struct bo_move *moves, unsigned count);
