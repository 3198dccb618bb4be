#include "cuda_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_heap.h"
#include "cuda_library.h"
#include "cuda_limit.h"
#include "cuda_managed.h"
#include "cuda_memory.h"
#include "cuda_object.h"
#include "cuda_stream.h"

static struct CUmod_st *modules; /* the driver's lock */

static bool is_lazy; /* constant after cuInit */

/* Lazy came with CUDA 11.7, by request, and is what happens unasked since 12.2. */
void cuda_module_init(void)
{
	const char *wanted = getenv("CUDA_MODULE_LOADING");

	if (cuda_call_version() < 11070)
		is_lazy = false;
	else if (wanted && strcmp(wanted, "EAGER") == 0)
		is_lazy = false;
	else if (wanted && strcmp(wanted, "LAZY") == 0)
		is_lazy = true;
	else
		is_lazy = cuda_call_version() >= 12020;
}

CUresult cuda_module_read_file(const char *path, void **out_image)
{
	FILE *file = fopen(path, "re");
	char *image = NULL;
	size_t size = 0, room = 0, got;

	if (!file)
		return CUDA_ERROR_FILE_NOT_FOUND;
	do {
		char *grown;

		room += 65536;
		grown = realloc(image, room + 1);
		if (!grown) {
			free(image);
			fclose(file);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		image = grown;
		got = fread(image + size, 1, room - size, file);
		size += got;
	} while (size == room);
	fclose(file);
	image[size] = '\0';
	*out_image = image;
	return CUDA_SUCCESS;
}

static int add_functions(struct CUmod_st *module)
{
	int count = cuda_kernel_count();

	module->function = calloc((size_t)count, sizeof(*module->function));
	if (!module->function)
		return -1;
	for (int i = 0; i < count; i++) {
		struct CUfunc_st *f = &module->function[i];

		f->kernel = cuda_kernel_get(i);
		f->module = module;
		f->max_dynamic_shared_bytes = CUDA_DYNAMIC_SHARED_BYTES;
		f->carveout_pct = -1;
		f->is_loaded = !is_lazy;
		if (cuda_object_add(OBJECT_FUNCTION, f) != 0)
			return -1;
	}
	return 0;
}

/* Whole blocks. */
static struct cuda_range *new_code(const struct CUmod_st *m)
{
	uint64_t bytes = m->image->code_bytes ? m->image->code_bytes : 1;

	bytes = (bytes + HEAP_BLOCK_BYTES - 1) / HEAP_BLOCK_BYTES * HEAP_BLOCK_BYTES;
	return cuda_memory_new(m->ctx, bytes, RANGE_MODULE);
}

/* Device memory for what a module has at once. */
static CUresult take_memory(struct CUmod_st *m)
{
	if (m->image->variables_bytes)
		m->variables = cuda_memory_new(m->ctx, m->image->variables_bytes, RANGE_MODULE);
	if (m->image->variables_bytes && !m->variables)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (m->image->managed_bytes)
		m->managed = cuda_managed_new(m->ctx, m->image->managed_bytes,
					      CU_MEM_ATTACH_GLOBAL);
	if (m->image->managed_bytes && !m->managed)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* a shared block has bytes of what was there before, new blocks have none */
	if (m->variables && !m->variables->taken_bytes)
		memset((void *)m->variables->start, 0, m->variables->size_bytes);
	if (!is_lazy)
		m->code = new_code(m);
	return is_lazy || m->code ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuda_module_new(struct CUctx_st *ctx, struct cuda_image *image, struct CUlib_st *library,
			 struct CUmod_st **out)
{
	struct CUmod_st *m = calloc(1, sizeof(*m));

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->ctx = ctx;
	m->library = library;
	m->image = image;
	image->references++;
	m->next = modules;
	m->link = &modules;
	if (modules)
		modules->link = &m->next;
	modules = m;
	if (cuda_limit_calls(ctx, image->calls) != CUDA_SUCCESS || take_memory(m) != CUDA_SUCCESS ||
	    add_functions(m) != 0 || cuda_object_add(OBJECT_MODULE, m) != 0) {
		cuda_module_delete(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = m;
	return CUDA_SUCCESS;
}

CUresult cuda_module_use(struct CUfunc_st *func)
{
	struct CUmod_st *m = func->module;

	if (!m->code)
		m->code = new_code(m);
	if (!m->code)
		return CUDA_ERROR_OUT_OF_MEMORY;
	func->is_loaded = true;
	return CUDA_SUCCESS;
}

CUresult cuda_module_variable(const struct CUmod_st *module, const char *name,
			      CUdeviceptr *out_address, size_t *out_bytes)
{
	const struct cuda_variable *v = name ? cuda_image_find(module->image, name) : NULL;

	if (!name || (!out_address && !out_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!v)
		return CUDA_ERROR_NOT_FOUND;
	if (out_address)
		*out_address = (v->is_managed ? module->managed : module->variables)->start +
			       v->offset;
	if (out_bytes)
		*out_bytes = v->size_bytes;
	return CUDA_SUCCESS;
}

void cuda_module_delete(struct CUmod_st *module)
{
	cuda_object_remove(module);
	for (int i = 0; module->function && i < cuda_kernel_count(); i++)
		cuda_object_remove(&module->function[i]);
	free(module->function);
	if (module->variables)
		cuda_memory_delete(module->variables);
	if (module->managed)
		cuda_memory_delete(module->managed);
	if (module->code)
		cuda_memory_delete(module->code);
	cuda_image_put(module->image);
	*module->link = module->next;
	if (module->next)
		module->next->link = module->link;
	free(module);
}

void cuda_module_delete_all(struct CUctx_st *ctx)
{
	struct CUmod_st *next;

	for (struct CUmod_st *m = modules; m; m = next) {
		next = m->next;
		if (m->ctx == ctx)
			cuda_module_delete(m);
	}
}

bool cuda_module_is_loaded(const struct CUlib_st *library, const struct CUctx_st *ctx)
{
	for (const struct CUmod_st *m = modules; m; m = m->next)
		if (m->library == library && m->ctx == ctx)
			return true;
	return false;
}

CUresult cuda_module_of(struct CUlib_st *library, struct CUctx_st *ctx, struct CUmod_st **out)
{
	for (struct CUmod_st *m = modules; m; m = m->next) {
		if (m->library == library && m->ctx == ctx) {
			*out = m;
			return CUDA_SUCCESS;
		}
	}
	return cuda_module_new(ctx, library->image, library, out);
}

static CUresult load(enum cuda_id id, CUmodule *out_module, const void *image)
{
	struct cuda_image *read = NULL;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = out_module ? cuda_image_read(image, &read) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_stream_check_unsafe(ctx);
	if (res == CUDA_SUCCESS)
		res = cuda_module_new(ctx, read, NULL, out_module);
	cuda_image_put(read);
	return cuda_call_end(res);
}

CUresult cuModuleLoadData(CUmodule *out_module, const void *image)
{
	return load(CUDA_ID_cuModuleLoadData, out_module, image);
}

CUresult cuModuleLoadDataEx(CUmodule *out_module, const void *image, unsigned int count,
			    CUjit_option *options, void **values)
{
	if (count && (!options || !values))
		return cuda_call_is_ready() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
	return load(CUDA_ID_cuModuleLoadDataEx, out_module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *out_module, const void *image)
{
	return load(CUDA_ID_cuModuleLoadFatBinary, out_module, image);
}

CUresult cuModuleLoad(CUmodule *out_module, const char *path)
{
	void *image;
	CUresult res;

	if (!cuda_call_is_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	res = cuda_module_read_file(path, &image);
	if (res != CUDA_SUCCESS)
		return res;
	res = load(CUDA_ID_cuModuleLoad, out_module, image);
	free(image);
	return res;
}

/* Starts a call about a module that exists. */
static CUresult begin(enum cuda_id id, CUmodule module)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_MODULE, module))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	return CUDA_SUCCESS;
}

/* A library's module goes with its library only. */
CUresult cuModuleUnload(CUmodule module)
{
	CUresult res = begin(CUDA_ID_cuModuleUnload, module);

	if (res != CUDA_SUCCESS)
		return res;
	if (module->library)
		return cuda_call_end(CUDA_ERROR_NOT_PERMITTED);
	cuda_stream_drain(module->ctx);
	if (cuda_object_is(OBJECT_MODULE, module))
		cuda_module_delete(module);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction *out_func, CUmodule module, const char *name)
{
	CUresult res = begin(CUDA_ID_cuModuleGetFunction, module);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_func || !name)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < cuda_kernel_count(); i++) {
		if (strcmp(module->function[i].kernel->name, name) != 0)
			continue;
		res = cuda_module_use(&module->function[i]);
		if (res == CUDA_SUCCESS)
			*out_func = &module->function[i];
		return cuda_call_end(res);
	}
	return cuda_call_end(CUDA_ERROR_NOT_FOUND);
}

CUresult cuModuleGetFunctionCount(unsigned int *out_count, CUmodule module)
{
	CUresult res = begin(CUDA_ID_cuModuleGetFunctionCount, module);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_count)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_count = (unsigned)cuda_kernel_count();
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuModuleEnumerateFunctions(CUfunction *out_functions, unsigned int count, CUmodule module)
{
	CUresult res = begin(CUDA_ID_cuModuleEnumerateFunctions, module);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_functions || count == 0)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < cuda_kernel_count() && i < (int)count; i++)
		out_functions[i] = &module->function[i];
	return cuda_call_end(CUDA_SUCCESS);
}

/* The form of the 32-bit days can hold no address of this driver. */
CUresult cuModuleGetGlobal(CUdeviceptr_v1 *out_address, unsigned int *out_bytes, CUmodule module,
			   const char *name)
{
	CUresult res = begin(CUDA_ID_cuModuleGetGlobal, module);

	(void)out_address;
	(void)out_bytes;
	(void)name;
	return res == CUDA_SUCCESS ? cuda_call_end(CUDA_ERROR_INVALID_CONTEXT) : res;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *out_address, size_t *out_bytes, CUmodule module,
			      const char *name)
{
	CUresult res = begin(CUDA_ID_cuModuleGetGlobal_v2, module);

	if (res != CUDA_SUCCESS)
		return res;
	return cuda_call_end(cuda_module_variable(module, name, out_address, out_bytes));
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *out_mode)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuModuleGetLoadingMode);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_mode)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_mode = is_lazy ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
	return cuda_call_end(CUDA_SUCCESS);
}
