#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_green.h"
#include "cuda_kernel.h"
#include "cuda_launch.h"
#include "cuda_limit.h"
#include "cuda_module.h"
#include "cuda_object.h"
#include "cuda_stream.h"
#include "cuda_work.h"

enum { THREADS_PER_BLOCK = 1024, BLOCK_Z = 64, GRID_X = 2147483647, GRID_YZ = 65535 };
enum { THREADS_PER_SM = 2048 };

static CUresult run_launch(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	return work->launch.kernel->run(ctx, turn, work->launch.param);
}

static const struct cuda_work_ops launch_ops = { .node_type = CU_GRAPH_NODE_TYPE_KERNEL,
						 .needs_turn = true,
						 .run = run_launch };

static bool is_shape_valid(const struct cuda_launch *l)
{
	if (!l->grid[0] || !l->grid[1] || !l->grid[2] || !l->block[0] || !l->block[1] ||
	    !l->block[2])
		return false;
	if (l->grid[0] > GRID_X || l->grid[1] > GRID_YZ || l->grid[2] > GRID_YZ)
		return false;
	if (l->block[0] > THREADS_PER_BLOCK || l->block[1] > THREADS_PER_BLOCK ||
	    l->block[2] > BLOCK_Z)
		return false;
	return (uint64_t)l->block[0] * l->block[1] * l->block[2] <= THREADS_PER_BLOCK;
}

/* Blocks of a cooperative launch must all be resident at once. */
static bool is_resident(const struct cuda_launch *l, const struct CUctx_st *ctx)
{
	uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
	uint64_t per_sm = THREADS_PER_SM / ((threads + 31) / 32 * 32);

	if (per_sm > 32)
		per_sm = 32;
	return (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] <=
	       per_sm * (l->sms ? l->sms : cuda_device_get(ctx->dev)->sms);
}

/* Finds the parameter buffer in the `extra` list. */
static bool find_buffer(void **extra, const char **out_buffer, size_t *out_bytes)
{
	const char *buffer = NULL;
	const size_t *bytes = NULL;

	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = extra[1];
		else
			return false;
	}
	if (!buffer || !bytes)
		return false;
	*out_buffer = buffer;
	*out_bytes = *bytes;
	return true;
}

static CUresult read_params(const struct cuda_launch *l, const struct cuda_kernel *kernel,
			    uint64_t *out_param)
{
	const char *buffer = NULL;
	size_t bytes = 0;

	if (l->params && l->extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (l->extra && !find_buffer(l->extra, &buffer, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (kernel->params == 0)
		return CUDA_SUCCESS;
	if (!l->params && (!buffer || bytes < cuda_kernel_params_bytes(kernel)))
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < kernel->params; i++) {
		const void *value = l->params ? l->params[i] :
						buffer + cuda_kernel_param_offset(kernel, i);

		if (!value)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(&out_param[i], value, (size_t)kernel->param_bytes[i]);
	}
	return CUDA_SUCCESS;
}

CUresult cuda_launch_work(const struct cuda_launch *launch, struct CUctx_st *ctx,
			  struct cuda_work **out_work)
{
	struct cuda_work *work;
	struct CUfunc_st *func;
	CUresult res = cuda_function_find(launch->func, ctx, &func);

	if (res != CUDA_SUCCESS)
		return res;
	if (!is_shape_valid(launch) ||
	    launch->shared_bytes > (unsigned)func->max_dynamic_shared_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (launch->is_cooperative && !is_resident(launch, ctx))
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	work = cuda_work_new(&launch_ops);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->launch.kernel = func->kernel;
	work->launch.func = launch->func;
	work->launch.ctx = ctx;
	work->launch.shared_bytes = launch->shared_bytes;
	work->launch.local_bytes = cuda_function_local_bytes(func);
	work->launch.calls = func->module->image->calls;
	memcpy(work->launch.grid, launch->grid, sizeof(launch->grid));
	memcpy(work->launch.block, launch->block, sizeof(launch->block));
	res = read_params(launch, func->kernel, work->launch.param);
	if (res != CUDA_SUCCESS) {
		cuda_work_delete(work);
		return res;
	}
	*out_work = work;
	return CUDA_SUCCESS;
}

static CUresult launch_on(enum cuda_id id, struct cuda_launch *launch, CUstream handle,
			  enum stream_default form)
{
	struct CUstream_st *stream;
	struct cuda_work *work;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, &stream);
	/* a kernel goes to its stream's context, a function has its own */
	if (res == CUDA_SUCCESS && cuda_object_is(OBJECT_KERNEL, launch->func))
		ctx = stream->ctx;
	if (res == CUDA_SUCCESS && stream->ctx != ctx)
		res = CUDA_ERROR_INVALID_HANDLE;
	if (res == CUDA_SUCCESS) {
		launch->sms = stream->green ? stream->green->sms : 0;
		res = cuda_launch_work(launch, ctx, &work);
	}
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	if (!stream->capture)
		res = cuda_limit_grow(ctx, work->launch.local_bytes, work->launch.calls);
	if (res != CUDA_SUCCESS) {
		cuda_work_delete(work);
		return cuda_call_end(res);
	}
	return cuda_call_end(cuda_stream_submit(stream, work));
}

CUresult cuLaunchKernel(CUfunction func, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared_bytes, CUstream stream,
			void **params, void **extra)
{
	struct cuda_launch l = { func,
				 { grid_x, grid_y, grid_z },
				 { block_x, block_y, block_z },
				 shared_bytes,
				 params,
				 extra,
				 false,
				 0 };

	return launch_on(CUDA_ID_cuLaunchKernel, &l, stream, DEFAULT_LEGACY);
}

CUresult cuLaunchKernel_ptsz(CUfunction func, unsigned int grid_x, unsigned int grid_y,
			     unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			     unsigned int block_z, unsigned int shared_bytes, CUstream stream,
			     void **params, void **extra)
{
	struct cuda_launch l = { func,
				 { grid_x, grid_y, grid_z },
				 { block_x, block_y, block_z },
				 shared_bytes,
				 params,
				 extra,
				 false,
				 0 };

	return launch_on(CUDA_ID_cuLaunchKernel_ptsz, &l, stream, DEFAULT_PER_THREAD);
}

CUresult cuLaunchCooperativeKernel(CUfunction func, unsigned int grid_x, unsigned int grid_y,
				   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
				   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
				   void **params)
{
	struct cuda_launch l = { func,
				 { grid_x, grid_y, grid_z },
				 { block_x, block_y, block_z },
				 shared_bytes,
				 params,
				 NULL,
				 true,
				 0 };

	return launch_on(CUDA_ID_cuLaunchCooperativeKernel, &l, stream, DEFAULT_LEGACY);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction func, unsigned int grid_x, unsigned int grid_y,
					unsigned int grid_z, unsigned int block_x,
					unsigned int block_y, unsigned int block_z,
					unsigned int shared_bytes, CUstream stream, void **params)
{
	struct cuda_launch l = { func,
				 { grid_x, grid_y, grid_z },
				 { block_x, block_y, block_z },
				 shared_bytes,
				 params,
				 NULL,
				 true,
				 0 };

	return launch_on(CUDA_ID_cuLaunchCooperativeKernel_ptsz, &l, stream, DEFAULT_PER_THREAD);
}

static bool is_cooperative(const CUlaunchConfig *config)
{
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
			return config->attrs[i].value.cooperative != 0;
	return false;
}

static CUresult launch_ex(enum cuda_id id, const CUlaunchConfig *config, CUfunction func,
			  void **params, void **extra, enum stream_default form)
{
	struct cuda_launch l;

	if (!cuda_call_is_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	l = (struct cuda_launch){
		.func = func,
		.grid = { config->gridDimX, config->gridDimY, config->gridDimZ },
		.block = { config->blockDimX, config->blockDimY, config->blockDimZ },
		.shared_bytes = config->sharedMemBytes,
		.params = params,
		.extra = extra,
		.is_cooperative = is_cooperative(config),
	};
	return launch_on(id, &l, config->hStream, form);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction func, void **params,
			  void **extra)
{
	return launch_ex(CUDA_ID_cuLaunchKernelEx, config, func, params, extra, DEFAULT_LEGACY);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction func, void **params,
			       void **extra)
{
	return launch_ex(CUDA_ID_cuLaunchKernelEx_ptsz, config, func, params, extra,
			 DEFAULT_PER_THREAD);
}
