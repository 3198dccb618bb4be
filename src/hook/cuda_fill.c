/* Every fill passes the gate, and takes its time of the device. */
#include "hook/gated.h"

WORK(cuMemsetD16, NULL, work_bytes(NULL, false, 2 * (uint64_t)c), CUdeviceptr_v1, unsigned short,
     unsigned int)
WORK_ON(cuMemsetD16_v2, uses_span(a, 2 * (uint64_t)c), NULL,
	work_bytes(NULL, false, 2 * (uint64_t)c), CUdeviceptr, unsigned short, size_t)
WORK_ON(cuMemsetD16_v2_ptds, uses_span(a, 2 * (uint64_t)c), NULL,
	work_bytes(NULL, true, 2 * (uint64_t)c), CUdeviceptr, unsigned short, size_t)
WORK_ON(cuMemsetD16Async, uses_span(a, 2 * (uint64_t)c), NULL,
	work_bytes(d, false, 2 * (uint64_t)c), CUdeviceptr, unsigned short, size_t, CUstream)
WORK_ON(cuMemsetD16Async_ptsz, uses_span(a, 2 * (uint64_t)c), NULL,
	work_bytes(d, true, 2 * (uint64_t)c), CUdeviceptr, unsigned short, size_t, CUstream)
WORK(cuMemsetD2D16, NULL, work_bytes(NULL, false, 2 * (uint64_t)d * e), CUdeviceptr_v1,
     unsigned int, unsigned short, unsigned int, unsigned int)
WORK_ON(cuMemsetD2D16_v2, uses_rows(a, b, 2 * (uint64_t)d, e), NULL,
	work_bytes(NULL, false, 2 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned short, size_t,
	size_t)
WORK_ON(cuMemsetD2D16_v2_ptds, uses_rows(a, b, 2 * (uint64_t)d, e), NULL,
	work_bytes(NULL, true, 2 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned short, size_t,
	size_t)
WORK_ON(cuMemsetD2D16Async, uses_rows(a, b, 2 * (uint64_t)d, e), NULL,
	work_bytes(f, false, 2 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned short, size_t,
	size_t, CUstream)
WORK_ON(cuMemsetD2D16Async_ptsz, uses_rows(a, b, 2 * (uint64_t)d, e), NULL,
	work_bytes(f, true, 2 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned short, size_t,
	size_t, CUstream)
WORK(cuMemsetD2D32, NULL, work_bytes(NULL, false, 4 * (uint64_t)d * e), CUdeviceptr_v1,
     unsigned int, unsigned int, unsigned int, unsigned int)
WORK_ON(cuMemsetD2D32_v2, uses_rows(a, b, 4 * (uint64_t)d, e), NULL,
	work_bytes(NULL, false, 4 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned int, size_t,
	size_t)
WORK_ON(cuMemsetD2D32_v2_ptds, uses_rows(a, b, 4 * (uint64_t)d, e), NULL,
	work_bytes(NULL, true, 4 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned int, size_t,
	size_t)
WORK_ON(cuMemsetD2D32Async, uses_rows(a, b, 4 * (uint64_t)d, e), NULL,
	work_bytes(f, false, 4 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned int, size_t,
	size_t, CUstream)
WORK_ON(cuMemsetD2D32Async_ptsz, uses_rows(a, b, 4 * (uint64_t)d, e), NULL,
	work_bytes(f, true, 4 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned int, size_t, size_t,
	CUstream)
WORK(cuMemsetD2D8, NULL, work_bytes(NULL, false, 1 * (uint64_t)d * e), CUdeviceptr_v1, unsigned int,
     unsigned char, unsigned int, unsigned int)
WORK_ON(cuMemsetD2D8_v2, uses_rows(a, b, 1 * (uint64_t)d, e), NULL,
	work_bytes(NULL, false, 1 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned char, size_t,
	size_t)
WORK_ON(cuMemsetD2D8_v2_ptds, uses_rows(a, b, 1 * (uint64_t)d, e), NULL,
	work_bytes(NULL, true, 1 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned char, size_t,
	size_t)
WORK_ON(cuMemsetD2D8Async, uses_rows(a, b, 1 * (uint64_t)d, e), NULL,
	work_bytes(f, false, 1 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned char, size_t,
	size_t, CUstream)
WORK_ON(cuMemsetD2D8Async_ptsz, uses_rows(a, b, 1 * (uint64_t)d, e), NULL,
	work_bytes(f, true, 1 * (uint64_t)d * e), CUdeviceptr, size_t, unsigned char, size_t,
	size_t, CUstream)
WORK(cuMemsetD32, NULL, work_bytes(NULL, false, 4 * (uint64_t)c), CUdeviceptr_v1, unsigned int,
     unsigned int)
WORK_ON(cuMemsetD32_v2, uses_span(a, 4 * (uint64_t)c), NULL,
	work_bytes(NULL, false, 4 * (uint64_t)c), CUdeviceptr, unsigned int, size_t)
WORK_ON(cuMemsetD32_v2_ptds, uses_span(a, 4 * (uint64_t)c), NULL,
	work_bytes(NULL, true, 4 * (uint64_t)c), CUdeviceptr, unsigned int, size_t)
WORK_ON(cuMemsetD32Async, uses_span(a, 4 * (uint64_t)c), NULL,
	work_bytes(d, false, 4 * (uint64_t)c), CUdeviceptr, unsigned int, size_t, CUstream)
WORK_ON(cuMemsetD32Async_ptsz, uses_span(a, 4 * (uint64_t)c), NULL,
	work_bytes(d, true, 4 * (uint64_t)c), CUdeviceptr, unsigned int, size_t, CUstream)
WORK(cuMemsetD8, NULL, work_bytes(NULL, false, 1 * (uint64_t)c), CUdeviceptr_v1, unsigned char,
     unsigned int)
WORK_ON(cuMemsetD8_v2, uses_span(a, 1 * (uint64_t)c), NULL,
	work_bytes(NULL, false, 1 * (uint64_t)c), CUdeviceptr, unsigned char, size_t)
WORK_ON(cuMemsetD8_v2_ptds, uses_span(a, 1 * (uint64_t)c), NULL,
	work_bytes(NULL, true, 1 * (uint64_t)c), CUdeviceptr, unsigned char, size_t)
WORK_ON(cuMemsetD8Async, uses_span(a, 1 * (uint64_t)c), NULL, work_bytes(d, false, 1 * (uint64_t)c),
	CUdeviceptr, unsigned char, size_t, CUstream)
WORK_ON(cuMemsetD8Async_ptsz, uses_span(a, 1 * (uint64_t)c), NULL,
	work_bytes(d, true, 1 * (uint64_t)c), CUdeviceptr, unsigned char, size_t, CUstream)
