/*
 * Modules, their functions, and libraries, which become a module in each context. The driver's lock
 * protects them.
 *
 * A module's variables take memory when it is loaded, its code at its first function's use, or also
 * when it is loaded where CUDA_MODULE_LOADING or the driver's age wants it so.
 */
#pragma once

#include <stdbool.h>

#include "abi/cuda.h"
#include "cuda_image.h"
#include "cuda_kernel.h"

/* Dynamic shared memory that every function may have without asking for more. */
enum { CUDA_DYNAMIC_SHARED_BYTES = 49152 };

struct CUfunc_st {
	/* constant */
	const struct cuda_kernel *kernel;
	struct CUmod_st *module;
	/* the driver's lock */
	bool is_loaded;
	int max_dynamic_shared_bytes;
	int carveout_pct;
};

struct CUmod_st {
	struct CUctx_st *ctx;
	struct CUlib_st *library; /* it is this library's module in ctx; NULL: of its own */
	struct cuda_image *image;
	struct cuda_range *variables; /* NULL: there are none */
	struct cuda_range *managed;   /* likewise, of managed ones */
	struct cuda_range *code;      /* NULL: no function was used */
	struct CUfunc_st *function;   /* one for each kernel */
	struct CUmod_st *next, **link;
};

/* Decides, at cuInit, when modules load their code. */
void cuda_module_init(void);

/* Reads a whole file; the caller frees it. CUDA_ERROR_FILE_NOT_FOUND when it cannot be read. */
CUresult cuda_module_read_file(const char *path, void **out_image);

/* Loads a module into a context, with a reference to the image of its own. */
CUresult cuda_module_new(struct CUctx_st *ctx, struct cuda_image *image, struct CUlib_st *library,
			 struct CUmod_st **out);

/* Brings a function, and with the first one the module's code, to the device. */
CUresult cuda_module_use(struct CUfunc_st *func);

/* Where a variable of a module lies. */
CUresult cuda_module_variable(const struct CUmod_st *module, const char *name,
			      CUdeviceptr *out_address, size_t *out_bytes);

/* Takes it and its functions away. */
void cuda_module_delete(struct CUmod_st *module);

/* Takes away the modules of a context that ends. */
void cuda_module_delete_all(struct CUctx_st *ctx);

/* The module of a library in a context, loaded now if it must be. */
CUresult cuda_module_of(struct CUlib_st *library, struct CUctx_st *ctx, struct CUmod_st **out);

/* True when cuda_module_of() would load nothing. */
bool cuda_module_is_loaded(const struct CUlib_st *library, const struct CUctx_st *ctx);

/* Local memory of one of its threads. */
uint32_t cuda_function_local_bytes(const struct CUfunc_st *func);

/* Value of an attribute of a function on a valid device. */
CUresult cuda_function_attribute(const struct CUfunc_st *func, CUdevice dev,
				 CUfunction_attribute attribute, int *out_value);

/* Sets an attribute that can be set. */
CUresult cuda_function_set_attribute(struct CUfunc_st *func, CUdevice dev,
				     CUfunction_attribute attribute, int value);

/* The function a handle means in `ctx`: a function of it, or a library's kernel. It is loaded. */
CUresult cuda_function_find(CUfunction handle, struct CUctx_st *ctx, struct CUfunc_st **out);
