/*
 * Every fill passes the gate, and takes its time of the device. What is far (hook/peer.h) is done
 * in the object's own context.
 */
#include "hook/crossing.h"
#include "hook/gated.h"

/*
 * near_<sym>, and the hook: a fill of rows of so many values, each of so many bytes. A row by itself
 * has no pitch.
 */
#define FILL(sym, value_bytes, pitch_bytes, uses, the_value, columns, rows, stream, is_own, ...) \
	WORK_AS(static CUresult near_##sym, sym, uses, (void)0, NULL,                            \
		work_bytes(stream, is_own, (value_bytes) * (uint64_t)(columns) * (rows)),        \
		__VA_ARGS__)                                                                     \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                           \
	{                                                                                        \
		CUcontext ctx;                                                                   \
                                                                                                 \
		if (!(columns) || !(rows) || !peer_is_far(a, stream, &ctx))                      \
			return near_##sym(GATED_ARGS(__VA_ARGS__));                              \
		if (!(uses))                                                                     \
			return CUDA_ERROR_INVALID_VALUE;                                         \
		return crossing_fill(&(CUDA_MEMSET_NODE_PARAMS){ .dst = a,                       \
								 .pitch = pitch_bytes,           \
								 .value = the_value,             \
								 .elementSize = value_bytes,     \
								 .width = columns,               \
								 .height = rows },               \
				     ctx, stream, is_own);                                       \
	}
#define LINE(sym, bytes, stream, is_own, ...)                                             \
	FILL(sym, bytes, 0, uses_span(a, (bytes) * (uint64_t)c), b, c, 1, stream, is_own, \
	     __VA_ARGS__)
#define ROWS(sym, bytes, stream, is_own, ...)                                                   \
	FILL(sym, bytes, b, uses_rows(a, b, (bytes) * (uint64_t)d, e), c, d, e, stream, is_own, \
	     __VA_ARGS__)

WORK(cuMemsetD16, NULL, work_bytes(NULL, false, 2 * (uint64_t)c), CUdeviceptr_v1, unsigned short,
     unsigned int)
LINE(cuMemsetD16_v2, 2, NULL, false, CUdeviceptr, unsigned short, size_t)
LINE(cuMemsetD16_v2_ptds, 2, NULL, true, CUdeviceptr, unsigned short, size_t)
LINE(cuMemsetD16Async, 2, d, false, CUdeviceptr, unsigned short, size_t, CUstream)
LINE(cuMemsetD16Async_ptsz, 2, d, true, CUdeviceptr, unsigned short, size_t, CUstream)
WORK(cuMemsetD2D16, NULL, work_bytes(NULL, false, 2 * (uint64_t)d * e), CUdeviceptr_v1,
     unsigned int, unsigned short, unsigned int, unsigned int)
ROWS(cuMemsetD2D16_v2, 2, NULL, false, CUdeviceptr, size_t, unsigned short, size_t, size_t)
ROWS(cuMemsetD2D16_v2_ptds, 2, NULL, true, CUdeviceptr, size_t, unsigned short, size_t, size_t)
ROWS(cuMemsetD2D16Async, 2, f, false, CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream)
ROWS(cuMemsetD2D16Async_ptsz, 2, f, true, CUdeviceptr, size_t, unsigned short, size_t, size_t,
     CUstream)
WORK(cuMemsetD2D32, NULL, work_bytes(NULL, false, 4 * (uint64_t)d * e), CUdeviceptr_v1,
     unsigned int, unsigned int, unsigned int, unsigned int)
ROWS(cuMemsetD2D32_v2, 4, NULL, false, CUdeviceptr, size_t, unsigned int, size_t, size_t)
ROWS(cuMemsetD2D32_v2_ptds, 4, NULL, true, CUdeviceptr, size_t, unsigned int, size_t, size_t)
ROWS(cuMemsetD2D32Async, 4, f, false, CUdeviceptr, size_t, unsigned int, size_t, size_t, CUstream)
ROWS(cuMemsetD2D32Async_ptsz, 4, f, true, CUdeviceptr, size_t, unsigned int, size_t, size_t,
     CUstream)
WORK(cuMemsetD2D8, NULL, work_bytes(NULL, false, 1 * (uint64_t)d * e), CUdeviceptr_v1, unsigned int,
     unsigned char, unsigned int, unsigned int)
ROWS(cuMemsetD2D8_v2, 1, NULL, false, CUdeviceptr, size_t, unsigned char, size_t, size_t)
ROWS(cuMemsetD2D8_v2_ptds, 1, NULL, true, CUdeviceptr, size_t, unsigned char, size_t, size_t)
ROWS(cuMemsetD2D8Async, 1, f, false, CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream)
ROWS(cuMemsetD2D8Async_ptsz, 1, f, true, CUdeviceptr, size_t, unsigned char, size_t, size_t,
     CUstream)
WORK(cuMemsetD32, NULL, work_bytes(NULL, false, 4 * (uint64_t)c), CUdeviceptr_v1, unsigned int,
     unsigned int)
LINE(cuMemsetD32_v2, 4, NULL, false, CUdeviceptr, unsigned int, size_t)
LINE(cuMemsetD32_v2_ptds, 4, NULL, true, CUdeviceptr, unsigned int, size_t)
LINE(cuMemsetD32Async, 4, d, false, CUdeviceptr, unsigned int, size_t, CUstream)
LINE(cuMemsetD32Async_ptsz, 4, d, true, CUdeviceptr, unsigned int, size_t, CUstream)
WORK(cuMemsetD8, NULL, work_bytes(NULL, false, 1 * (uint64_t)c), CUdeviceptr_v1, unsigned char,
     unsigned int)
LINE(cuMemsetD8_v2, 1, NULL, false, CUdeviceptr, unsigned char, size_t)
LINE(cuMemsetD8_v2_ptds, 1, NULL, true, CUdeviceptr, unsigned char, size_t)
LINE(cuMemsetD8Async, 1, d, false, CUdeviceptr, unsigned char, size_t, CUstream)
LINE(cuMemsetD8Async_ptsz, 1, d, true, CUdeviceptr, unsigned char, size_t, CUstream)
