#include "hook/collective.h"

#include "core/function.h"
#include "drv/real.h"

#include <string.h>

static const char *const collective_names[] = { "nccl", "nvshmem", "mscclpp", "cross_device_reduce",
						"multimem_" };

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

bool collective_may_be(const struct work_call *call, bool has_launched_some)
{
	if (!call->function)
		return has_launched_some && call->what != WORK_CALL_BYTES;
	return collective_is(call->function);
}
