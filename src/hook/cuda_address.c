/* Calls that hand device addresses on to others, or bind them, pass the gate. */
#include "hook/gated.h"

GATED(cuCtxEnablePeerAccess, CUcontext, unsigned int)
GATED(cuIpcGetMemHandle, CUipcMemHandle *, CUdeviceptr)
GATED(cuMemMapArrayAsync, CUarrayMapInfo *, unsigned int, CUstream)
GATED(cuMemMapArrayAsync_ptsz, CUarrayMapInfo *, unsigned int, CUstream)
GATED(cuTexObjectCreate, CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *,
      const CUDA_RESOURCE_VIEW_DESC *)
GATED(cuPointerSetAttribute, const void *, CUpointer_attribute, CUdeviceptr)
