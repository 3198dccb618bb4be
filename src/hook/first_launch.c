#include "hook/first_launch.h"

#include "core/gate.h"
#include "core/library.h"
#include "drv/capture.h"
#include "drv/gpu_cuda.h"
#include "drv/real.h"
#include "drv/relaxed.h"
#include "drv/visit.h"
#include "hook/again.h"
#include "hook/code.h"
#include "hook/enter.h"
#include "hook/loading.h"
#include "hook/metering.h"
#include "hook/overhead.h"
#include "hook/room.h"
#include "hook/stream_key.h"

#include <errno.h>

static bool ask_function(CUfunction function, uint32_t *out_bytes)
{
	int bytes = 0;

	if (!real.cuFuncGetAttribute ||
	    real.cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function) !=
		    CUDA_SUCCESS ||
	    bytes < 0)
		return false;
	*out_bytes = (uint32_t)bytes;
	return true;
}

/* A kernel is asked by its function in the current context: what the launch needs as well. */
static bool ask(CUfunction handle, uint32_t *out_bytes)
{
	CUfunction function = handle;

	if (function_kind(handle) == FUNCTION_KERNEL &&
	    (!real.cuKernelGetFunction ||
	     real.cuKernelGetFunction(&function, (CUkernel)(void *)handle) != CUDA_SUCCESS))
		return false;
	return ask_function(function, out_bytes);
}

bool first_launch_thread_bytes(CUfunction function, uint32_t *out_bytes)
{
	struct relaxed before;
	bool is_relaxed, is_known;

	if (function_thread_bytes(function, out_bytes))
		return true;
	is_relaxed = atomic_load_explicit(&capture_count, memory_order_relaxed) != 0;
	if (is_relaxed)
		before = relaxed_begin();
	is_known = ask(function, out_bytes);
	if (is_relaxed)
		relaxed_end(before);
	return is_known;
}

static bool is_loaded(CUfunction function)
{
	CUfunctionLoadingState is;

	if (real.cuFuncIsLoaded && real.cuFuncIsLoaded(&is, function) == CUDA_SUCCESS)
		return is == CU_FUNCTION_LOADING_STATE_LOADED;
	return loading_is_eager();
}

void first_launch_loaded(CUfunction function)
{
	struct cuda_ord ord;
	const void *ctx;
	uint32_t bytes;

	if (!function_is_settled(function) && !function_thread_bytes(function, &bytes) &&
	    gpu_cuda_current(&ord, &ctx) && ask(function, &bytes))
		local_tell(function, ctx, bytes);
}

static bool counts(void)
{
	return init_is_member() && quota_counts_contexts();
}

/* Its code is on the device, but every use of it is asked for as its first. */
static bool is_refused(const void *module)
{
	struct module_facts facts;

	return module && module_find(module, &facts) && facts.is_refused && !facts.has_code;
}

void first_launch_given(CUfunction function, const void *owner)
{
	if (!counts())
		return;
	function_enter(function, FUNCTION_OF_CONTEXT, owner);
	again_void();
	if (!function_is_settled(function) && !is_refused(owner) && is_loaded(function))
		first_launch_loaded(function);
}

void first_launch_given_kernel(CUkernel kernel, CUlibrary library)
{
	struct cuda_ord ord;
	int bytes = 0;

	if (!counts())
		return;
	function_enter(kernel, FUNCTION_KERNEL, library);
	again_void();
	if (!function_is_settled(kernel) && loading_is_eager() && real.cuKernelGetAttribute &&
	    gpu_cuda_current_device(&ord) &&
	    real.cuKernelGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel, ord.v) ==
		    CUDA_SUCCESS &&
	    bytes >= 0)
		local_tell(kernel, NULL, (uint32_t)bytes);
}

uint64_t first_launch_resident_threads(struct cuda_ord ord)
{
	int each = 0, sms = 0;

	if (!real.cuDeviceGetAttribute ||
	    real.cuDeviceGetAttribute(&each, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
				      ord.v) != CUDA_SUCCESS ||
	    real.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ord.v) !=
		    CUDA_SUCCESS ||
	    each <= 0 || sms <= 0)
		return 0;
	return (uint64_t)each * (uint64_t)sms;
}

CUresult first_launch_reserve(struct local_growth *growth, uint32_t thread_bytes,
			      const void *handle)
{
	struct local_use use = { .thread_bytes = thread_bytes };
	struct cuda_ord ord;
	int rc;

	*growth = (struct local_growth){ .is_growing = false };
	if (!counts() || !gpu_cuda_current(&ord, &use.ctx) || !device_by_ordinal(ord, &use.dev))
		return CUDA_SUCCESS;
	enter_use(use.dev);
	use.threads = thread_bytes > LOCAL_STACK_BYTES ? first_launch_resident_threads(ord) : 0;
	rc = local_reserve(growth, &use, handle);
	if (rc == -EDQUOT && charge_ask_card(use.dev))
		rc = local_reserve(growth, &use, handle);
	return rc < 0 ? enter_refused(rc, use.dev, growth->bytes) : CUDA_SUCCESS;
}

/*
 * The first launch of a library's kernel in a context brings the library there, as a question for
 * its function does: so that is asked, and what passes the limit is refused as the driver refuses
 * what the card has no memory for.
 */
static CUresult let_in_library(CUfunction handle)
{
	CUlibrary library = (CUlibrary)(uintptr_t)function_owner(handle);
	CUfunction function;
	struct relaxed before;
	struct overhead o;
	const void *ctx;
	struct cuda_ord ord;
	CUresult res;

	if (!library || !real.cuKernelGetFunction || !gpu_cuda_current(&ord, &ctx) ||
	    library_is_in(library, ctx, LIBRARY_CODE))
		return CUDA_SUCCESS;
	res = overhead_begin_library(&o, library, LIBRARY_CODE);
	if (res != CUDA_SUCCESS)
		return res;
	before = relaxed_begin();
	res = GATE_CALL(real.cuKernelGetFunction(&function, (CUkernel)(void *)handle));
	relaxed_end(before);
	if (res == CUDA_SUCCESS)
		return overhead_finish_library(&o, library, LIBRARY_CODE, res);
	/* What is wrong with it the launch says. */
	overhead_cancel(&o);
	return CUDA_SUCCESS;
}

/* As that of a function, with the code of its module. */
static CUresult let_in_module(CUfunction function)
{
	CUmodule module = (CUmodule)(uintptr_t)function_owner(function);
	struct module_facts facts;
	struct relaxed before;
	struct code code;
	uint32_t bytes;
	CUresult res;

	/* What is the library's own was let in with its kernel. */
	if (!module || !module_find(module, &facts) || facts.has_code)
		return CUDA_SUCCESS;
	if (!facts.is_refused && is_loaded(function)) {
		module_came(module);
		return CUDA_SUCCESS;
	}
	res = code_begin(&code, module);
	if (res != CUDA_SUCCESS)
		return res;
	before = relaxed_begin();
	if (real.cuFuncLoad)
		res = ROOM_CALL_HERE(0, real.cuFuncLoad(function));
	else if (!ask_function(function, &bytes))
		res = CUDA_ERROR_NOT_FOUND;
	relaxed_end(before);
	if (res == CUDA_SUCCESS)
		return code_finish(&code, res);
	code_finish(&code, res);
	return CUDA_SUCCESS;
}

CUresult first_launch_let_in(CUfunction handle)
{
	if (!handle || !counts())
		return CUDA_SUCCESS;
	return function_kind(handle) == FUNCTION_KERNEL ? let_in_library(handle) :
							  let_in_module(handle);
}

CUresult first_launch_let_in_at(CUfunction handle, CUcontext ctx)
{
	bool has_visited = visit_begin(ctx);
	CUresult res = first_launch_let_in(handle);

	visit_end(has_visited);
	return res;
}

CUresult first_launch_reserve_at(struct local_growth *growth, uint32_t thread_bytes,
				 const void *handle, CUcontext ctx)
{
	bool has_visited = visit_begin(ctx);
	CUresult res = first_launch_reserve(growth, thread_bytes, handle);

	visit_end(has_visited);
	return res;
}

bool first_launch_thread_bytes_at(CUfunction handle, CUcontext ctx, uint32_t *out_bytes)
{
	bool has_visited = visit_begin(ctx);
	bool is_known = first_launch_thread_bytes(handle, out_bytes);

	visit_end(has_visited);
	return is_known;
}

CUcontext first_launch_context_of(CUstream stream)
{
	return stream_key_is_default(stream) ? NULL : visit_stream_context(stream);
}

/*
 * A kernel is launched in the context of its stream, whichever is current. NULL: in the current
 * one.
 */
static CUcontext place_of(CUfunction function, CUstream stream)
{
	return function_kind(function) == FUNCTION_KERNEL ? first_launch_context_of(stream) : NULL;
}

/* In the current context. */
static CUresult begin(struct first_launch *f, CUfunction function)
{
	uint32_t thread_bytes;
	struct cuda_ord ord;
	const void *ctx;
	CUresult res;

	if (gpu_cuda_current(&ord, &ctx) && function_has_place(function, ctx))
		return CUDA_SUCCESS;
	res = first_launch_let_in(function);
	if (res != CUDA_SUCCESS)
		return res;
	if (!first_launch_thread_bytes(function, &thread_bytes))
		return CUDA_SUCCESS;
	return first_launch_reserve(&f->growth, thread_bytes, function);
}

CUresult first_launch_begin(struct first_launch *f, CUfunction function, CUstream stream,
			    bool is_captured)
{
	bool has_visited;
	CUresult res;

	*f = (struct first_launch){ .is_captured = is_captured };
	if (!counts())
		return CUDA_SUCCESS;
	has_visited = visit_begin(place_of(function, stream));
	res = begin(f, function);
	visit_end(has_visited);
	return res;
}

bool first_launch_is_over(CUfunction function, CUstream stream)
{
	const void *ctx;
	struct cuda_ord ord;

	if (!function_any() || function_is_settled(function))
		return true;
	ctx = place_of(function, stream);
	return (ctx || gpu_cuda_current(&ord, &ctx)) && function_has_place(function, ctx);
}

void first_launch_finish(struct first_launch *f, CUresult res)
{
	if (res != CUDA_SUCCESS)
		local_finish(&f->growth, LOCAL_FAILED);
	else
		local_finish(&f->growth, f->is_captured ? LOCAL_PERHAPS : LOCAL_GREW);
}
