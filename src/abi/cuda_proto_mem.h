/*
 * The CUDA driver API as Ration uses it: allocation of every kind, and what tells about it.
 *
 * Only what crosses the ABI is here: names, types, values. tests/lint/check-abi compares them with
 * NVIDIA's headers of several releases.
 */
#pragma once

#include "abi/cuda_struct.h"

/* Linear, pitched and managed memory. */
CUresult cuMemAlloc(CUdeviceptr_v1 *out_addr, unsigned int size_bytes);
CUresult cuMemAlloc_v2(CUdeviceptr *out_addr, size_t size_bytes);
CUresult cuMemAllocManaged(CUdeviceptr *out_addr, size_t size_bytes, unsigned int flags);
CUresult cuMemAllocPitch(CUdeviceptr_v1 *out_addr, unsigned int *out_pitch_bytes,
			 unsigned int width_bytes, unsigned int height, unsigned int element_bytes);
CUresult cuMemAllocPitch_v2(CUdeviceptr *out_addr, size_t *out_pitch_bytes, size_t width_bytes,
			    size_t height, unsigned int element_bytes);
CUresult cuMemFree(CUdeviceptr_v1 addr);
CUresult cuMemFree_v2(CUdeviceptr addr);
CUresult cuMemGetAddressRange(CUdeviceptr_v1 *out_base, unsigned int *out_bytes,
			      CUdeviceptr_v1 addr);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *out_base, size_t *out_bytes, CUdeviceptr addr);
CUresult cuMemGetInfo(unsigned int *out_free_bytes, unsigned int *out_total_bytes);
CUresult cuMemGetInfo_v2(size_t *out_free_bytes, size_t *out_total_bytes);

/* Host memory. */
CUresult cuMemAllocHost(void **out_host, unsigned int size_bytes);
CUresult cuMemAllocHost_v2(void **out_host, size_t size_bytes);
CUresult cuMemFreeHost(void *host);
CUresult cuMemHostAlloc(void **out_host, size_t size_bytes, unsigned int flags);
CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *out_addr, void *host, unsigned int flags);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out_addr, void *host, unsigned int flags);
CUresult cuMemHostGetFlags(unsigned int *out_flags, void *host);
CUresult cuMemHostRegister(void *host, size_t size_bytes, unsigned int flags);
__typeof__(cuMemHostRegister) cuMemHostRegister_v2;
CUresult cuMemHostUnregister(void *host);

/* Virtual memory: handles and mappings. */
CUresult cuMemAddressFree(CUdeviceptr addr, size_t bytes);
CUresult cuMemAddressReserve(CUdeviceptr *out_addr, size_t bytes, size_t alignment,
			     CUdeviceptr addr, unsigned long long flags);
CUresult cuMemCreate(CUmemGenericAllocationHandle *out_handle, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags);
CUresult cuMemExportToShareableHandle(void *out_shareable, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags);
CUresult cuMemGetAccess(unsigned long long *out_flags, const CUmemLocation *location,
			CUdeviceptr addr);
CUresult cuMemGetAllocationGranularity(size_t *out_granularity, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option);
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out_prop,
						CUmemGenericAllocationHandle handle);
CUresult cuMemGetHandleForAddressRange(void *out_handle, CUdeviceptr addr, size_t bytes,
				       CUmemRangeHandleType type, unsigned long long flags);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out_handle,
					void *out_shareable, CUmemAllocationHandleType type);
CUresult cuMemMap(CUdeviceptr addr, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out_handle, void *addr);
CUresult cuMemSetAccess(CUdeviceptr addr, size_t bytes, const CUmemAccessDesc *desc, size_t count);
CUresult cuMemUnmap(CUdeviceptr addr, size_t bytes);

/* Multicast groups. */
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle group, CUdevice dev);
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle group, size_t group_offset,
			     CUdeviceptr addr, size_t bytes, unsigned long long flags);
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle group, CUdevice dev,
				size_t group_offset, CUdeviceptr addr, size_t bytes,
				unsigned long long flags);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle group, size_t group_offset,
			    CUmemGenericAllocationHandle handle, size_t handle_offset, size_t bytes,
			    unsigned long long flags);
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle group, CUdevice dev,
			       size_t group_offset, CUmemGenericAllocationHandle handle,
			       size_t handle_offset, size_t bytes, unsigned long long flags);
CUresult cuMulticastCreate(CUmemGenericAllocationHandle *out_group,
			   const CUmulticastObjectProp *prop);
CUresult cuMulticastGetGranularity(size_t *out_granularity, const CUmulticastObjectProp *prop,
				   CUmulticastGranularity_flags option);
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle group, CUdevice dev, size_t group_offset,
			   size_t bytes);

/* Endpoints of a fabric. */
CUresult cuLogicalEndpointBindAddr(CUlogicalEndpointId endpoint, CUdevice dev, cuuint64_t offset,
				   void *addr, cuuint64_t bytes, unsigned long long flags);
CUresult cuLogicalEndpointBindMem(CUlogicalEndpointId endpoint, CUdevice dev, cuuint64_t offset,
				  CUmemGenericAllocationHandle handle, cuuint64_t handle_offset,
				  cuuint64_t bytes, unsigned long long flags);
CUresult cuLogicalEndpointUnbind(CUlogicalEndpointId endpoint, CUdevice dev, cuuint64_t offset,
				 cuuint64_t bytes);

/* Stream-ordered memory and pools. */
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out_pool, CUdevice dev);
CUresult cuDeviceGetMemPool(CUmemoryPool *out_pool, CUdevice dev);
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool);
CUresult cuMemAllocAsync(CUdeviceptr *out_addr, size_t size_bytes, CUstream stream);
__typeof__(cuMemAllocAsync) cuMemAllocAsync_ptsz;
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out_addr, size_t size_bytes, CUmemoryPool pool,
				 CUstream stream);
__typeof__(cuMemAllocFromPoolAsync) cuMemAllocFromPoolAsync_ptsz;
CUresult cuMemFreeAsync(CUdeviceptr addr, CUstream stream);
__typeof__(cuMemFreeAsync) cuMemFreeAsync_ptsz;
CUresult cuMemGetDefaultMemPool(CUmemoryPool *out_pool, CUmemLocation *location,
				CUmemAllocationType type);
CUresult cuMemGetMemPool(CUmemoryPool *out_pool, CUmemLocation *location, CUmemAllocationType type);
CUresult cuMemPoolCreate(CUmemoryPool *out_pool, const CUmemPoolProps *props);
CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out_share, CUdeviceptr addr);
CUresult cuMemPoolExportToShareableHandle(void *out_handle, CUmemoryPool pool,
					  CUmemAllocationHandleType type, unsigned long long flags);
CUresult cuMemPoolGetAccess(CUmemAccess_flags *out_flags, CUmemoryPool pool,
			    CUmemLocation *location);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *out_value);
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out_pool, void *out_handle,
					    CUmemAllocationHandleType type,
					    unsigned long long flags);
CUresult cuMemPoolImportPointer(CUdeviceptr *out_addr, CUmemoryPool pool,
				CUmemPoolPtrExportData *share);
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *out_value);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t min_bytes_to_keep);
CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool);

/* Memory of graphs. */
CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attr, void *out_value);
CUresult cuDeviceGraphMemTrim(CUdevice dev);
CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attr, void *out_value);

/* Memory shared with other processes. */
CUresult cuIpcCloseMemHandle(CUdeviceptr addr);
CUresult cuIpcGetEventHandle(CUipcEventHandle *out_handle, CUevent event);
CUresult cuIpcGetMemHandle(CUipcMemHandle *out_handle, CUdeviceptr addr);
CUresult cuIpcOpenEventHandle(CUevent *out_event, CUipcEventHandle handle);
CUresult cuIpcOpenMemHandle(CUdeviceptr *out_addr, CUipcMemHandle handle, unsigned int flags);
__typeof__(cuIpcOpenMemHandle) cuIpcOpenMemHandle_v2;

/* Arrays and mipmaps. */
CUresult cuArray3DCreate(CUarray *out_handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc);
CUresult cuArray3DCreate_v2(CUarray *out_handle, const CUDA_ARRAY3D_DESCRIPTOR *desc);
CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *out_desc, CUarray array);
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out_desc, CUarray array);
CUresult cuArrayCreate(CUarray *out_handle, const CUDA_ARRAY_DESCRIPTOR_v1 *desc);
CUresult cuArrayCreate_v2(CUarray *out_handle, const CUDA_ARRAY_DESCRIPTOR *desc);
CUresult cuArrayDestroy(CUarray array);
CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *out_desc, CUarray array);
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *out_desc, CUarray array);
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out_requirements,
				      CUarray array, CUdevice dev);
CUresult cuArrayGetPlane(CUarray *out_array, CUarray array, unsigned int plane);
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out_sparse, CUarray array);
CUresult cuMemMapArrayAsync(CUarrayMapInfo *maps, unsigned int count, CUstream stream);
__typeof__(cuMemMapArrayAsync) cuMemMapArrayAsync_ptsz;
CUresult cuMipmappedArrayCreate(CUmipmappedArray *out_handle, const CUDA_ARRAY3D_DESCRIPTOR *desc,
				unsigned int levels);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap);
CUresult cuMipmappedArrayGetLevel(CUarray *out_array, CUmipmappedArray mipmap, unsigned int level);
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out_requirements,
					       CUmipmappedArray mipmap, CUdevice dev);
CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out_sparse,
					     CUmipmappedArray mipmap);
CUresult cuSurfObjectCreate(CUsurfObject *out_surface, const CUDA_RESOURCE_DESC *resource);
CUresult cuSurfRefSetArray(CUsurfref surface, CUarray array, unsigned int flags);
CUresult cuTexObjectCreate(CUtexObject *out_texture, const CUDA_RESOURCE_DESC *resource,
			   const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view);
CUresult cuTexRefSetAddress(unsigned int *out_offset, CUtexref texture, CUdeviceptr_v1 addr,
			    unsigned int bytes);
CUresult cuTexRefSetAddress_v2(size_t *out_offset, CUtexref texture, CUdeviceptr addr,
			       size_t bytes);
CUresult cuTexRefSetAddress2D(CUtexref texture, const CUDA_ARRAY_DESCRIPTOR_v1 *desc,
			      CUdeviceptr_v1 addr, unsigned int pitch_bytes);
CUresult cuTexRefSetAddress2D_v2(CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *desc,
				 CUdeviceptr addr, size_t pitch_bytes);
__typeof__(cuTexRefSetAddress2D_v2) cuTexRefSetAddress2D_v3;
CUresult cuTexRefSetArray(CUtexref texture, CUarray array, unsigned int flags);
CUresult cuTexRefSetMipmappedArray(CUtexref texture, CUmipmappedArray array, unsigned int flags);

/* Pointers and ranges. */
CUresult cuMemAdvise(CUdeviceptr addr, size_t count, CUmem_advise advice, CUdevice dev);
CUresult cuMemAdvise_v2(CUdeviceptr addr, size_t count, CUmem_advise advice,
			CUmemLocation location);
CUresult cuMemGetLocationInfo(CUdeviceptr addr, size_t bytes, size_t summary, size_t sampling,
			      CUmemLocation *out_location);
CUresult cuMemRangeGetAttribute(void *out_data, size_t data_size, CUmem_range_attribute attr,
				CUdeviceptr addr, size_t count);
CUresult cuMemRangeGetAttributes(void **out_data, size_t *data_sizes, CUmem_range_attribute *attrs,
				 size_t attr_count, CUdeviceptr addr, size_t count);
CUresult cuPointerGetAttribute(void *out_data, CUpointer_attribute attr, CUdeviceptr addr);
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attrs, void **out_data,
				CUdeviceptr addr);
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attr, CUdeviceptr addr);

/* Memory and semaphores from other APIs. */
CUresult cuDestroyExternalMemory(CUexternalMemory memory);
CUresult cuDestroyExternalSemaphore(CUexternalSemaphore semaphore);
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *out_addr, CUexternalMemory memory,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc);
CUresult
cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *out_mipmap, CUexternalMemory memory,
					const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc);
CUresult cuImportExternalMemory(CUexternalMemory *out_memory,
				const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc);
CUresult cuImportExternalSemaphore(CUexternalSemaphore *out_semaphore,
				   const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc);
CUresult cuSignalExternalSemaphoresAsync(const CUexternalSemaphore *semaphores,
					 const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params,
					 unsigned int count, CUstream stream);
__typeof__(cuSignalExternalSemaphoresAsync) cuSignalExternalSemaphoresAsync_ptsz;
CUresult cuWaitExternalSemaphoresAsync(const CUexternalSemaphore *semaphores,
				       const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params,
				       unsigned int count, CUstream stream);
__typeof__(cuWaitExternalSemaphoresAsync) cuWaitExternalSemaphoresAsync_ptsz;
