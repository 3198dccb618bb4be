#include "hook/collective.h"

#include "core/function.h"
#include "drv/real.h"

#include <stdatomic.h>
#include <string.h>

static const char *const collective_names[] = { "nccl", "nvshmem", "mscclpp", "cross_device_reduce",
						"multimem_" };

/* Handles, shifted by one, and whether they are of such a function. Atomic. */
enum { SEEN_LOG2 = 9 };
static _Atomic uint64_t seen[1 << SEEN_LOG2];

/* Of a function or a kernel of a library; NULL: not told. */
static const char *name_of(CUfunction function)
{
	const char *name = NULL;
	CUresult res = CUDA_ERROR_NOT_FOUND;

	if (function_kind(function) == FUNCTION_KERNEL) {
		if (real.cuKernelGetName)
			res = real.cuKernelGetName(&name, (CUkernel)(void *)function);
	} else if (real.cuFuncGetName) {
		res = real.cuFuncGetName(&name, function);
	}
	return res == CUDA_SUCCESS ? name : NULL;
}

bool collective_is_name(const char *name)
{
	for (size_t i = 0; i < sizeof(collective_names) / sizeof(collective_names[0]); i++)
		if (strstr(name, collective_names[i]))
			return true;
	return false;
}

bool collective_is(CUfunction function)
{
	const char *name = name_of(function);

	return name && collective_is_name(name);
}

bool collective_is_seen(CUfunction function)
{
	uint64_t key = (uint64_t)(uintptr_t)function << 1;
	_Atomic uint64_t *at = &seen[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SEEN_LOG2)];
	uint64_t have = atomic_load_explicit(at, memory_order_relaxed);

	if ((have & ~UINT64_C(1)) != key) {
		have = key | collective_is(function);
		atomic_store_explicit(at, have, memory_order_relaxed);
	}
	return have & 1;
}

bool collective_may_be(const struct work_call *call, bool has_launched_some)
{
	if (!call->function)
		return has_launched_some && call->what != WORK_CALL_BYTES;
	return collective_is(call->function);
}
