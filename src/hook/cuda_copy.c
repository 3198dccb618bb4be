/*
 * Every copy passes the gate, and what else reads or writes device memory by its address. Copies within a
 * device take its time; those to the host are done by other engines, and who waits for one learns that
 * the stream is done.
 */
#include "hook/gated.h"

/* Of any two, by array and between contexts. */
GATED_ON(cuMemcpy, uses_span(a, c) && uses_span(b, c), CUdeviceptr, CUdeviceptr, size_t)
GATED_ON(cuMemcpy_ptds, uses_span(a, c) && uses_span(b, c), CUdeviceptr, CUdeviceptr, size_t)
GATED_ON(cuMemcpyAsync, uses_span(a, c) && uses_span(b, c), CUdeviceptr, CUdeviceptr, size_t,
	 CUstream)
GATED_ON(cuMemcpyAsync_ptsz, uses_span(a, c) && uses_span(b, c), CUdeviceptr, CUdeviceptr, size_t,
	 CUstream)
GATED(cuMemcpyAtoA, CUarray, unsigned int, CUarray, unsigned int, unsigned int)
GATED(cuMemcpyAtoA_v2, CUarray, size_t, CUarray, size_t, size_t)
GATED(cuMemcpyAtoA_v2_ptds, CUarray, size_t, CUarray, size_t, size_t)
GATED(cuMemcpyAtoD, CUdeviceptr_v1, CUarray, unsigned int, unsigned int)
GATED_ON(cuMemcpyAtoD_v2, uses_span(a, d), CUdeviceptr, CUarray, size_t, size_t)
GATED_ON(cuMemcpyAtoD_v2_ptds, uses_span(a, d), CUdeviceptr, CUarray, size_t, size_t)
GATED_WAIT(cuMemcpyAtoH, false, void *, CUarray, unsigned int, unsigned int)
GATED_WAIT(cuMemcpyAtoH_v2, false, void *, CUarray, size_t, size_t)
GATED_WAIT(cuMemcpyAtoH_v2_ptds, true, void *, CUarray, size_t, size_t)
GATED(cuMemcpyAtoHAsync, void *, CUarray, unsigned int, unsigned int, CUstream)
GATED(cuMemcpyAtoHAsync_v2, void *, CUarray, size_t, size_t, CUstream)
GATED(cuMemcpyAtoHAsync_v2_ptsz, void *, CUarray, size_t, size_t, CUstream)
GATED(cuMemcpyDtoA, CUarray, unsigned int, CUdeviceptr_v1, unsigned int)
GATED_ON(cuMemcpyDtoA_v2, uses_span(c, d), CUarray, size_t, CUdeviceptr, size_t)
GATED_ON(cuMemcpyDtoA_v2_ptds, uses_span(c, d), CUarray, size_t, CUdeviceptr, size_t)
WORK(cuMemcpyDtoD, NULL, work_bytes(NULL, false, c), CUdeviceptr_v1, CUdeviceptr_v1, unsigned int)
WORK_ON(cuMemcpyDtoD_v2, uses_span(a, c) && uses_span(b, c), NULL, work_bytes(NULL, false, c),
	CUdeviceptr, CUdeviceptr, size_t)
WORK_ON(cuMemcpyDtoD_v2_ptds, uses_span(a, c) && uses_span(b, c), NULL, work_bytes(NULL, true, c),
	CUdeviceptr, CUdeviceptr, size_t)
WORK(cuMemcpyDtoDAsync, NULL, work_bytes(d, false, c), CUdeviceptr_v1, CUdeviceptr_v1, unsigned int,
     CUstream)
WORK_ON(cuMemcpyDtoDAsync_v2, uses_span(a, c) && uses_span(b, c), NULL, work_bytes(d, false, c),
	CUdeviceptr, CUdeviceptr, size_t, CUstream)
WORK_ON(cuMemcpyDtoDAsync_v2_ptsz, uses_span(a, c) && uses_span(b, c), NULL, work_bytes(d, true, c),
	CUdeviceptr, CUdeviceptr, size_t, CUstream)
GATED_WAIT(cuMemcpyDtoH, false, void *, CUdeviceptr_v1, unsigned int)
GATED_WAIT_ON(cuMemcpyDtoH_v2, uses_span(b, c), false, void *, CUdeviceptr, size_t)
GATED_WAIT_ON(cuMemcpyDtoH_v2_ptds, uses_span(b, c), true, void *, CUdeviceptr, size_t)
GATED(cuMemcpyDtoHAsync, void *, CUdeviceptr_v1, unsigned int, CUstream)
GATED_ON(cuMemcpyDtoHAsync_v2, uses_span(b, c), void *, CUdeviceptr, size_t, CUstream)
GATED_ON(cuMemcpyDtoHAsync_v2_ptsz, uses_span(b, c), void *, CUdeviceptr, size_t, CUstream)
GATED(cuMemcpyHtoA, CUarray, unsigned int, const void *, unsigned int)
GATED(cuMemcpyHtoA_v2, CUarray, size_t, const void *, size_t)
GATED(cuMemcpyHtoA_v2_ptds, CUarray, size_t, const void *, size_t)
GATED(cuMemcpyHtoAAsync, CUarray, unsigned int, const void *, unsigned int, CUstream)
GATED(cuMemcpyHtoAAsync_v2, CUarray, size_t, const void *, size_t, CUstream)
GATED(cuMemcpyHtoAAsync_v2_ptsz, CUarray, size_t, const void *, size_t, CUstream)
GATED(cuMemcpyHtoD, CUdeviceptr_v1, const void *, unsigned int)
GATED_ON(cuMemcpyHtoD_v2, uses_span(a, c), CUdeviceptr, const void *, size_t)
GATED_ON(cuMemcpyHtoD_v2_ptds, uses_span(a, c), CUdeviceptr, const void *, size_t)
GATED(cuMemcpyHtoDAsync, CUdeviceptr_v1, const void *, unsigned int, CUstream)
GATED_ON(cuMemcpyHtoDAsync_v2, uses_span(a, c), CUdeviceptr, const void *, size_t, CUstream)
GATED_ON(cuMemcpyHtoDAsync_v2_ptsz, uses_span(a, c), CUdeviceptr, const void *, size_t, CUstream)
GATED_ON(cuMemcpyPeer, uses_span(a, e) && uses_span(c, e), CUdeviceptr, CUcontext, CUdeviceptr,
	 CUcontext, size_t)
GATED_ON(cuMemcpyPeer_ptds, uses_span(a, e) && uses_span(c, e), CUdeviceptr, CUcontext, CUdeviceptr,
	 CUcontext, size_t)
GATED_ON(cuMemcpyPeerAsync, uses_span(a, e) && uses_span(c, e), CUdeviceptr, CUcontext, CUdeviceptr,
	 CUcontext, size_t, CUstream)
GATED_ON(cuMemcpyPeerAsync_ptsz, uses_span(a, e) && uses_span(c, e), CUdeviceptr, CUcontext,
	 CUdeviceptr, CUcontext, size_t, CUstream)

/* In two and three dimensions. */
GATED(cuMemcpy2D, const CUDA_MEMCPY2D_v1 *)
GATED_ON(cuMemcpy2D_v2, uses_copy_2d(a), const CUDA_MEMCPY2D *)
GATED_ON(cuMemcpy2D_v2_ptds, uses_copy_2d(a), const CUDA_MEMCPY2D *)
GATED(cuMemcpy2DAsync, const CUDA_MEMCPY2D_v1 *, CUstream)
GATED_ON(cuMemcpy2DAsync_v2, uses_copy_2d(a), const CUDA_MEMCPY2D *, CUstream)
GATED_ON(cuMemcpy2DAsync_v2_ptsz, uses_copy_2d(a), const CUDA_MEMCPY2D *, CUstream)
GATED(cuMemcpy2DUnaligned, const CUDA_MEMCPY2D_v1 *)
GATED_ON(cuMemcpy2DUnaligned_v2, uses_copy_2d(a), const CUDA_MEMCPY2D *)
GATED_ON(cuMemcpy2DUnaligned_v2_ptds, uses_copy_2d(a), const CUDA_MEMCPY2D *)
GATED(cuMemcpy3D, const CUDA_MEMCPY3D_v1 *)
GATED_ON(cuMemcpy3D_v2, uses_copy_3d(a), const CUDA_MEMCPY3D *)
GATED_ON(cuMemcpy3D_v2_ptds, uses_copy_3d(a), const CUDA_MEMCPY3D *)
GATED(cuMemcpy3DAsync, const CUDA_MEMCPY3D_v1 *, CUstream)
GATED_ON(cuMemcpy3DAsync_v2, uses_copy_3d(a), const CUDA_MEMCPY3D *, CUstream)
GATED_ON(cuMemcpy3DAsync_v2_ptsz, uses_copy_3d(a), const CUDA_MEMCPY3D *, CUstream)
GATED(cuMemcpy3DPeer, const CUDA_MEMCPY3D_PEER *)
GATED(cuMemcpy3DPeer_ptds, const CUDA_MEMCPY3D_PEER *)
GATED(cuMemcpy3DPeerAsync, const CUDA_MEMCPY3D_PEER *, CUstream)
GATED(cuMemcpy3DPeerAsync_ptsz, const CUDA_MEMCPY3D_PEER *, CUstream)

/* In batches. */
GATED(cuFabricCpyBatchAsync, size_t, CUDA_FABRIC_COPY_BATCH_OP *, unsigned long long, CUstream)
GATED(cuFabricCpyBatchAsync_ptsz, size_t, CUDA_FABRIC_COPY_BATCH_OP *, unsigned long long, CUstream)
GATED(cuMemBatchDecompressAsync, CUmemDecompressParams *, size_t, unsigned int, size_t *, CUstream)
GATED(cuMemBatchDecompressAsync_ptsz, CUmemDecompressParams *, size_t, unsigned int, size_t *,
      CUstream)
GATED(cuMemcpy3DBatchAsync, size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long,
      CUstream)
GATED(cuMemcpy3DBatchAsync_ptsz, size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long,
      CUstream)
GATED(cuMemcpy3DBatchAsync_v2, size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream)
GATED(cuMemcpy3DBatchAsync_v2_ptsz, size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream)
GATED(cuMemcpy3DWithAttributesAsync, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream)
GATED(cuMemcpy3DWithAttributesAsync_ptsz, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream)
GATED_ON(cuMemcpyBatchAsync, uses_batch(a, b, c, d, h), CUdeviceptr *, CUdeviceptr *, size_t *,
	 size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream)
GATED_ON(cuMemcpyBatchAsync_ptsz, uses_batch(a, b, c, d, h), CUdeviceptr *, CUdeviceptr *, size_t *,
	 size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream)
GATED_ON(cuMemcpyBatchAsync_v2, uses_batch(a, b, c, d, NULL), CUdeviceptr *, CUdeviceptr *,
	 size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream)
GATED_ON(cuMemcpyBatchAsync_v2_ptsz, uses_batch(a, b, c, d, NULL), CUdeviceptr *, CUdeviceptr *,
	 size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream)
GATED_ON(cuMemcpyWithAttributesAsync, uses_span(a, c) && uses_span(b, c), CUdeviceptr, CUdeviceptr,
	 size_t, CUmemcpyAttributes *, CUstream)
GATED_ON(cuMemcpyWithAttributesAsync_ptsz, uses_span(a, c) && uses_span(b, c), CUdeviceptr,
	 CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream)
