#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_module.h"

enum { THREADS_PER_SM = 2048, BLOCKS_PER_SM = 32, THREADS_PER_BLOCK = 1024, WARP = 32 };
enum { SHARED_PER_SM = 233472, SHARED_RESERVED = 1024, REGISTERS = 16, REGISTERS_PER_SM = 65536 };

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* How many blocks of this size one multiprocessor holds. */
static int blocks_per_sm(int block, size_t shared_bytes)
{
	int threads = (block + WARP - 1) / WARP * WARP;
	size_t shared = shared_bytes + SHARED_RESERVED;
	int blocks = least(BLOCKS_PER_SM, THREADS_PER_SM / threads);

	blocks = least(blocks, REGISTERS_PER_SM / (REGISTERS * threads));
	return shared > SHARED_PER_SM ? 0 : least(blocks, (int)(SHARED_PER_SM / shared));
}

/* Starts a question about a function of the current context. */
static CUresult begin(enum cuda_id id, CUfunction handle, struct CUfunc_st **out_func)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_function_find(handle, ctx, out_func);
	return res == CUDA_SUCCESS ? res : cuda_call_end(res);
}

static CUresult max_active(enum cuda_id id, int *out_blocks, CUfunction handle, int block,
			   size_t shared_bytes, unsigned flags)
{
	struct CUfunc_st *func;
	CUresult res = begin(id, handle, &func);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_blocks || block <= 0 || (flags & ~1u))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_blocks = block > THREADS_PER_BLOCK ? 0 : blocks_per_sm(block, shared_bytes);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out_blocks, CUfunction func, int block,
						     size_t shared_bytes)
{
	return max_active(CUDA_ID_cuOccupancyMaxActiveBlocksPerMultiprocessor, out_blocks, func,
			  block, shared_bytes, 0);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out_blocks, CUfunction func,
							      int block, size_t shared_bytes,
							      unsigned int flags)
{
	return max_active(CUDA_ID_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, out_blocks,
			  func, block, shared_bytes, flags);
}

/* The block size with the most threads resident; of equal ones the largest. */
static CUresult max_potential(enum cuda_id id, int *out_grid, int *out_block, CUfunction handle,
			      CUoccupancyB2DSize shared_for_block, size_t shared_bytes, int most)
{
	int best = 0, best_threads = -1;
	struct CUfunc_st *func;
	CUresult res = begin(id, handle, &func);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_grid || !out_block || most < 0)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (most == 0 || most > THREADS_PER_BLOCK)
		most = THREADS_PER_BLOCK;
	for (int block = most; block > 0; block -= block % WARP ? block % WARP : WARP) {
		size_t shared = shared_for_block ? shared_for_block(block) : shared_bytes;
		int threads = blocks_per_sm(block, shared) * block;

		if (threads > best_threads) {
			best_threads = threads;
			best = block;
		}
	}
	*out_block = best;
	*out_grid = best_threads / best * (int)cuda_device_get(func->module->ctx->dev)->sms;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *out_grid, int *out_block, CUfunction func,
					  CUoccupancyB2DSize shared_for_block, size_t shared_bytes,
					  int most)
{
	return max_potential(CUDA_ID_cuOccupancyMaxPotentialBlockSize, out_grid, out_block, func,
			     shared_for_block, shared_bytes, most);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *out_grid, int *out_block, CUfunction func,
						   CUoccupancyB2DSize shared_for_block,
						   size_t shared_bytes, int most,
						   unsigned int flags)
{
	if (flags & ~1u)
		return cuda_call_is_ready() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
	return max_potential(CUDA_ID_cuOccupancyMaxPotentialBlockSizeWithFlags, out_grid, out_block,
			     func, shared_for_block, shared_bytes, most);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *out_bytes, CUfunction handle, int blocks,
						 int block)
{
	struct CUfunc_st *func;
	CUresult res = begin(CUDA_ID_cuOccupancyAvailableDynamicSMemPerBlock, handle, &func);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_bytes || blocks <= 0 || block <= 0 || block > THREADS_PER_BLOCK ||
	    blocks > blocks_per_sm(block, 0))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_bytes = (size_t)(SHARED_PER_SM / blocks - SHARED_RESERVED);
	return cuda_call_end(CUDA_SUCCESS);
}
