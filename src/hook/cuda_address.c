/* Calls that map device memory, bind its addresses or hand them on to others pass the gate. */
#include "core/bound.h"
#include "core/handed.h"
#include "core/object_pin.h"
#include "hook/gated.h"
#include "hook/movable.h"

GATED(cuCtxDisablePeerAccess, CUcontext)
GATED(cuMemPoolSetAccess, CUmemoryPool, const CUmemAccessDesc *, size_t)

/* Shared with others. */
GATED(cuExternalMemoryGetMappedBuffer, CUdeviceptr *, CUexternalMemory,
      const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *)
GATED(cuExternalMemoryGetMappedMipmappedArray, CUmipmappedArray *, CUexternalMemory,
      const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *)

/* Bound to groups of devices and to a fabric. */
GATED(cuLogicalEndpointUnbind, CUlogicalEndpointId, CUdevice, cuuint64_t, cuuint64_t)
GATED(cuMulticastAddDevice, CUmemGenericAllocationHandle, CUdevice)
GATED(cuMulticastCreate, CUmemGenericAllocationHandle *, const CUmulticastObjectProp *)
GATED(cuMulticastUnbind, CUmemGenericAllocationHandle, CUdevice, size_t, size_t)

/* Bound to textures and surfaces. */
GATED(cuSurfObjectCreate, CUsurfObject *, const CUDA_RESOURCE_DESC *)
GATED(cuSurfRefSetArray, CUsurfref, CUarray, unsigned int)
GATED(cuTexObjectCreate, CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *,
      const CUDA_RESOURCE_VIEW_DESC *)
GATED(cuTexRefSetAddress, unsigned int *, CUtexref, CUdeviceptr_v1, unsigned int)
GATED(cuTexRefSetAddress_v2, size_t *, CUtexref, CUdeviceptr, size_t)
GATED(cuTexRefSetAddress2D, CUtexref, const CUDA_ARRAY_DESCRIPTOR_v1 *, CUdeviceptr_v1,
      unsigned int)
GATED(cuTexRefSetAddress2D_v2, CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t)
GATED(cuTexRefSetAddress2D_v3, CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t)
GATED(cuTexRefSetArray, CUtexref, CUarray, unsigned int)
GATED(cuTexRefSetMipmappedArray, CUtexref, CUmipmappedArray, unsigned int)

/* Code and variables that may come to the device with the question for them. */
GATED(cuLibraryGetManaged, CUdeviceptr *, size_t *, CUlibrary, const char *)
GATED(cuLibraryGetUnifiedFunction, void **, CUlibrary, const char *)
GATED(cuModuleGetGlobal, CUdeviceptr_v1 *, unsigned int *, CUmodule, const char *)
GATED(cuModuleGetGlobal_v2, CUdeviceptr *, size_t *, CUmodule, const char *)

/* As GATED(), of a call that binds memory: what it binds may outlive its handle (core/bound.h). */
#define BINDS(sym, ...)                                              \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))               \
	{                                                            \
		if (!ENTER_HAS(sym))                                 \
			return enter_missing();                      \
		bound_note();                                        \
		return GATE_CALL(real.sym(GATED_ARGS(__VA_ARGS__))); \
	}

BINDS(cuLogicalEndpointBindAddr, CUlogicalEndpointId, CUdevice, cuuint64_t, void *, cuuint64_t,
      unsigned long long)
BINDS(cuLogicalEndpointBindMem, CUlogicalEndpointId, CUdevice, cuuint64_t,
      CUmemGenericAllocationHandle, cuuint64_t, cuuint64_t, unsigned long long)
BINDS(cuMulticastBindMem, CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle,
      size_t, size_t, unsigned long long)
BINDS(cuMulticastBindMem_v2, CUmemGenericAllocationHandle, CUdevice, size_t,
      CUmemGenericAllocationHandle, size_t, size_t, unsigned long long)

CUresult hook_cuMulticastBindAddr(CUmemGenericAllocationHandle group, size_t offset_bytes,
				  CUdeviceptr addr, size_t bytes, unsigned long long flags)
{
	if (!ENTER_HAS(cuMulticastBindAddr))
		return enter_missing();
	if (movable_has(addr))
		addr = MOVABLE_NOWHERE;
	bound_note();
	return GATE_CALL(real.cuMulticastBindAddr(group, offset_bytes, addr, bytes, flags));
}

CUresult hook_cuMulticastBindAddr_v2(CUmemGenericAllocationHandle group, CUdevice ord,
				     size_t offset_bytes, CUdeviceptr addr, size_t bytes,
				     unsigned long long flags)
{
	if (!ENTER_HAS(cuMulticastBindAddr_v2))
		return enter_missing();
	if (movable_has(addr))
		addr = MOVABLE_NOWHERE;
	bound_note();
	return GATE_CALL(real.cuMulticastBindAddr_v2(group, ord, offset_bytes, addr, bytes, flags));
}
