/* The ways to the driver: cuInit and cuGetProcAddress. */
#include "hook/enter.h"

CUresult hook_cuInit(unsigned int flags)
{
	CUresult res;

	if (!ENTER_HAS(cuInit))
		return CUDA_ERROR_NO_DEVICE;
	res = real.cuInit(flags);
	if (res == CUDA_SUCCESS && init_member() == INIT_FAILED)
		return enter_refusal();
	return res;
}

/*
 * The driver chooses the symbol (version, per-thread stream form); what it chose is exchanged for
 * the hook of that very symbol.
 */
static void exchange(const char *name, void **inout_pointer)
{
	void *hook = *inout_pointer ? lookup_pointer(name, *inout_pointer) : NULL;

	if (hook)
		*inout_pointer = hook;
}

CUresult hook_cuGetProcAddress(const char *name, void **out_pointer, int cuda_version,
			       cuuint64_t flags)
{
	CUresult res;

	if (!ENTER_HAS(cuGetProcAddress))
		return enter_missing();
	res = real.cuGetProcAddress(name, out_pointer, cuda_version, flags);
	if (res == CUDA_SUCCESS && name && out_pointer)
		exchange(name, out_pointer);
	return res;
}

CUresult hook_cuGetProcAddress_v2(const char *name, void **out_pointer, int cuda_version,
				  cuuint64_t flags, CUdriverProcAddressQueryResult *out_status)
{
	CUresult res;

	if (!ENTER_HAS(cuGetProcAddress_v2))
		return enter_missing();
	res = real.cuGetProcAddress_v2(name, out_pointer, cuda_version, flags, out_status);
	if (res == CUDA_SUCCESS && name && out_pointer)
		exchange(name, out_pointer);
	return res;
}
