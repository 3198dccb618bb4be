/*
 * The exchange of the memory of objects that have some: copy while old and new are both mapped,
 * then change what is at the object's address. The memory that is not there is reached at its own
 * address, if it has one (drv/gpu_store.h), else it is mapped at an alias for the moment. Of one
 * device. Some parts of it are copied while others are mapped; what goes to memory that another
 * leaves (struct bo_move) begins when the other's bytes are copied. Should the other not get its
 * new memory mapped then, its bytes are copied back.
 *
 * Of one thread at a time, which has everything stand still (drv/gpu_still.h). An object is whole
 * where it was until its copy is done and the new mapping stands.
 */
#pragma once

#include "drv/gpu_copy.h"
#include "drv/gpu_remap.h"

enum { GPU_MOVE_STEPS = 1024 };

struct gpu_move {
	/* have locks of their own */
	struct gpu_access *access;
	struct gpu_store *store;
	/* constant */
	uint64_t alias_bytes; /* no object and no part is larger */
	/* What is mapped and copied at once, a half of it where somebody waits for what is left;
	 * a larger object goes alone. */
	uint64_t part_bytes;
	int64_t copy_ns;     /* that the copies of a part may take */
	unsigned most_steps; /* at a time, up to GPU_MOVE_STEPS: between two all copies end */
	/* who has all stand still */
	const struct bo_patience *patience; /* who is asked before more leaves; NULL: nobody */
	uint64_t alias;  /* addresses of ours with nothing behind them between moves; 0: none now */
	uint64_t serial; /* of the context that copies, of the move under way; 0: none */
	struct gpu_copy copy;
	unsigned hung_from,
		hung_to; /* of the steps: their copies did not end in time, and have them */
	unsigned count;
	struct gpu_remap steps[GPU_MOVE_STEPS];
};

/* Its constant fields and those before are the caller's; all else is 0. 0, -ENOMEM, -ENOTSUP. */
int gpu_move_init(struct gpu_move *m);

/* Exchanges them, from and to memory that is there; sets each rc. Returns how many were lost. */
unsigned gpu_move_run(struct gpu_move *m, struct bo_move *moves, unsigned count);
