/*
 * Modules and libraries: their code and variables are device memory that no allocation call
 * shows.
 */
#include "core/gate.h"
#include "core/library.h"
#include "core/lodger.h"
#include "core/promise.h"
#include "core/small.h"
#include "core/untold.h"
#include "drv/gpu_cuda.h"
#include "hook/code.h"
#include "hook/first_launch.h"
#include "hook/loading.h"
#include "hook/output.h"
#include "hook/overhead.h"
#include "hook/room.h"
#include "hook/together.h"

/* Of what was loaded by a call that is in, in the calling thread's context. */
static void keep(struct overhead *o, const void *owner)
{
	const void *ctx = NULL;
	struct cuda_ord ord;

	gpu_cuda_current(&ord, &ctx);
	overhead_keep(o, owner, ctx);
}

/* After a load of a module: what it took counts, and one that passes the limit is unloaded. */
static CUresult finish_module(struct overhead *o, CUresult res, const CUmodule *module,
			      const struct loading *loading, const struct output *was)
{
	struct lodger *lodgers;
	bool has_come;

	if (res != CUDA_SUCCESS) {
		overhead_cancel(o);
		return res;
	}
	overhead_lodge(o, *module, loading->shared_bytes);
	has_come = overhead_came(o, *module);
	if (overhead_finish(o) == 0 && has_come) {
		if (o->counts)
			code_loaded(*module, loading->later_bytes);
		keep(o, *module);
		/* Only now: for itself nothing is kept back. */
		if (o->counts)
			small_note_code(o->dev);
		return res;
	}
	promise_end_owner(*module);
	lodgers = lodger_take(*module);
	lodger_over(lodgers, GATE_CALL(real.cuModuleUnload(*module)) == CUDA_SUCCESS);
	output_restore(was);
	return overhead_refuse(o);
}

/*
 * Defines hook_<sym>(params): a load of a module into *out_module, of an image that `image` reads,
 * that calls the driver with args.
 */
#define LOAD_MODULE(sym, image, params, args)                              \
	CUresult hook_##sym params                                         \
	{                                                                  \
		struct loading loading = { 0 };                            \
		struct output was = { 0 };                                 \
		struct overhead o;                                         \
		CUresult res;                                              \
                                                                           \
		if (!ENTER_HAS(sym))                                       \
			return enter_missing();                            \
		overhead_begin(&o);                                        \
		if (o.counts)                                              \
			loading = (image);                                 \
		overhead_expect(&o, loading.calls);                        \
		overhead_expect_managed(&o, loading.managed_bytes, false); \
		res = overhead_reserve(&o, loading.bytes);                 \
		if (res != CUDA_SUCCESS)                                   \
			return res;                                        \
		if (o.counts)                                              \
			was = OUTPUT_SAVE(out_module);                     \
		res = ROOM_CALL_HERE(0, real.sym args);                    \
		return finish_module(&o, res, out_module, &loading, &was); \
	}

LOAD_MODULE(cuModuleLoad, loading_read_file(path, LOADING_HERE),
	    (CUmodule * out_module, const char *path), (out_module, path))
LOAD_MODULE(cuModuleLoadData, loading_read(image, LOADING_HERE),
	    (CUmodule * out_module, const void *image), (out_module, image))
LOAD_MODULE(cuModuleLoadDataEx, loading_read(image, LOADING_HERE),
	    (CUmodule * out_module, const void *image, unsigned int count, CUjit_option *options,
	     void **values),
	    (out_module, image, count, options, values))
LOAD_MODULE(cuModuleLoadFatBinary, loading_read(image, LOADING_HERE),
	    (CUmodule * out_module, const void *image), (out_module, image))

/*
 * After a load of a library: eager drivers may have taken its memory now, else it comes with the
 * first question for something in it.
 */
static CUresult finish_library(struct overhead *o, CUresult res, const CUlibrary *library,
			       struct library_need need, const struct output *was)
{
	struct lodger *lodgers;
	bool has_come;

	if (res != CUDA_SUCCESS)
		overhead_cancel(o);
	else if (init_is_member())
		library_note(*library, need);
	if (res != CUDA_SUCCESS)
		return res;
	if (loading_is_eager())
		overhead_lodge(o, *library, need.shared_bytes);
	has_come = overhead_came(o, *library);
	if (overhead_finish(o) == 0 && has_come) {
		keep(o, *library);
		return res;
	}
	library_over(library_take(*library), true);
	promise_end_owner(*library);
	lodgers = lodger_take(*library);
	lodger_over(lodgers, GATE_CALL(real.cuLibraryUnload(*library)) == CUDA_SUCCESS);
	output_restore(was);
	return overhead_refuse(o);
}

/* What comes with its load; the rest does with the first question for something in it. */
static CUresult reserve_library(struct overhead *o, const struct library_need *need)
{
	overhead_expect_managed(o, need->managed_bytes, true);
	if (!loading_is_eager())
		return o->counts ? overhead_reserve_managed(o) : CUDA_SUCCESS;
	overhead_expect(o, need->calls);
	return overhead_reserve(o, need->bytes);
}

/* The program leaves the image where it is, by the option's value. */
static bool is_preserved(const CUlibraryOption *options, void *const *values, unsigned count)
{
	for (unsigned i = 0; options && values && i < count; i++)
		if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED && values[i])
			return true;
	return false;
}

/* An image that may go is looked at now; else it is when the library comes to a context. */
static struct library_need need_of(const void *code, const CUlibraryOption *options,
				   void *const *values, unsigned count)
{
	struct loading loading;

	if (is_preserved(options, values, count) && !loading_is_eager())
		return (struct library_need){ .image = code };
	loading = loading_read(code, LOADING_ANYWHERE);
	return overhead_library_need(&loading);
}

CUresult hook_cuLibraryLoadData(CUlibrary *out_library, const void *code, CUjit_option *jit_options,
				void **jit_values, unsigned int jit_count, CUlibraryOption *options,
				void **values, unsigned int count)
{
	struct library_need need = { 0 };
	struct output was = { 0 };
	struct overhead o;
	CUresult res;

	if (!ENTER_HAS(cuLibraryLoadData))
		return enter_missing();
	overhead_begin(&o);
	if (init_is_member())
		need = need_of(code, options, values, count);
	res = reserve_library(&o, &need);
	if (res != CUDA_SUCCESS)
		return res;
	if (o.counts)
		was = OUTPUT_SAVE(out_library);
	res = ROOM_CALL_HERE(0, real.cuLibraryLoadData(out_library, code, jit_options, jit_values,
						       jit_count, options, values, count));
	return finish_library(&o, res, out_library, need, &was);
}

CUresult hook_cuLibraryLoadFromFile(CUlibrary *out_library, const char *path,
				    CUjit_option *jit_options, void **jit_values,
				    unsigned int jit_count, CUlibraryOption *options, void **values,
				    unsigned int count)
{
	struct library_need need = { 0 };
	struct loading loading = { 0 };
	struct output was = { 0 };
	struct overhead o;
	CUresult res;

	if (!ENTER_HAS(cuLibraryLoadFromFile))
		return enter_missing();
	overhead_begin(&o);
	if (init_is_member())
		loading = loading_read_file(path, LOADING_ANYWHERE);
	need = overhead_library_need(&loading);
	res = reserve_library(&o, &need);
	if (res != CUDA_SUCCESS)
		return res;
	if (o.counts)
		was = OUTPUT_SAVE(out_library);
	res = ROOM_CALL_HERE(0,
			     real.cuLibraryLoadFromFile(out_library, path, jit_options, jit_values,
							jit_count, options, values, count));
	return finish_library(&o, res, out_library, need, &was);
}

struct unload {
	struct overhead overhead;
	struct lodger *lodgers;
	struct module *modules;
	struct library_place *places;
};

/*
 * Nobody takes what an unload gives back for something else's. What is known of `owner` is out of
 * the books before the driver can give its handles to others.
 */
static void begin_unload(struct unload *u, const void *owner)
{
	*u = (struct unload){ .lodgers = NULL };
	overhead_begin(&u->overhead);
	u->lodgers = lodger_take(owner);
	promise_rename(owner, u);
	function_rename_owner(owner, u);
	untold_rename(owner, u);
	if (u->overhead.counts)
		charge_begin();
}

/* What an unload gave back counts no more; what was not unloaded is known as before. */
static CUresult finish_unload(struct unload *u, const void *owner, CUresult res)
{
	struct untold_bytes untold = { 0 };

	lodger_over(u->lodgers, res == CUDA_SUCCESS);
	module_over(u->modules, res == CUDA_SUCCESS);
	library_over(u->places, res == CUDA_SUCCESS);
	if (res == CUDA_SUCCESS) {
		promise_end_owner(u);
		function_end_owner(u);
		untold_take(u, &untold);
	} else {
		promise_rename(u, owner);
		function_rename_owner(u, owner);
		untold_rename(u, owner);
	}
	if (u->overhead.counts)
		charge_over();
	if (res == CUDA_SUCCESS) {
		overhead_finish(&u->overhead);
		overhead_give_back(&untold);
	}
	/* A library may have been on any. */
	for (int d = 0; d < RATION_DEVICES && init_is_member(); d++)
		small_settle((struct dev){ d });
	return res;
}

CUresult hook_cuModuleUnload(CUmodule module)
{
	struct unload u;

	if (!ENTER_HAS(cuModuleUnload))
		return enter_missing();
	begin_unload(&u, module);
	u.modules = module_take(module);
	return finish_unload(&u, module, GATE_CALL(real.cuModuleUnload(module)));
}

CUresult hook_cuLibraryUnload(CUlibrary library)
{
	struct unload u;

	if (!ENTER_HAS(cuLibraryUnload))
		return enter_missing();
	begin_unload(&u, library);
	u.modules = module_take_library(library);
	u.places = library_take(library);
	return finish_unload(&u, library, GATE_CALL(real.cuLibraryUnload(library)));
}

CUresult hook_cuLibraryGetModule(CUmodule *out_module, CUlibrary library)
{
	struct output was = { 0 };
	struct overhead o;
	CUresult res, said;

	if (!ENTER_HAS(cuLibraryGetModule))
		return enter_missing();
	res = overhead_begin_library(&o, library, LIBRARY_DATA);
	if (res != CUDA_SUCCESS)
		return res;
	if (o.counts)
		was = OUTPUT_SAVE(out_module);
	said = ROOM_CALL_HERE(0, real.cuLibraryGetModule(out_module, library));
	res = overhead_finish_library(&o, library, LIBRARY_DATA, said);
	if (res == CUDA_SUCCESS)
		code_of_library(*out_module, library);
	else if (said == CUDA_SUCCESS)
		output_restore(&was);
	return res;
}

CUresult hook_cuKernelGetFunction(CUfunction *out_function, CUkernel kernel)
{
	struct output was = { 0 };
	CUlibrary library;
	struct overhead o;
	CUresult res, said;

	if (!ENTER_HAS(cuKernelGetFunction))
		return enter_missing();
	library = (CUlibrary)(uintptr_t)function_owner(kernel);
	res = overhead_begin_library(&o, library, LIBRARY_CODE);
	if (res != CUDA_SUCCESS)
		return res;
	if (o.counts)
		was = OUTPUT_SAVE(out_function);
	said = ROOM_CALL_HERE(0, real.cuKernelGetFunction(out_function, kernel));
	res = overhead_finish_library(&o, library, LIBRARY_CODE, said);
	if (res == CUDA_SUCCESS)
		first_launch_given(*out_function, function_owner(kernel));
	else if (said == CUDA_SUCCESS)
		output_restore(&was);
	return res;
}

/* Variables, where they lie in the context's memory. */
typedef CUresult global_fn(CUdeviceptr *out_addr, size_t *out_bytes, CUlibrary library,
			   const char *name);

static CUresult ask_global(global_fn *call, CUdeviceptr *out_addr, size_t *out_bytes,
			   CUlibrary library, const char *name)
{
	struct output was_addr = { 0 }, was_bytes = { 0 };
	struct overhead o;
	CUresult res = overhead_begin_library(&o, library, LIBRARY_DATA), said;

	if (res != CUDA_SUCCESS)
		return res;
	if (o.counts) {
		was_addr = OUTPUT_SAVE(out_addr);
		was_bytes = OUTPUT_SAVE(out_bytes);
	}
	said = ROOM_CALL_HERE(0, call(out_addr, out_bytes, library, name));
	res = overhead_finish_library(&o, library, LIBRARY_DATA, said);
	if (res != CUDA_SUCCESS && said == CUDA_SUCCESS) {
		output_restore(&was_addr);
		output_restore(&was_bytes);
	}
	return res;
}

CUresult hook_cuLibraryGetGlobal(CUdeviceptr *out_addr, size_t *out_bytes, CUlibrary library,
				 const char *name)
{
	return ENTER_HAS(cuLibraryGetGlobal) ?
		       ask_global(real.cuLibraryGetGlobal, out_addr, out_bytes, library, name) :
		       enter_missing();
}

/* Functions and kernels whose first launch is to be noticed (hook/first_launch.h). */
CUresult hook_cuModuleGetFunction(CUfunction *out_function, CUmodule module, const char *name)
{
	struct output was = { 0 };
	struct code code;
	CUresult res, said;

	if (!ENTER_HAS(cuModuleGetFunction))
		return enter_missing();
	res = code_begin(&code, module);
	if (res != CUDA_SUCCESS)
		return res;
	if (code.module)
		was = OUTPUT_SAVE(out_function);
	said = ROOM_ASK(real.cuModuleGetFunction(out_function, module, name));
	res = code_finish(&code, said);
	if (res == CUDA_SUCCESS) {
		together_given_name(name);
		first_launch_given(*out_function, module);
	} else if (said == CUDA_SUCCESS) {
		output_restore(&was);
	}
	return res;
}

CUresult hook_cuModuleEnumerateFunctions(CUfunction *out_functions, unsigned int count,
					 CUmodule module)
{
	unsigned int there = 0;
	CUresult res;

	if (!ENTER_HAS(cuModuleEnumerateFunctions))
		return enter_missing();
	res = ROOM_ASK(real.cuModuleEnumerateFunctions(out_functions, count, module));
	if (res != CUDA_SUCCESS || !real.cuModuleGetFunctionCount ||
	    real.cuModuleGetFunctionCount(&there, module) != CUDA_SUCCESS)
		return res;
	for (unsigned int i = 0; i < count && i < there; i++) {
		together_given(out_functions[i]);
		first_launch_given(out_functions[i], module);
	}
	return res;
}

CUresult hook_cuLibraryGetKernel(CUkernel *out_kernel, CUlibrary library, const char *name)
{
	CUresult res;

	if (!ENTER_HAS(cuLibraryGetKernel))
		return enter_missing();
	res = ROOM_ASK(real.cuLibraryGetKernel(out_kernel, library, name));
	if (res == CUDA_SUCCESS) {
		together_given_name(name);
		first_launch_given_kernel(*out_kernel, library);
	}
	return res;
}

CUresult hook_cuLibraryEnumerateKernels(CUkernel *out_kernels, unsigned int count,
					CUlibrary library)
{
	unsigned int there = 0;
	CUresult res;

	if (!ENTER_HAS(cuLibraryEnumerateKernels))
		return enter_missing();
	res = ROOM_ASK(real.cuLibraryEnumerateKernels(out_kernels, count, library));
	if (res != CUDA_SUCCESS || !real.cuLibraryGetKernelCount ||
	    real.cuLibraryGetKernelCount(&there, library) != CUDA_SUCCESS)
		return res;
	for (unsigned int i = 0; i < count && i < there; i++) {
		together_given((CUfunction)(void *)out_kernels[i]);
		first_launch_given_kernel(out_kernels[i], library);
	}
	return res;
}

/*
 * Defines hook_<sym>(params): a call about the function `func` for which the driver loads it;
 * `call` makes it. What is settled is loaded.
 */
#define WITH_FUNCTION(sym, call, params)                   \
	CUresult hook_##sym params                         \
	{                                                  \
		CUresult res = CUDA_SUCCESS;               \
                                                           \
		if (!ENTER_HAS(sym))                       \
			return enter_missing();            \
		if (!function_is_settled(func))            \
			res = first_launch_let_in(func);   \
		if (res != CUDA_SUCCESS)                   \
			return res;                        \
		res = (call);                              \
		if (res == CUDA_SUCCESS && function_any()) \
			first_launch_loaded(func);         \
		return res;                                \
	}

WITH_FUNCTION(cuFuncGetAttribute, ROOM_ASK(real.cuFuncGetAttribute(out_value, attribute, func)),
	      (int *out_value, CUfunction_attribute attribute, CUfunction func))
WITH_FUNCTION(cuFuncSetAttribute, ROOM_ASK(real.cuFuncSetAttribute(func, attribute, value)),
	      (CUfunction func, CUfunction_attribute attribute, int value))
WITH_FUNCTION(cuFuncLoad, ROOM_CALL_HERE(0, real.cuFuncLoad(func)), (CUfunction func))
