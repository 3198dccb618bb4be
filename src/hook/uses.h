/*
 * What work uses of objects: told by the addresses in copies, fills and launches. A copy that
 * leaves its object is refused, as the driver refuses one that leaves its allocation: to the
 * driver what lies beside it is mapped memory as well.
 *
 * Launches are looked at only while some of the objects lie in host memory (GATE_USES), by the
 * sizes of the function's parameters, which drivers from CUDA 12.4 on tell. What lies in graphs
 * is not seen.
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

/* As that of so many rows. */
static inline bool uses_rows(CUdeviceptr addr, uint64_t pitch_bytes, uint64_t width_bytes,
			     uint64_t height)
{
	uint64_t bytes;

	if (!movable_is_on() || height == 0 || width_bytes == 0)
		return true;
	if (__builtin_mul_overflow(pitch_bytes, height - 1, &bytes) ||
	    __builtin_add_overflow(bytes, width_bytes, &bytes))
		return true;
	peer_reach(addr);
	return object_use(addr, bytes);
}

/* Of both sides of a copy. */
bool uses_copy_2d(const CUDA_MEMCPY2D *copy);
bool uses_copy_3d(const CUDA_MEMCPY3D *copy);

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
