#include "hook/uses_params.h"

#include "drv/real.h"

#include <stdbool.h>
#include <string.h>

/* No function has more; and none more bytes of them. */
enum { PARAMS = 1024, PARAM_BYTES = 32768 };

static void look_at(const void *bytes, size_t count, uses_params_fn *see, void *arg)
{
	const char *at = bytes;

	for (; count >= sizeof(CUdeviceptr); count -= sizeof(CUdeviceptr)) {
		CUdeviceptr word;

		memcpy(&word, at, sizeof(word));
		see(word, arg);
		at += sizeof(word);
	}
}

/* A function's, or a kernel's of a library under a function's type. */
static bool param_bytes(CUfunction function, size_t i, size_t *out_bytes)
{
	size_t offset;

	if (real.cuFuncGetParamInfo &&
	    real.cuFuncGetParamInfo(function, i, &offset, out_bytes) == CUDA_SUCCESS)
		return true;
	return real.cuKernelGetParamInfo &&
	       real.cuKernelGetParamInfo((CUkernel)(uintptr_t)function, i, &offset, out_bytes) ==
		       CUDA_SUCCESS;
}

static void look_at_buffer(void *const *extra, uses_params_fn *see, void *arg)
{
	const void *buffer = NULL;
	size_t bytes = 0;

	for (int i = 0; i < 4 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = *(const size_t *)extra[i + 1];
	}
	if (buffer && bytes <= PARAM_BYTES)
		look_at(buffer, bytes, see, arg);
}

void uses_params(CUfunction function, void *const *params, void *const *extra, uses_params_fn *see,
		 void *arg)
{
	size_t bytes;

	if (extra)
		look_at_buffer(extra, see, arg);
	else if (params)
		for (size_t i = 0; i < PARAMS && param_bytes(function, i, &bytes); i++)
			look_at(params[i], bytes, see, arg);
}
