/* Calls that say where managed memory is to lie, or that its contents may go, pass the gate. */
#include "hook/gated.h"

GATED(cuMemAdvise, CUdeviceptr, size_t, CUmem_advise, CUdevice)
GATED(cuMemAdvise_v2, CUdeviceptr, size_t, CUmem_advise, CUmemLocation)
GATED(cuMemDiscardAndPrefetchBatchAsync, CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *,
      size_t, unsigned long long, CUstream)
GATED(cuMemDiscardAndPrefetchBatchAsync_ptsz, CUdeviceptr *, size_t *, size_t, CUmemLocation *,
      size_t *, size_t, unsigned long long, CUstream)
GATED(cuMemDiscardBatchAsync, CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream)
GATED(cuMemDiscardBatchAsync_ptsz, CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream)
GATED(cuMemPrefetchAsync, CUdeviceptr, size_t, CUdevice, CUstream)
GATED(cuMemPrefetchAsync_ptsz, CUdeviceptr, size_t, CUdevice, CUstream)
GATED(cuMemPrefetchAsync_v2, CUdeviceptr, size_t, CUmemLocation, unsigned int, CUstream)
GATED(cuMemPrefetchAsync_v2_ptsz, CUdeviceptr, size_t, CUmemLocation, unsigned int, CUstream)
GATED(cuMemPrefetchBatchAsync, CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t,
      unsigned long long, CUstream)
GATED(cuMemPrefetchBatchAsync_ptsz, CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *,
      size_t, unsigned long long, CUstream)
GATED(cuStreamAttachMemAsync, CUstream, CUdeviceptr, size_t, unsigned int)
GATED(cuStreamAttachMemAsync_ptsz, CUstream, CUdeviceptr, size_t, unsigned int)
