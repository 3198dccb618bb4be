/*
 * Modules and libraries: their code and variables are device memory that no allocation call shows.
 * What a load cost is learnt from the driver after it; one that passes the limit is undone.
 */
#include "hook/enter.h"

#include <errno.h>

/* The device of the calling thread; false when nothing is to be counted. */
static bool begin(struct dev *out_dev)
{
	const void *ctx;

	return enter_current(out_dev, &ctx) == ENTER_CHARGE;
}

/* After a load: 0, or -EDQUOT when it passed the limit. */
static int finish(struct dev dev)
{
	uint64_t limit = quota_limit(dev);

	charge_reconcile(dev, QUOTA_MODULE);
	return limit && quota_used(dev) > limit ? -EDQUOT : 0;
}

static CUresult finish_module(struct dev dev, CUmodule module)
{
	int rc = finish(dev);

	if (rc == 0)
		return CUDA_SUCCESS;
	real.cuModuleUnload(module);
	finish(dev);
	return enter_refused(rc, dev, 0);
}

static CUresult finish_library(struct dev dev, CUlibrary library)
{
	int rc = finish(dev);

	if (rc == 0)
		return CUDA_SUCCESS;
	real.cuLibraryUnload(library);
	finish(dev);
	return enter_refused(rc, dev, 0);
}

CUresult hook_cuModuleLoad(CUmodule *out_module, const char *path)
{
	struct dev dev;
	CUresult res;
	bool counts;

	if (!ENTER_HAS(cuModuleLoad))
		return enter_missing();
	counts = begin(&dev);
	res = real.cuModuleLoad(out_module, path);
	return counts && res == CUDA_SUCCESS ? finish_module(dev, *out_module) : res;
}

CUresult hook_cuModuleLoadData(CUmodule *out_module, const void *image)
{
	struct dev dev;
	CUresult res;
	bool counts;

	if (!ENTER_HAS(cuModuleLoadData))
		return enter_missing();
	counts = begin(&dev);
	res = real.cuModuleLoadData(out_module, image);
	return counts && res == CUDA_SUCCESS ? finish_module(dev, *out_module) : res;
}

CUresult hook_cuModuleLoadDataEx(CUmodule *out_module, const void *image, unsigned int count,
				 CUjit_option *options, void **values)
{
	struct dev dev;
	CUresult res;
	bool counts;

	if (!ENTER_HAS(cuModuleLoadDataEx))
		return enter_missing();
	counts = begin(&dev);
	res = real.cuModuleLoadDataEx(out_module, image, count, options, values);
	return counts && res == CUDA_SUCCESS ? finish_module(dev, *out_module) : res;
}

CUresult hook_cuModuleLoadFatBinary(CUmodule *out_module, const void *image)
{
	struct dev dev;
	CUresult res;
	bool counts;

	if (!ENTER_HAS(cuModuleLoadFatBinary))
		return enter_missing();
	counts = begin(&dev);
	res = real.cuModuleLoadFatBinary(out_module, image);
	return counts && res == CUDA_SUCCESS ? finish_module(dev, *out_module) : res;
}

CUresult hook_cuModuleUnload(CUmodule module)
{
	struct dev dev;
	CUresult res;
	bool counts;

	if (!ENTER_HAS(cuModuleUnload))
		return enter_missing();
	counts = begin(&dev);
	res = real.cuModuleUnload(module);
	if (counts && res == CUDA_SUCCESS)
		charge_reconcile(dev, QUOTA_MODULE);
	return res;
}

CUresult hook_cuLibraryLoadData(CUlibrary *out_library, const void *code,
				CUjit_option *jit_options, void **jit_values, unsigned int jit_count,
				CUlibraryOption *options, void **values, unsigned int count)
{
	struct dev dev;
	CUresult res;
	bool counts;

	if (!ENTER_HAS(cuLibraryLoadData))
		return enter_missing();
	counts = begin(&dev);
	res = real.cuLibraryLoadData(out_library, code, jit_options, jit_values, jit_count, options,
				     values, count);
	return counts && res == CUDA_SUCCESS ? finish_library(dev, *out_library) : res;
}

CUresult hook_cuLibraryLoadFromFile(CUlibrary *out_library, const char *path,
				    CUjit_option *jit_options, void **jit_values,
				    unsigned int jit_count, CUlibraryOption *options, void **values,
				    unsigned int count)
{
	struct dev dev;
	CUresult res;
	bool counts;

	if (!ENTER_HAS(cuLibraryLoadFromFile))
		return enter_missing();
	counts = begin(&dev);
	res = real.cuLibraryLoadFromFile(out_library, path, jit_options, jit_values, jit_count,
					 options, values, count);
	return counts && res == CUDA_SUCCESS ? finish_library(dev, *out_library) : res;
}

CUresult hook_cuLibraryUnload(CUlibrary library)
{
	struct dev dev;
	CUresult res;
	bool counts;

	if (!ENTER_HAS(cuLibraryUnload))
		return enter_missing();
	counts = begin(&dev);
	res = real.cuLibraryUnload(library);
	if (counts && res == CUDA_SUCCESS)
		charge_reconcile(dev, QUOTA_MODULE);
	return res;
}
