/*
 * What work uses of objects: told by the addresses in copies, fills and launches. A copy that
 * leaves its object is refused, as the driver refuses one that leaves its allocation: to the
 * driver what lies beside it is mapped memory as well.
 *
 * Launches are looked at only while some of the objects lie in host memory (GATE_USES), by the
 * sizes of the function's parameters, which drivers from CUDA 12.4 on tell. Those in graphs are in
 * hook/graph_uses.h.
 */
#pragma once

#include "abi/cuda.h"
#include "core/object_use.h"
#include "hook/movable.h"
#include "hook/peer.h"

/* False when [addr, addr + bytes) leaves an object. True for what is none. */
static inline bool uses_span(CUdeviceptr addr, uint64_t bytes)
{
	return !movable_is_on() || (peer_reach(addr), object_use(addr, bytes));
}

/* Memory that is used. */
struct uses_span {
	CUdeviceptr addr;
	uint64_t bytes;
};

/* From the first byte of so many rows to their last. False where there are none, or too many. */
static inline bool uses_rows_bytes(uint64_t pitch_bytes, uint64_t width_bytes, uint64_t height,
				   uint64_t *out_bytes)
{
	return height && width_bytes &&
	       !__builtin_mul_overflow(pitch_bytes, height - 1, out_bytes) &&
	       !__builtin_add_overflow(*out_bytes, width_bytes, out_bytes);
}

/* As uses_span() of so many rows. */
static inline bool uses_rows(CUdeviceptr addr, uint64_t pitch_bytes, uint64_t width_bytes,
			     uint64_t height)
{
	uint64_t bytes;

	return !movable_is_on() || !uses_rows_bytes(pitch_bytes, width_bytes, height, &bytes) ||
	       uses_span(addr, bytes);
}

/* Of both sides of a copy. */
bool uses_copy_2d(const CUDA_MEMCPY2D *copy);
bool uses_copy_3d(const CUDA_MEMCPY3D *copy);
bool uses_copy_peer(const CUDA_MEMCPY3D_PEER *copy);

/* The device memory of both sides: how much of `out` was written. */
unsigned uses_spans_3d(const CUDA_MEMCPY3D *copy, struct uses_span out[2]);

/*
 * Of a batch of so many copies. *out_failed, unless NULL: which one leaves an object. Arrays that
 * are missing are the driver's to refuse.
 */
bool uses_batch(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes, size_t count,
		size_t *out_failed);

/*
 * Of a launch of so many blocks into the stream (CU_STREAM_PER_THREAD, if NULL means that), with
 * these parameters; both may be NULL. It comes next.
 */
void uses_launch(CUfunction function, uint64_t blocks, CUstream stream, void *const *params,
		 void *const *extra);

/* What stands for launches of a function and size (core/link_cost.h): not 0. */
uint64_t uses_kind(CUfunction function, uint64_t blocks);
