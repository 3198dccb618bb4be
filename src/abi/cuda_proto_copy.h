/*
 * The CUDA driver API as Ration uses it: copies, fills, prefetches.
 *
 * Only what crosses the ABI is here: names, types, values. tests/lint/check-abi compares them with
 * NVIDIA's headers of several releases.
 */
#pragma once

#include "abi/cuda_struct.h"

/* Copies. */
CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t size_bytes);
__typeof__(cuMemcpy) cuMemcpy_ptds;
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size_bytes, CUstream stream);
__typeof__(cuMemcpyAsync) cuMemcpyAsync_ptsz;
CUresult cuMemcpyAtoA(CUarray dst_array, unsigned int dst_offset, CUarray src_array,
		      unsigned int src_offset, unsigned int size_bytes);
CUresult cuMemcpyAtoA_v2(CUarray dst_array, size_t dst_offset, CUarray src_array, size_t src_offset,
			 size_t size_bytes);
__typeof__(cuMemcpyAtoA_v2) cuMemcpyAtoA_v2_ptds;
CUresult cuMemcpyAtoD(CUdeviceptr_v1 dst, CUarray src_array, unsigned int src_offset,
		      unsigned int size_bytes);
CUresult cuMemcpyAtoD_v2(CUdeviceptr dst, CUarray src_array, size_t src_offset, size_t size_bytes);
__typeof__(cuMemcpyAtoD_v2) cuMemcpyAtoD_v2_ptds;
CUresult cuMemcpyAtoH(void *out_dst_host, CUarray src_array, unsigned int src_offset,
		      unsigned int size_bytes);
CUresult cuMemcpyAtoH_v2(void *out_dst_host, CUarray src_array, size_t src_offset,
			 size_t size_bytes);
__typeof__(cuMemcpyAtoH_v2) cuMemcpyAtoH_v2_ptds;
CUresult cuMemcpyAtoHAsync(void *out_dst_host, CUarray src_array, unsigned int src_offset,
			   unsigned int size_bytes, CUstream stream);
CUresult cuMemcpyAtoHAsync_v2(void *out_dst_host, CUarray src_array, size_t src_offset,
			      size_t size_bytes, CUstream stream);
__typeof__(cuMemcpyAtoHAsync_v2) cuMemcpyAtoHAsync_v2_ptsz;
CUresult cuMemcpyDtoA(CUarray dst_array, unsigned int dst_offset, CUdeviceptr_v1 src,
		      unsigned int size_bytes);
CUresult cuMemcpyDtoA_v2(CUarray dst_array, size_t dst_offset, CUdeviceptr src, size_t size_bytes);
__typeof__(cuMemcpyDtoA_v2) cuMemcpyDtoA_v2_ptds;
CUresult cuMemcpyDtoD(CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int size_bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t size_bytes);
__typeof__(cuMemcpyDtoD_v2) cuMemcpyDtoD_v2_ptds;
CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int size_bytes,
			   CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size_bytes, CUstream stream);
__typeof__(cuMemcpyDtoDAsync_v2) cuMemcpyDtoDAsync_v2_ptsz;
CUresult cuMemcpyDtoH(void *out_dst_host, CUdeviceptr_v1 src, unsigned int size_bytes);
CUresult cuMemcpyDtoH_v2(void *out_dst_host, CUdeviceptr src, size_t size_bytes);
__typeof__(cuMemcpyDtoH_v2) cuMemcpyDtoH_v2_ptds;
CUresult cuMemcpyDtoHAsync(void *out_dst_host, CUdeviceptr_v1 src, unsigned int size_bytes,
			   CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *out_dst_host, CUdeviceptr src, size_t size_bytes,
			      CUstream stream);
__typeof__(cuMemcpyDtoHAsync_v2) cuMemcpyDtoHAsync_v2_ptsz;
CUresult cuMemcpyHtoA(CUarray dst_array, unsigned int dst_offset, const void *src_host,
		      unsigned int size_bytes);
CUresult cuMemcpyHtoA_v2(CUarray dst_array, size_t dst_offset, const void *src_host,
			 size_t size_bytes);
__typeof__(cuMemcpyHtoA_v2) cuMemcpyHtoA_v2_ptds;
CUresult cuMemcpyHtoAAsync(CUarray dst_array, unsigned int dst_offset, const void *src_host,
			   unsigned int size_bytes, CUstream stream);
CUresult cuMemcpyHtoAAsync_v2(CUarray dst_array, size_t dst_offset, const void *src_host,
			      size_t size_bytes, CUstream stream);
__typeof__(cuMemcpyHtoAAsync_v2) cuMemcpyHtoAAsync_v2_ptsz;
CUresult cuMemcpyHtoD(CUdeviceptr_v1 dst, const void *src_host, unsigned int size_bytes);
CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src_host, size_t size_bytes);
__typeof__(cuMemcpyHtoD_v2) cuMemcpyHtoD_v2_ptds;
CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 dst, const void *src_host, unsigned int size_bytes,
			   CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src_host, size_t size_bytes,
			      CUstream stream);
__typeof__(cuMemcpyHtoDAsync_v2) cuMemcpyHtoDAsync_v2_ptsz;
CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
		      size_t size_bytes);
__typeof__(cuMemcpyPeer) cuMemcpyPeer_ptds;
CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
			   size_t size_bytes, CUstream stream);
__typeof__(cuMemcpyPeerAsync) cuMemcpyPeerAsync_ptsz;

/* Copies in two and three dimensions. */
CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1 *copy);
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy);
__typeof__(cuMemcpy2D_v2) cuMemcpy2D_v2_ptds;
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *copy, CUstream stream);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
__typeof__(cuMemcpy2DAsync_v2) cuMemcpy2DAsync_v2_ptsz;
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *copy);
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy);
__typeof__(cuMemcpy2DUnaligned_v2) cuMemcpy2DUnaligned_v2_ptds;
CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1 *copy);
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy);
__typeof__(cuMemcpy3D_v2) cuMemcpy3D_v2_ptds;
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *copy, CUstream stream);
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream);
__typeof__(cuMemcpy3DAsync_v2) cuMemcpy3DAsync_v2_ptsz;
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy);
__typeof__(cuMemcpy3DPeer) cuMemcpy3DPeer_ptds;
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream);
__typeof__(cuMemcpy3DPeerAsync) cuMemcpy3DPeerAsync_ptsz;

/* Batches. */
CUresult cuFabricCpyBatchAsync(size_t count, CUDA_FABRIC_COPY_BATCH_OP *ops,
			       unsigned long long flags, CUstream stream);
__typeof__(cuFabricCpyBatchAsync) cuFabricCpyBatchAsync_ptsz;
CUresult cuMemBatchDecompressAsync(CUmemDecompressParams *params, size_t count, unsigned int flags,
				   size_t *out_error_index, CUstream stream);
__typeof__(cuMemBatchDecompressAsync) cuMemBatchDecompressAsync_ptsz;
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *addrs, size_t *bytes, size_t count,
					   CUmemLocation *locations, size_t *location_firsts,
					   size_t location_count, unsigned long long flags,
					   CUstream stream);
__typeof__(cuMemDiscardAndPrefetchBatchAsync) cuMemDiscardAndPrefetchBatchAsync_ptsz;
CUresult cuMemDiscardBatchAsync(CUdeviceptr *addrs, size_t *bytes, size_t count,
				unsigned long long flags, CUstream stream);
__typeof__(cuMemDiscardBatchAsync) cuMemDiscardBatchAsync_ptsz;
CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *out_failed,
			      unsigned long long flags, CUstream stream);
__typeof__(cuMemcpy3DBatchAsync) cuMemcpy3DBatchAsync_ptsz;
CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops,
				 unsigned long long flags, CUstream stream);
__typeof__(cuMemcpy3DBatchAsync_v2) cuMemcpy3DBatchAsync_v2_ptsz;
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *out_op, unsigned long long flags,
				       CUstream stream);
__typeof__(cuMemcpy3DWithAttributesAsync) cuMemcpy3DWithAttributesAsync_ptsz;
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *bytes, size_t count,
			    CUmemcpyAttributes *attrs, size_t *attr_firsts, size_t attr_count,
			    size_t *out_failed, CUstream stream);
__typeof__(cuMemcpyBatchAsync) cuMemcpyBatchAsync_ptsz;
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *bytes, size_t count,
			       CUmemcpyAttributes *attrs, size_t *attr_firsts, size_t attr_count,
			       CUstream stream);
__typeof__(cuMemcpyBatchAsync_v2) cuMemcpyBatchAsync_v2_ptsz;
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
				     CUmemcpyAttributes *out_attr, CUstream stream);
__typeof__(cuMemcpyWithAttributesAsync) cuMemcpyWithAttributesAsync_ptsz;

/* Fills. */
CUresult cuMemsetD16(CUdeviceptr_v1 dst, unsigned short value, unsigned int count);
CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t count);
__typeof__(cuMemsetD16_v2) cuMemsetD16_v2_ptds;
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream);
__typeof__(cuMemsetD16Async) cuMemsetD16Async_ptsz;
CUresult cuMemsetD2D16(CUdeviceptr_v1 dst, unsigned int pitch_bytes, unsigned short value,
		       unsigned int width, unsigned int height);
CUresult cuMemsetD2D16_v2(CUdeviceptr dst, size_t pitch_bytes, unsigned short value, size_t width,
			  size_t height);
__typeof__(cuMemsetD2D16_v2) cuMemsetD2D16_v2_ptds;
CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch_bytes, unsigned short value, size_t width,
			    size_t height, CUstream stream);
__typeof__(cuMemsetD2D16Async) cuMemsetD2D16Async_ptsz;
CUresult cuMemsetD2D32(CUdeviceptr_v1 dst, unsigned int pitch_bytes, unsigned int value,
		       unsigned int width, unsigned int height);
CUresult cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch_bytes, unsigned int value, size_t width,
			  size_t height);
__typeof__(cuMemsetD2D32_v2) cuMemsetD2D32_v2_ptds;
CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch_bytes, unsigned int value, size_t width,
			    size_t height, CUstream stream);
__typeof__(cuMemsetD2D32Async) cuMemsetD2D32Async_ptsz;
CUresult cuMemsetD2D8(CUdeviceptr_v1 dst, unsigned int pitch_bytes, unsigned char value,
		      unsigned int width, unsigned int height);
CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch_bytes, unsigned char value, size_t width,
			 size_t height);
__typeof__(cuMemsetD2D8_v2) cuMemsetD2D8_v2_ptds;
CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch_bytes, unsigned char value, size_t width,
			   size_t height, CUstream stream);
__typeof__(cuMemsetD2D8Async) cuMemsetD2D8Async_ptsz;
CUresult cuMemsetD32(CUdeviceptr_v1 dst, unsigned int value, unsigned int count);
CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t count);
__typeof__(cuMemsetD32_v2) cuMemsetD32_v2_ptds;
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t count, CUstream stream);
__typeof__(cuMemsetD32Async) cuMemsetD32Async_ptsz;
CUresult cuMemsetD8(CUdeviceptr_v1 dst, unsigned char value, unsigned int count);
CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t count);
__typeof__(cuMemsetD8_v2) cuMemsetD8_v2_ptds;
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream);
__typeof__(cuMemsetD8Async) cuMemsetD8Async_ptsz;

/* Prefetches. */
CUresult cuMemPrefetchAsync(CUdeviceptr addr, size_t count, CUdevice dst, CUstream stream);
__typeof__(cuMemPrefetchAsync) cuMemPrefetchAsync_ptsz;
CUresult cuMemPrefetchAsync_v2(CUdeviceptr addr, size_t count, CUmemLocation location,
			       unsigned int flags, CUstream stream);
__typeof__(cuMemPrefetchAsync_v2) cuMemPrefetchAsync_v2_ptsz;
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addrs, size_t *bytes, size_t count,
				 CUmemLocation *locations, size_t *location_firsts,
				 size_t location_count, unsigned long long flags, CUstream stream);
__typeof__(cuMemPrefetchBatchAsync) cuMemPrefetchBatchAsync_ptsz;
