/*
 * Every copy passes the gate, and what else reads or writes device memory by its address. Copies within a
 * device take its time; those from and to the host are done by other engines, which is not counted, and who
 * waits for one learns that the stream is done.
 */
#include "hook/gated.h"

/* Copies from here on take longer than an event. */
#define LONG_BYTES (64 * 1024)

/*
 * near_<sym>, and the hook that calls it: or, for a copy that passes between devices which do not
 * reach each other's memory, `peer` with the arguments `crossing`.
 */
#define CROSSING(sym, peer, crossing, ...)                                               \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                   \
	{                                                                                \
		struct peer_sides sides;                                                 \
                                                                                         \
		return peer_crosses(a, b, &sides) ? hook_##peer crossing :               \
						    near_##sym(GATED_ARGS(__VA_ARGS__)); \
	}
#define CROSSING_GATED(sym, peer, crossing, ...)                                                   \
	GATED_AS(static CUresult near_##sym, sym, uses_span(a, c) && uses_span(b, c), __VA_ARGS__) \
	CROSSING(sym, peer, crossing, __VA_ARGS__)
#define CROSSING_WORK(sym, peer, crossing, call, ...)                                         \
	WORK_AS(static CUresult near_##sym, sym, uses_span(a, c) && uses_span(b, c), (void)0, \
		NULL, call, __VA_ARGS__)                                                      \
	CROSSING(sym, peer, crossing, __VA_ARGS__)
#define CROSSING_FENCE(sym, peer, crossing, stream, is_per_thread, ...)                     \
	GATED_FENCE_AS(static CUresult near_##sym, sym, uses_span(a, c) && uses_span(b, c), \
		       c >= LONG_BYTES, stream, is_per_thread, __VA_ARGS__)                 \
	CROSSING(sym, peer, crossing, __VA_ARGS__)
#define SIDES a, sides.to, b, sides.from, c

/* As those, in as many dimensions; the arguments `crossing` have `box`. */
#define CROSSING_BOX(sym, dims, peer, crossing, ...)                                       \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                     \
	{                                                                                  \
		CUDA_MEMCPY3D_PEER box;                                                    \
                                                                                           \
		return peer_crosses_##dims(a, &box) ? hook_##peer crossing :               \
						      near_##sym(GATED_ARGS(__VA_ARGS__)); \
	}
#define BOX_GATED(sym, dims, peer, type)                                             \
	GATED_AS(static CUresult near_##sym, sym, uses_copy_##dims(a), const type *) \
	CROSSING_BOX(sym, dims, peer, (&box), const type *)
#define BOX_FENCE(sym, dims, peer, bytes, is_per_thread, type)                                \
	GATED_FENCE_AS(static CUresult near_##sym, sym, uses_copy_##dims(a),                  \
		       !a || (bytes) >= LONG_BYTES, b, is_per_thread, const type *, CUstream) \
	CROSSING_BOX(sym, dims, peer, (&box, b), const type *, CUstream)
#define BYTES_2D a->WidthInBytes * a->Height
#define BYTES_3D a->WidthInBytes * a->Height * a->Depth

/* Of any two, by array and between contexts. */
CROSSING_GATED(cuMemcpy, cuMemcpyPeer, (SIDES), CUdeviceptr, CUdeviceptr, size_t)
CROSSING_GATED(cuMemcpy_ptds, cuMemcpyPeer_ptds, (SIDES), CUdeviceptr, CUdeviceptr, size_t)
CROSSING_FENCE(cuMemcpyAsync, cuMemcpyPeerAsync, (SIDES, d), d, false, CUdeviceptr, CUdeviceptr,
	       size_t, CUstream)
CROSSING_FENCE(cuMemcpyAsync_ptsz, cuMemcpyPeerAsync_ptsz, (SIDES, d), d, true, CUdeviceptr,
	       CUdeviceptr, size_t, CUstream)
GATED(cuMemcpyAtoA, CUarray, unsigned int, CUarray, unsigned int, unsigned int)
GATED(cuMemcpyAtoA_v2, CUarray, size_t, CUarray, size_t, size_t)
GATED(cuMemcpyAtoA_v2_ptds, CUarray, size_t, CUarray, size_t, size_t)
GATED(cuMemcpyAtoD, CUdeviceptr_v1, CUarray, unsigned int, unsigned int)
GATED_ON(cuMemcpyAtoD_v2, uses_span(a, d), CUdeviceptr, CUarray, size_t, size_t)
GATED_ON(cuMemcpyAtoD_v2_ptds, uses_span(a, d), CUdeviceptr, CUarray, size_t, size_t)
GATED_WAIT(cuMemcpyAtoH, false, void *, CUarray, unsigned int, unsigned int)
GATED_WAIT(cuMemcpyAtoH_v2, false, void *, CUarray, size_t, size_t)
GATED_WAIT(cuMemcpyAtoH_v2_ptds, true, void *, CUarray, size_t, size_t)
GATED_FENCE(cuMemcpyAtoHAsync, d >= LONG_BYTES, e, false, void *, CUarray, unsigned int,
	    unsigned int, CUstream)
GATED_FENCE(cuMemcpyAtoHAsync_v2, d >= LONG_BYTES, e, false, void *, CUarray, size_t, size_t,
	    CUstream)
GATED_FENCE(cuMemcpyAtoHAsync_v2_ptsz, d >= LONG_BYTES, e, true, void *, CUarray, size_t, size_t,
	    CUstream)
GATED(cuMemcpyDtoA, CUarray, unsigned int, CUdeviceptr_v1, unsigned int)
GATED_ON(cuMemcpyDtoA_v2, uses_span(c, d), CUarray, size_t, CUdeviceptr, size_t)
GATED_ON(cuMemcpyDtoA_v2_ptds, uses_span(c, d), CUarray, size_t, CUdeviceptr, size_t)
WORK(cuMemcpyDtoD, NULL, work_bytes(NULL, false, c), CUdeviceptr_v1, CUdeviceptr_v1, unsigned int)
CROSSING_WORK(cuMemcpyDtoD_v2, cuMemcpyPeer, (SIDES), work_bytes(NULL, false, c), CUdeviceptr,
	      CUdeviceptr, size_t)
CROSSING_WORK(cuMemcpyDtoD_v2_ptds, cuMemcpyPeer_ptds, (SIDES), work_bytes(NULL, true, c),
	      CUdeviceptr, CUdeviceptr, size_t)
WORK(cuMemcpyDtoDAsync, NULL, work_bytes(d, false, c), CUdeviceptr_v1, CUdeviceptr_v1, unsigned int,
     CUstream)
CROSSING_WORK(cuMemcpyDtoDAsync_v2, cuMemcpyPeerAsync, (SIDES, d), work_bytes(d, false, c),
	      CUdeviceptr, CUdeviceptr, size_t, CUstream)
CROSSING_WORK(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyPeerAsync_ptsz, (SIDES, d), work_bytes(d, true, c),
	      CUdeviceptr, CUdeviceptr, size_t, CUstream)
GATED_WAIT(cuMemcpyDtoH, false, void *, CUdeviceptr_v1, unsigned int)
GATED_WAIT_ON(cuMemcpyDtoH_v2, uses_span(b, c), false, void *, CUdeviceptr, size_t)
GATED_WAIT_ON(cuMemcpyDtoH_v2_ptds, uses_span(b, c), true, void *, CUdeviceptr, size_t)
GATED_FENCE(cuMemcpyDtoHAsync, c >= LONG_BYTES, d, false, void *, CUdeviceptr_v1, unsigned int,
	    CUstream)
GATED_FENCE_ON(cuMemcpyDtoHAsync_v2, uses_span(b, c), c >= LONG_BYTES, d, false, void *,
	       CUdeviceptr, size_t, CUstream)
GATED_FENCE_ON(cuMemcpyDtoHAsync_v2_ptsz, uses_span(b, c), c >= LONG_BYTES, d, true, void *,
	       CUdeviceptr, size_t, CUstream)
GATED(cuMemcpyHtoA, CUarray, unsigned int, const void *, unsigned int)
GATED(cuMemcpyHtoA_v2, CUarray, size_t, const void *, size_t)
GATED(cuMemcpyHtoA_v2_ptds, CUarray, size_t, const void *, size_t)
GATED_FENCE(cuMemcpyHtoAAsync, d >= LONG_BYTES, e, false, CUarray, unsigned int, const void *,
	    unsigned int, CUstream)
GATED_FENCE(cuMemcpyHtoAAsync_v2, d >= LONG_BYTES, e, false, CUarray, size_t, const void *, size_t,
	    CUstream)
GATED_FENCE(cuMemcpyHtoAAsync_v2_ptsz, d >= LONG_BYTES, e, true, CUarray, size_t, const void *,
	    size_t, CUstream)
GATED_FENCE(cuMemcpyHtoD, c >= LONG_BYTES, NULL, false, CUdeviceptr_v1, const void *, unsigned int)
GATED_FENCE_ON(cuMemcpyHtoD_v2, uses_span(a, c), c >= LONG_BYTES, NULL, false, CUdeviceptr,
	       const void *, size_t)
GATED_FENCE_ON(cuMemcpyHtoD_v2_ptds, uses_span(a, c), c >= LONG_BYTES, NULL, true, CUdeviceptr,
	       const void *, size_t)
GATED_FENCE(cuMemcpyHtoDAsync, c >= LONG_BYTES, d, false, CUdeviceptr_v1, const void *,
	    unsigned int, CUstream)
GATED_FENCE_ON(cuMemcpyHtoDAsync_v2, uses_span(a, c), c >= LONG_BYTES, d, false, CUdeviceptr,
	       const void *, size_t, CUstream)
GATED_FENCE_ON(cuMemcpyHtoDAsync_v2_ptsz, uses_span(a, c), c >= LONG_BYTES, d, true, CUdeviceptr,
	       const void *, size_t, CUstream)
GATED_ON(cuMemcpyPeer, uses_span(a, e) && uses_span(c, e), CUdeviceptr, CUcontext, CUdeviceptr,
	 CUcontext, size_t)
GATED_ON(cuMemcpyPeer_ptds, uses_span(a, e) && uses_span(c, e), CUdeviceptr, CUcontext, CUdeviceptr,
	 CUcontext, size_t)
GATED_FENCE_ON(cuMemcpyPeerAsync, uses_span(a, e) && uses_span(c, e), e >= LONG_BYTES, f, false,
	       CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)
GATED_FENCE_ON(cuMemcpyPeerAsync_ptsz, uses_span(a, e) && uses_span(c, e), e >= LONG_BYTES, f, true,
	       CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)

/* In two and three dimensions. */
GATED(cuMemcpy2D, const CUDA_MEMCPY2D_v1 *)
BOX_GATED(cuMemcpy2D_v2, 2d, cuMemcpy3DPeer, CUDA_MEMCPY2D)
BOX_GATED(cuMemcpy2D_v2_ptds, 2d, cuMemcpy3DPeer_ptds, CUDA_MEMCPY2D)
GATED_FENCE(cuMemcpy2DAsync, !a || a->WidthInBytes * a->Height >= LONG_BYTES, b, false,
	    const CUDA_MEMCPY2D_v1 *, CUstream)
BOX_FENCE(cuMemcpy2DAsync_v2, 2d, cuMemcpy3DPeerAsync, BYTES_2D, false, CUDA_MEMCPY2D)
BOX_FENCE(cuMemcpy2DAsync_v2_ptsz, 2d, cuMemcpy3DPeerAsync_ptsz, BYTES_2D, true, CUDA_MEMCPY2D)
GATED(cuMemcpy2DUnaligned, const CUDA_MEMCPY2D_v1 *)
BOX_GATED(cuMemcpy2DUnaligned_v2, 2d, cuMemcpy3DPeer, CUDA_MEMCPY2D)
BOX_GATED(cuMemcpy2DUnaligned_v2_ptds, 2d, cuMemcpy3DPeer_ptds, CUDA_MEMCPY2D)
GATED(cuMemcpy3D, const CUDA_MEMCPY3D_v1 *)
BOX_GATED(cuMemcpy3D_v2, 3d, cuMemcpy3DPeer, CUDA_MEMCPY3D)
BOX_GATED(cuMemcpy3D_v2_ptds, 3d, cuMemcpy3DPeer_ptds, CUDA_MEMCPY3D)
GATED_FENCE(cuMemcpy3DAsync, !a || a->WidthInBytes * a->Height * a->Depth >= LONG_BYTES, b, false,
	    const CUDA_MEMCPY3D_v1 *, CUstream)
BOX_FENCE(cuMemcpy3DAsync_v2, 3d, cuMemcpy3DPeerAsync, BYTES_3D, false, CUDA_MEMCPY3D)
BOX_FENCE(cuMemcpy3DAsync_v2_ptsz, 3d, cuMemcpy3DPeerAsync_ptsz, BYTES_3D, true, CUDA_MEMCPY3D)
GATED_ON(cuMemcpy3DPeer, uses_copy_peer(a), const CUDA_MEMCPY3D_PEER *)
GATED_ON(cuMemcpy3DPeer_ptds, uses_copy_peer(a), const CUDA_MEMCPY3D_PEER *)
GATED_FENCE_ON(cuMemcpy3DPeerAsync, uses_copy_peer(a), !a || (BYTES_3D) >= LONG_BYTES, b, false,
	       const CUDA_MEMCPY3D_PEER *, CUstream)
GATED_FENCE_ON(cuMemcpy3DPeerAsync_ptsz, uses_copy_peer(a), !a || (BYTES_3D) >= LONG_BYTES, b, true,
	       const CUDA_MEMCPY3D_PEER *, CUstream)

/* In batches. */
GATED_FENCE(cuFabricCpyBatchAsync, true, d, false, size_t, CUDA_FABRIC_COPY_BATCH_OP *,
	    unsigned long long, CUstream)
GATED_FENCE(cuFabricCpyBatchAsync_ptsz, true, d, true, size_t, CUDA_FABRIC_COPY_BATCH_OP *,
	    unsigned long long, CUstream)
GATED_FENCE(cuMemBatchDecompressAsync, true, e, false, CUmemDecompressParams *, size_t,
	    unsigned int, size_t *, CUstream)
GATED_FENCE(cuMemBatchDecompressAsync_ptsz, true, e, true, CUmemDecompressParams *, size_t,
	    unsigned int, size_t *, CUstream)
GATED_FENCE(cuMemcpy3DBatchAsync, true, e, false, size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *,
	    unsigned long long, CUstream)
GATED_FENCE(cuMemcpy3DBatchAsync_ptsz, true, e, true, size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *,
	    unsigned long long, CUstream)
GATED_FENCE(cuMemcpy3DBatchAsync_v2, true, d, false, size_t, CUDA_MEMCPY3D_BATCH_OP *,
	    unsigned long long, CUstream)
GATED_FENCE(cuMemcpy3DBatchAsync_v2_ptsz, true, d, true, size_t, CUDA_MEMCPY3D_BATCH_OP *,
	    unsigned long long, CUstream)
GATED_FENCE(cuMemcpy3DWithAttributesAsync, true, c, false, CUDA_MEMCPY3D_BATCH_OP *,
	    unsigned long long, CUstream)
GATED_FENCE(cuMemcpy3DWithAttributesAsync_ptsz, true, c, true, CUDA_MEMCPY3D_BATCH_OP *,
	    unsigned long long, CUstream)
GATED_FENCE_ON(cuMemcpyBatchAsync, uses_batch(a, b, c, d, h), true, i, false, CUdeviceptr *,
	       CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *,
	       CUstream)
GATED_FENCE_ON(cuMemcpyBatchAsync_ptsz, uses_batch(a, b, c, d, h), true, i, true, CUdeviceptr *,
	       CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *,
	       CUstream)
GATED_FENCE_ON(cuMemcpyBatchAsync_v2, uses_batch(a, b, c, d, NULL), true, h, false, CUdeviceptr *,
	       CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream)
GATED_FENCE_ON(cuMemcpyBatchAsync_v2_ptsz, uses_batch(a, b, c, d, NULL), true, h, true,
	       CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *,
	       size_t, CUstream)
GATED_FENCE_ON(cuMemcpyWithAttributesAsync, uses_span(a, c) && uses_span(b, c), c >= LONG_BYTES, e,
	       false, CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream)
GATED_FENCE_ON(cuMemcpyWithAttributesAsync_ptsz, uses_span(a, c) && uses_span(b, c),
	       c >= LONG_BYTES, e, true, CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *,
	       CUstream)
