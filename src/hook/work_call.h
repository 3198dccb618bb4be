/* What a call gives to the GPU: a kernel, a graph, a fill or a copy within a device. */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>
#include <stdint.h>

struct work_call {
	CUstream stream;
	bool is_per_thread;  /* a NULL stream is the calling thread's */
	uint64_t what;       /* the function or graph; WORK_CALL_BYTES */
	uint64_t amount;     /* blocks of the function, bytes */
	CUfunction function; /* a kernel's; else NULL */
};

#define WORK_CALL_BYTES UINT64_C(1)

/* A kernel of so many blocks. */
static inline struct work_call work_kernel(CUstream stream, bool is_per_thread, CUfunction function,
					   uint64_t blocks)
{
	return (struct work_call){ .stream = stream,
				   .is_per_thread = is_per_thread,
				   .what = (uint64_t)(uintptr_t)function,
				   .amount = blocks,
				   .function = function };
}

/* As the configuration says; the driver refuses a call without one. */
static inline struct work_call work_config(const CUlaunchConfig *config, bool is_per_thread,
					   CUfunction function)
{
	if (!config)
		return work_kernel(NULL, is_per_thread, function, 0);
	return work_kernel(config->hStream, is_per_thread, function,
			   (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ);
}

static inline struct work_call work_graph(CUstream stream, bool is_per_thread, CUgraphExec exec)
{
	return (struct work_call){ .stream = stream,
				   .is_per_thread = is_per_thread,
				   .what = (uint64_t)(uintptr_t)exec,
				   .amount = 1 };
}

static inline struct work_call work_bytes(CUstream stream, bool is_per_thread, uint64_t bytes)
{
	return (struct work_call){ .stream = stream,
				   .is_per_thread = is_per_thread,
				   .what = WORK_CALL_BYTES,
				   .amount = bytes };
}

/* Sizes of half a power of two are alike. */
static inline uint64_t work_call_bucket(uint64_t amount)
{
	unsigned log2 = amount ? 63 - (unsigned)__builtin_clzll(amount) : 0;

	return 2 * log2 + (log2 && amount >> (log2 - 1) & 1);
}

/* What kind of work it is, so that its time can be told in advance: a hash, never 0. */
static inline uint64_t work_call_kind(const struct work_call *call)
{
	uint64_t kind = (call->what ^ work_call_bucket(call->amount) << 56) *
			UINT64_C(0x9e3779b97f4a7c15);

	return kind ? kind : 1;
}
