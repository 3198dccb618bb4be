/* Modules, their functions, and libraries, which become a module in each context. The driver's lock
 * protects them. */
#pragma once

#include <stdbool.h>

#include "abi/cuda.h"
#include "cuda_kernel.h"

/* Dynamic shared memory that every function may have without asking for more. */
enum { CUDA_DYNAMIC_SHARED_BYTES = 49152 };

struct CUfunc_st {
	/* constant */
	const struct cuda_kernel *kernel;
	struct CUmod_st *module;
	/* the driver's lock */
	int max_dynamic_shared_bytes;
	int carveout_pct;
};

struct CUmod_st {
	struct CUctx_st *ctx;
	struct CUlib_st *library; /* it is this library's module in ctx; NULL: of its own */
	struct cuda_range *memory;
	struct CUfunc_st *function; /* one for each kernel */
	struct CUmod_st *next, **link;
};

/* CUDA_SUCCESS when the image is of a kind the driver loads. */
CUresult cuda_module_check_image(const void *image);

/* Reads a whole file; the caller frees it. CUDA_ERROR_FILE_NOT_FOUND when it cannot be read. */
CUresult cuda_module_read_file(const char *path, void **out_image);

/* Loads a module into a context. */
CUresult cuda_module_new(struct CUctx_st *ctx, struct CUlib_st *library, struct CUmod_st **out);

/* Takes it and its functions away. */
void cuda_module_delete(struct CUmod_st *module);

/* Takes away the modules of a context that ends. */
void cuda_module_delete_all(struct CUctx_st *ctx);

/* The module of a library in a context, loaded now if it must be. */
CUresult cuda_module_of(struct CUlib_st *library, struct CUctx_st *ctx, struct CUmod_st **out);

/* True when cuda_module_of() would load nothing. */
bool cuda_module_is_loaded(const struct CUlib_st *library, const struct CUctx_st *ctx);

/* Value of an attribute of a function on a valid device. */
CUresult cuda_function_attribute(const struct CUfunc_st *func, CUdevice dev,
				 CUfunction_attribute attribute, int *out_value);

/* Sets an attribute that can be set. */
CUresult cuda_function_set_attribute(struct CUfunc_st *func, CUdevice dev,
				     CUfunction_attribute attribute, int value);

/* The function a handle means in `ctx`: a function of it, or a library's kernel. */
CUresult cuda_function_find(CUfunction handle, struct CUctx_st *ctx, struct CUfunc_st **out);
