#include "cuda_module.h"

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_library.h"
#include "cuda_object.h"

enum { REGISTERS = 16, PTX_VERSION = 60 };

uint32_t cuda_function_local_bytes(const struct CUfunc_st *func)
{
	return func->module ? func->module->image->local_bytes[func - func->module->function] : 0;
}

CUresult cuda_function_find(CUfunction handle, struct CUctx_st *ctx, struct CUfunc_st **out)
{
	struct CUkern_st *kernel = (struct CUkern_st *)handle;
	struct CUmod_st *module;
	CUresult res;

	if (cuda_object_is(OBJECT_FUNCTION, handle)) {
		*out = handle;
		return handle->module->ctx == ctx ? cuda_module_use(handle) :
						    CUDA_ERROR_INVALID_HANDLE;
	}
	if (!cuda_object_is(OBJECT_KERNEL, handle))
		return CUDA_ERROR_INVALID_HANDLE;
	res = cuda_module_of(kernel->library, ctx, &module);
	if (res == CUDA_SUCCESS)
		*out = &module->function[kernel - kernel->library->kernel];
	if (res == CUDA_SUCCESS &&
	    (*out)->max_dynamic_shared_bytes < kernel->max_dynamic_shared_bytes)
		(*out)->max_dynamic_shared_bytes = kernel->max_dynamic_shared_bytes;
	return res == CUDA_SUCCESS ? cuda_module_use(*out) : res;
}

CUresult cuda_function_attribute(const struct CUfunc_st *func, CUdevice dev,
				 CUfunction_attribute attribute, int *out_value)
{
	const struct machine_device *d = cuda_device_get(dev);

	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*out_value = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*out_value = (int)cuda_function_local_bytes(func);
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*out_value = REGISTERS;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*out_value = PTX_VERSION;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*out_value = (int)(d->cc_major * 10 + d->cc_minor);
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*out_value = func->max_dynamic_shared_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*out_value = func->carveout_pct;
		break;
	default:
		if ((int)attribute < 0 ||
		    attribute > CU_FUNC_ATTRIBUTE_DEVICE_NODE_UPDATE_SUPPORTED)
			return CUDA_ERROR_INVALID_VALUE;
		*out_value = 0;
	}
	return CUDA_SUCCESS;
}

/* Starts a call about a function that exists; a library's kernel is none here. */
static CUresult begin(enum cuda_id id, CUfunction func)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_FUNCTION, func))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *out_value, CUfunction_attribute attribute, CUfunction func)
{
	CUresult res = begin(CUDA_ID_cuFuncGetAttribute, func);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_value)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_module_use(func);
	if (res == CUDA_SUCCESS)
		res = cuda_function_attribute(func, func->module->ctx->dev, attribute, out_value);
	return cuda_call_end(res);
}

CUresult cuda_function_set_attribute(struct CUfunc_st *func, CUdevice dev,
				     CUfunction_attribute attribute, int value)
{
	int most;

	cuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &most);
	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || value > most)
			return CUDA_ERROR_INVALID_VALUE;
		func->max_dynamic_shared_bytes = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		func->carveout_pct = value;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuFuncSetAttribute(CUfunction func, CUfunction_attribute attribute, int value)
{
	CUresult res = begin(CUDA_ID_cuFuncSetAttribute, func);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_module_use(func);
	if (res == CUDA_SUCCESS)
		res = cuda_function_set_attribute(func, func->module->ctx->dev, attribute, value);
	return cuda_call_end(res);
}

CUresult cuFuncGetModule(CUmodule *out_module, CUfunction func)
{
	CUresult res = begin(CUDA_ID_cuFuncGetModule, func);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_module)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_module = func->module;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuFuncGetName(const char **out_name, CUfunction func)
{
	CUresult res = begin(CUDA_ID_cuFuncGetName, func);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_name)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_name = func->kernel->name;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *out_state, CUfunction func)
{
	CUresult res = begin(CUDA_ID_cuFuncIsLoaded, func);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_state)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_state = func->is_loaded ? CU_FUNCTION_LOADING_STATE_LOADED :
				       CU_FUNCTION_LOADING_STATE_UNLOADED;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuFuncLoad(CUfunction func)
{
	CUresult res = begin(CUDA_ID_cuFuncLoad, func);

	return res == CUDA_SUCCESS ? cuda_call_end(cuda_module_use(func)) : res;
}

/* Where a parameter lies and how large it is. */
CUresult cuFuncGetParamInfo(CUfunction func, size_t index, size_t *out_offset, size_t *out_bytes)
{
	CUresult res = begin(CUDA_ID_cuFuncGetParamInfo, func);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_offset || index >= (size_t)func->kernel->params)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_offset = cuda_kernel_param_offset(func->kernel, (int)index);
	if (out_bytes)
		*out_bytes = (size_t)func->kernel->param_bytes[index];
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuFuncGetParamCount(CUfunction func, size_t *out_count)
{
	CUresult res = begin(CUDA_ID_cuFuncGetParamCount, func);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_count)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_count = (size_t)func->kernel->params;
	return cuda_call_end(CUDA_SUCCESS);
}

/* A hint; this device has nothing to prefer. */
CUresult cuFuncSetCacheConfig(CUfunction func, CUfunc_cache config)
{
	CUresult res = begin(CUDA_ID_cuFuncSetCacheConfig, func);

	if (res != CUDA_SUCCESS)
		return res;
	if ((int)config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(CUDA_SUCCESS);
}
