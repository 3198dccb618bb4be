/*
 * Every copy passes the gate, and what else reads or writes device memory by its address. Copies within a
 * device take its time; those from and to the host are done by other engines, which is not counted, and who
 * waits for one learns that the stream is done.
 */
#include "hook/crossing.h"
#include "hook/gated.h"

/* Copies from here on take longer than an event. */
#define LONG_BYTES (64 * 1024)

/*
 * near_<sym>, and the hook that calls it: or, for a copy that is far (hook/peer.h), does it in the
 * same form between contexts. The types of the sides `to` and `from` are what the call says.
 */
#define CROSSING(sym, dst, src, stream, form, ...)                                               \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                           \
	{                                                                                        \
		const struct peer_line line = { .to = (CUdeviceptr)(uintptr_t)a,                 \
						.from = (CUdeviceptr)(uintptr_t)b,               \
						.to_type = CU_MEMORYTYPE_##dst,                  \
						.from_type = CU_MEMORYTYPE_##src,                \
						.bytes = c };                                    \
		struct peer_ways ways;                                                           \
                                                                                                 \
		return peer_crosses(&line, stream, &ways) ? crossing_copy(&ways, stream, form) : \
							    near_##sym(GATED_ARGS(__VA_ARGS__)); \
	}
#define USES_TO uses_span(a, c)
#define USES_FROM uses_span(b, c)
#define CROSSING_GATED(sym, form, ...)                                              \
	GATED_AS(static CUresult near_##sym, sym, USES_TO &&USES_FROM, __VA_ARGS__) \
	CROSSING(sym, UNIFIED, UNIFIED, NULL, form, __VA_ARGS__)
#define CROSSING_WORK(sym, stream, is_own, form, ...)                                \
	WORK_AS(static CUresult near_##sym, sym, USES_TO &&USES_FROM, (void)0, NULL, \
		work_bytes(stream, is_own, c), __VA_ARGS__)                          \
	CROSSING(sym, DEVICE, DEVICE, stream, form, __VA_ARGS__)
#define CROSSING_FENCE(sym, dst, src, uses, stream, is_own, form, ...)                         \
	GATED_FENCE_AS(static CUresult near_##sym, sym, uses, c >= LONG_BYTES, stream, is_own, \
		       __VA_ARGS__)                                                            \
	CROSSING(sym, dst, src, stream, form, __VA_ARGS__)
#define CROSSING_WAIT(sym, is_own, form, ...)                                          \
	GATED_WAIT_AS(static CUresult near_##sym, sym, USES_FROM, is_own, __VA_ARGS__) \
	CROSSING(sym, UNIFIED, DEVICE, NULL, form, __VA_ARGS__)

/* As those, in as many dimensions. */
#define CROSSING_BOX(sym, dims, stream, form, ...)                     \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                 \
	{                                                              \
		CUDA_MEMCPY3D_PEER box;                                \
                                                                       \
		return peer_crosses_##dims(a, stream, &box) ?          \
			       crossing_copy_box(&box, stream, form) : \
			       near_##sym(GATED_ARGS(__VA_ARGS__));    \
	}
#define BOX_GATED(sym, dims, form, type)                                             \
	GATED_AS(static CUresult near_##sym, sym, uses_copy_##dims(a), const type *) \
	CROSSING_BOX(sym, dims, NULL, form, const type *)
#define BOX_FENCE(sym, dims, form, bytes, is_own, type)                                \
	GATED_FENCE_AS(static CUresult near_##sym, sym, uses_copy_##dims(a),           \
		       !a || (bytes) >= LONG_BYTES, b, is_own, const type *, CUstream) \
	CROSSING_BOX(sym, dims, b, form, const type *, CUstream)

/* As those, of d bytes between an array's first row and memory. */
#define CROSSING_ARRAY(sym, uses, sides, form, ...)                                               \
	GATED_AS(static CUresult near_##sym, sym, uses, __VA_ARGS__)                              \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                            \
	{                                                                                         \
		const CUDA_MEMCPY3D copy = { sides, .WidthInBytes = d, .Height = 1, .Depth = 1 }; \
		CUDA_MEMCPY3D_PEER box;                                                           \
                                                                                                  \
		return d && peer_crosses_3d(&copy, NULL, &box) ?                                  \
			       crossing_copy_box(&box, NULL, form) :                              \
			       near_##sym(GATED_ARGS(__VA_ARGS__));                               \
	}
#define FROM_ARRAY(array, at) \
	.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array, .srcXInBytes = at
#define TO_ARRAY(array, at) \
	.dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = array, .dstXInBytes = at
#define FROM(addr, other)                                                                        \
	.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = addr, .srcPitch = d, .srcHeight = 1, \
	other
#define TO(addr, other)                                                                          \
	.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = addr, .dstPitch = d, .dstHeight = 1, \
	other
#define BYTES_2D a->WidthInBytes * a->Height
#define BYTES_3D a->WidthInBytes * a->Height * a->Depth

/* Of any two, by array and between contexts. */
CROSSING_GATED(cuMemcpy, CROSSING_NOW, CUdeviceptr, CUdeviceptr, size_t)
CROSSING_GATED(cuMemcpy_ptds, CROSSING_NOW_OWN, CUdeviceptr, CUdeviceptr, size_t)
CROSSING_FENCE(cuMemcpyAsync, UNIFIED, UNIFIED, USES_TO &&USES_FROM, d, false, CROSSING_LATER,
	       CUdeviceptr, CUdeviceptr, size_t, CUstream)
CROSSING_FENCE(cuMemcpyAsync_ptsz, UNIFIED, UNIFIED, USES_TO &&USES_FROM, d, true,
	       CROSSING_LATER_OWN, CUdeviceptr, CUdeviceptr, size_t, CUstream)
GATED(cuMemcpyAtoA, CUarray, unsigned int, CUarray, unsigned int, unsigned int)
GATED(cuMemcpyAtoA_v2, CUarray, size_t, CUarray, size_t, size_t)
GATED(cuMemcpyAtoA_v2_ptds, CUarray, size_t, CUarray, size_t, size_t)
GATED(cuMemcpyAtoD, CUdeviceptr_v1, CUarray, unsigned int, unsigned int)
CROSSING_ARRAY(cuMemcpyAtoD_v2, uses_span(a, d), TO(a, FROM_ARRAY(b, c)), CROSSING_NOW, CUdeviceptr,
	       CUarray, size_t, size_t)
CROSSING_ARRAY(cuMemcpyAtoD_v2_ptds, uses_span(a, d), TO(a, FROM_ARRAY(b, c)), CROSSING_NOW_OWN,
	       CUdeviceptr, CUarray, size_t, size_t)
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
CROSSING_ARRAY(cuMemcpyDtoA_v2, uses_span(c, d), FROM(c, TO_ARRAY(a, b)), CROSSING_NOW, CUarray,
	       size_t, CUdeviceptr, size_t)
CROSSING_ARRAY(cuMemcpyDtoA_v2_ptds, uses_span(c, d), FROM(c, TO_ARRAY(a, b)), CROSSING_NOW_OWN,
	       CUarray, size_t, CUdeviceptr, size_t)
WORK(cuMemcpyDtoD, NULL, work_bytes(NULL, false, c), CUdeviceptr_v1, CUdeviceptr_v1, unsigned int)
CROSSING_WORK(cuMemcpyDtoD_v2, NULL, false, CROSSING_NOW, CUdeviceptr, CUdeviceptr, size_t)
CROSSING_WORK(cuMemcpyDtoD_v2_ptds, NULL, true, CROSSING_NOW_OWN, CUdeviceptr, CUdeviceptr, size_t)
WORK(cuMemcpyDtoDAsync, NULL, work_bytes(d, false, c), CUdeviceptr_v1, CUdeviceptr_v1, unsigned int,
     CUstream)
CROSSING_WORK(cuMemcpyDtoDAsync_v2, d, false, CROSSING_LATER, CUdeviceptr, CUdeviceptr, size_t,
	      CUstream)
CROSSING_WORK(cuMemcpyDtoDAsync_v2_ptsz, d, true, CROSSING_LATER_OWN, CUdeviceptr, CUdeviceptr,
	      size_t, CUstream)
GATED_WAIT(cuMemcpyDtoH, false, void *, CUdeviceptr_v1, unsigned int)
CROSSING_WAIT(cuMemcpyDtoH_v2, false, CROSSING_NOW, void *, CUdeviceptr, size_t)
CROSSING_WAIT(cuMemcpyDtoH_v2_ptds, true, CROSSING_NOW_OWN, void *, CUdeviceptr, size_t)
GATED_FENCE(cuMemcpyDtoHAsync, c >= LONG_BYTES, d, false, void *, CUdeviceptr_v1, unsigned int,
	    CUstream)
CROSSING_FENCE(cuMemcpyDtoHAsync_v2, UNIFIED, DEVICE, USES_FROM, d, false, CROSSING_LATER, void *,
	       CUdeviceptr, size_t, CUstream)
CROSSING_FENCE(cuMemcpyDtoHAsync_v2_ptsz, UNIFIED, DEVICE, USES_FROM, d, true, CROSSING_LATER_OWN,
	       void *, CUdeviceptr, size_t, CUstream)
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
CROSSING_FENCE(cuMemcpyHtoD_v2, DEVICE, UNIFIED, USES_TO, NULL, false, CROSSING_NOW, CUdeviceptr,
	       const void *, size_t)
CROSSING_FENCE(cuMemcpyHtoD_v2_ptds, DEVICE, UNIFIED, USES_TO, NULL, true, CROSSING_NOW_OWN,
	       CUdeviceptr, const void *, size_t)
GATED_FENCE(cuMemcpyHtoDAsync, c >= LONG_BYTES, d, false, CUdeviceptr_v1, const void *,
	    unsigned int, CUstream)
CROSSING_FENCE(cuMemcpyHtoDAsync_v2, DEVICE, UNIFIED, USES_TO, d, false, CROSSING_LATER,
	       CUdeviceptr, const void *, size_t, CUstream)
CROSSING_FENCE(cuMemcpyHtoDAsync_v2_ptsz, DEVICE, UNIFIED, USES_TO, d, true, CROSSING_LATER_OWN,
	       CUdeviceptr, const void *, size_t, CUstream)
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
BOX_GATED(cuMemcpy2D_v2, 2d, CROSSING_NOW, CUDA_MEMCPY2D)
BOX_GATED(cuMemcpy2D_v2_ptds, 2d, CROSSING_NOW_OWN, CUDA_MEMCPY2D)
GATED_FENCE(cuMemcpy2DAsync, !a || a->WidthInBytes * a->Height >= LONG_BYTES, b, false,
	    const CUDA_MEMCPY2D_v1 *, CUstream)
BOX_FENCE(cuMemcpy2DAsync_v2, 2d, CROSSING_LATER, BYTES_2D, false, CUDA_MEMCPY2D)
BOX_FENCE(cuMemcpy2DAsync_v2_ptsz, 2d, CROSSING_LATER_OWN, BYTES_2D, true, CUDA_MEMCPY2D)
GATED(cuMemcpy2DUnaligned, const CUDA_MEMCPY2D_v1 *)
BOX_GATED(cuMemcpy2DUnaligned_v2, 2d, CROSSING_NOW, CUDA_MEMCPY2D)
BOX_GATED(cuMemcpy2DUnaligned_v2_ptds, 2d, CROSSING_NOW_OWN, CUDA_MEMCPY2D)
GATED(cuMemcpy3D, const CUDA_MEMCPY3D_v1 *)
BOX_GATED(cuMemcpy3D_v2, 3d, CROSSING_NOW, CUDA_MEMCPY3D)
BOX_GATED(cuMemcpy3D_v2_ptds, 3d, CROSSING_NOW_OWN, CUDA_MEMCPY3D)
GATED_FENCE(cuMemcpy3DAsync, !a || a->WidthInBytes * a->Height * a->Depth >= LONG_BYTES, b, false,
	    const CUDA_MEMCPY3D_v1 *, CUstream)
BOX_FENCE(cuMemcpy3DAsync_v2, 3d, CROSSING_LATER, BYTES_3D, false, CUDA_MEMCPY3D)
BOX_FENCE(cuMemcpy3DAsync_v2_ptsz, 3d, CROSSING_LATER_OWN, BYTES_3D, true, CUDA_MEMCPY3D)
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
