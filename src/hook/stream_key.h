/*
 * What names a stream in the meters: its handle, while it lives; the default streams, whose handles are
 * the same in every context and thread, by those.
 */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>
#include <stdint.h>

#define STREAM_KEY_DEFAULT (UINT64_C(1) << 63)

/* True when the handle means a default stream, the calling thread's own or the legacy one. */
static inline bool stream_key_is_default(CUstream stream)
{
	return (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD;
}

/* True when a default handle means the calling thread's stream. `is_per_thread`: NULL does. */
static inline bool stream_key_is_own(CUstream stream, bool is_per_thread)
{
	return stream == CU_STREAM_PER_THREAD || (!stream && is_per_thread);
}

/* The key of a created stream. */
static inline uint64_t stream_key_of(CUstream stream)
{
	return (uint64_t)(uintptr_t)stream;
}

/* That of a default stream of a context (drv/gpu_event.h's key): of this thread, or legacy with 0. */
static inline uint64_t stream_key_default(uint64_t context, uint64_t thread)
{
	return STREAM_KEY_DEFAULT | context << 32 | (thread & UINT32_MAX);
}

/* The handle behind the key; NULL for a default stream, which another thread cannot name. */
static inline CUstream stream_key_handle(uint64_t key)
{
	return key & STREAM_KEY_DEFAULT ? NULL : (CUstream)(uintptr_t)key;
}
