#include "cuda_library.h"

#include <stdlib.h>
#include <string.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_module.h"
#include "cuda_object.h"
#include "cuda_stream.h"

static void delete_library(struct CUlib_st *library)
{
	cuda_object_remove(library);
	for (int i = 0; library->kernel && i < cuda_kernel_count(); i++)
		cuda_object_remove(&library->kernel[i]);
	free(library->kernel);
	cuda_image_put(library->image);
	free(library);
}

/* Owns a reference to the image, also on failure. */
static CUresult new_library(struct cuda_image *image, CUlibrary *out_library)
{
	int count = cuda_kernel_count();
	struct CUlib_st *library = calloc(1, sizeof(*library));

	if (!library) {
		cuda_image_put(image);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	library->image = image;
	library->kernel = calloc((size_t)count, sizeof(*library->kernel));
	if (!library->kernel || cuda_object_add(OBJECT_LIBRARY, library) != 0)
		goto out_delete;
	for (int i = 0; i < count; i++) {
		library->kernel[i] = (struct CUkern_st){ cuda_kernel_get(i), library,
							 CUDA_DYNAMIC_SHARED_BYTES, -1 };
		if (cuda_object_add(OBJECT_KERNEL, &library->kernel[i]) != 0)
			goto out_delete;
	}
	*out_library = library;
	return CUDA_SUCCESS;

out_delete:
	delete_library(library);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult load(enum cuda_id id, CUlibrary *out_library, const void *code)
{
	CUresult res = cuda_call_begin(id);
	struct cuda_image *image;

	if (res != CUDA_SUCCESS)
		return res;
	res = out_library ? cuda_image_read(code, &image) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = new_library(image, out_library);
	return cuda_call_end(res);
}

CUresult cuLibraryLoadData(CUlibrary *out_library, const void *code, CUjit_option *jit_options,
			   void **jit_values, unsigned int jit_count,
			   CUlibraryOption *library_options, void **library_values,
			   unsigned int library_count)
{
	(void)library_values;
	if ((jit_count && (!jit_options || !jit_values)) || (library_count && !library_options))
		return cuda_call_is_ready() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
	return load(CUDA_ID_cuLibraryLoadData, out_library, code);
}

CUresult cuLibraryLoadFromFile(CUlibrary *out_library, const char *path, CUjit_option *jit_options,
			       void **jit_values, unsigned int jit_count,
			       CUlibraryOption *library_options, void **library_values,
			       unsigned int library_count)
{
	void *image;
	CUresult res;

	(void)library_values;
	if (!cuda_call_is_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!path || (jit_count && (!jit_options || !jit_values)) ||
	    (library_count && !library_options))
		return CUDA_ERROR_INVALID_VALUE;
	res = cuda_module_read_file(path, &image);
	if (res != CUDA_SUCCESS)
		return res;
	res = load(CUDA_ID_cuLibraryLoadFromFile, out_library, image);
	free(image);
	return res;
}

/* Starts a call about an object that exists. */
static CUresult begin(enum cuda_id id, enum object_kind kind, const void *object)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(kind, object))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	return CUDA_SUCCESS;
}

/* Takes the library's modules out of all contexts. */
CUresult cuLibraryUnload(CUlibrary library)
{
	CUresult res = begin(CUDA_ID_cuLibraryUnload, OBJECT_LIBRARY, library);

	if (res != CUDA_SUCCESS)
		return res;
	cuda_object_remove(library);
	for (struct CUctx_st *ctx = cuda_context_first(); ctx; ctx = ctx->next) {
		struct CUmod_st *module;

		if (!ctx->is_alive || !cuda_module_is_loaded(library, ctx))
			continue;
		cuda_stream_drain(ctx);
		if (cuda_module_is_loaded(library, ctx) &&
		    cuda_module_of(library, ctx, &module) == CUDA_SUCCESS)
			cuda_module_delete(module);
	}
	delete_library(library);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuLibraryGetKernel(CUkernel *out_kernel, CUlibrary library, const char *name)
{
	CUresult res = begin(CUDA_ID_cuLibraryGetKernel, OBJECT_LIBRARY, library);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_kernel || !name)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < cuda_kernel_count(); i++) {
		if (strcmp(library->kernel[i].kernel->name, name) == 0) {
			*out_kernel = &library->kernel[i];
			return cuda_call_end(CUDA_SUCCESS);
		}
	}
	return cuda_call_end(CUDA_ERROR_NOT_FOUND);
}

CUresult cuLibraryGetKernelCount(unsigned int *out_count, CUlibrary library)
{
	CUresult res = begin(CUDA_ID_cuLibraryGetKernelCount, OBJECT_LIBRARY, library);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_count)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_count = (unsigned)cuda_kernel_count();
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuLibraryEnumerateKernels(CUkernel *out_kernels, unsigned int count, CUlibrary library)
{
	CUresult res = begin(CUDA_ID_cuLibraryEnumerateKernels, OBJECT_LIBRARY, library);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_kernels || count == 0)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < cuda_kernel_count() && i < (int)count; i++)
		out_kernels[i] = &library->kernel[i];
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *out_address, size_t *out_bytes, CUlibrary library,
			    const char *name)
{
	CUresult res = begin(CUDA_ID_cuLibraryGetGlobal, OBJECT_LIBRARY, library);
	struct CUmod_st *module;
	struct CUctx_st *ctx;

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_context_current(&ctx);
	if (res == CUDA_SUCCESS)
		res = cuda_module_of(library, ctx, &module);
	if (res == CUDA_SUCCESS)
		res = cuda_module_variable(module, name, out_address, out_bytes);
	return cuda_call_end(res);
}

CUresult cuLibraryGetModule(CUmodule *out_module, CUlibrary library)
{
	CUresult res = begin(CUDA_ID_cuLibraryGetModule, OBJECT_LIBRARY, library);
	struct CUctx_st *ctx;

	if (res != CUDA_SUCCESS)
		return res;
	res = out_module ? cuda_context_current(&ctx) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_module_of(library, ctx, out_module);
	return cuda_call_end(res);
}

CUresult cuKernelGetFunction(CUfunction *out_func, CUkernel kernel)
{
	CUresult res = begin(CUDA_ID_cuKernelGetFunction, OBJECT_KERNEL, kernel);
	struct CUctx_st *ctx;

	if (res != CUDA_SUCCESS)
		return res;
	res = out_func ? cuda_context_current(&ctx) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_function_find((CUfunction)kernel, ctx, out_func);
	return cuda_call_end(res);
}

CUresult cuKernelGetLibrary(CUlibrary *out_library, CUkernel kernel)
{
	CUresult res = begin(CUDA_ID_cuKernelGetLibrary, OBJECT_KERNEL, kernel);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_library)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_library = kernel->library;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuKernelGetName(const char **out_name, CUkernel kernel)
{
	CUresult res = begin(CUDA_ID_cuKernelGetName, OBJECT_KERNEL, kernel);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_name)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_name = kernel->kernel->name;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *out_offset, size_t *out_bytes)
{
	CUresult res = begin(CUDA_ID_cuKernelGetParamInfo, OBJECT_KERNEL, kernel);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_offset || index >= (size_t)kernel->kernel->params)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_offset = cuda_kernel_param_offset(kernel->kernel, (int)index);
	if (out_bytes)
		*out_bytes = (size_t)kernel->kernel->param_bytes[index];
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuKernelGetAttribute(int *out_value, CUfunction_attribute attribute, CUkernel kernel,
			      CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuKernelGetAttribute, OBJECT_KERNEL, kernel);
	struct CUfunc_st func;

	if (res != CUDA_SUCCESS)
		return res;
	func = (struct CUfunc_st){ .max_dynamic_shared_bytes = kernel->max_dynamic_shared_bytes,
				   .carveout_pct = kernel->carveout_pct };
	if (!out_value)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!cuda_device_is_valid(dev))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	if (attribute == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) {
		*out_value =
			(int)kernel->library->image->local_bytes[kernel - kernel->library->kernel];
		return cuda_call_end(CUDA_SUCCESS);
	}
	return cuda_call_end(cuda_function_attribute(&func, dev, attribute, out_value));
}

/* In every context: those that have the library's module, and those that will. */
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
			      CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuKernelSetAttribute, OBJECT_KERNEL, kernel);
	struct CUfunc_st func;

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_device_is_valid(dev))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	func = (struct CUfunc_st){ .max_dynamic_shared_bytes = kernel->max_dynamic_shared_bytes,
				   .carveout_pct = kernel->carveout_pct };
	res = cuda_function_set_attribute(&func, dev, attribute, value);
	kernel->max_dynamic_shared_bytes = func.max_dynamic_shared_bytes;
	kernel->carveout_pct = func.carveout_pct;
	return cuda_call_end(res);
}

/* A hint; this device has nothing to prefer. */
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuKernelSetCacheConfig, OBJECT_KERNEL, kernel);

	if (res != CUDA_SUCCESS)
		return res;
	if ((int)config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(cuda_device_is_valid(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t *out_count)
{
	CUresult res = begin(CUDA_ID_cuKernelGetParamCount, OBJECT_KERNEL, kernel);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_count)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_count = (size_t)kernel->kernel->params;
	return cuda_call_end(CUDA_SUCCESS);
}
