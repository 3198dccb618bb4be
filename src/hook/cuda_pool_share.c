/* Pools that several processes use: what is given of one is held for those who had it. */
#include "core/given.h"
#include "core/handed.h"
#include "core/taken.h"
#include "drv/gpu_cuda.h"
#include "hook/gated.h"

CUresult hook_cuMemPoolExportToShareableHandle(void *out_handle, CUmemoryPool pool,
					       CUmemAllocationHandleType type,
					       unsigned long long flags)
{
	if (!ENTER_HAS(cuMemPoolExportToShareableHandle))
		return enter_missing();
	/* Its descriptor holds nothing when the pool has ended. */
	if (init_is_member())
		handed_export();
	return GATE_CALL(real.cuMemPoolExportToShareableHandle(out_handle, pool, type, flags));
}

CUresult hook_cuMemPoolImportFromShareableHandle(CUmemoryPool *out_pool, void *handle,
						 CUmemAllocationHandleType type,
						 unsigned long long flags)
{
	if (!ENTER_HAS(cuMemPoolImportFromShareableHandle))
		return enter_missing();
	if (init_is_member())
		handed_import();
	return GATE_CALL(real.cuMemPoolImportFromShareableHandle(out_pool, handle, type, flags));
}

/* The piece that begins there; false where the driver knows none. */
static bool find_piece(CUdeviceptr addr, struct dev *out_dev, size_t *out_bytes)
{
	CUdeviceptr base;

	return real.cuMemGetAddressRange_v2 && gpu_cuda_device_of(addr, out_dev) &&
	       real.cuMemGetAddressRange_v2(&base, out_bytes, addr) == CUDA_SUCCESS && base == addr;
}

CUresult hook_cuMemPoolExportPointer(CUmemPoolPtrExportData *out_data, CUdeviceptr addr)
{
	struct given_piece *piece;
	CUmemoryPool pool = NULL;
	size_t bytes;
	struct dev dev;
	CUresult res;
	int rc;

	if (!ENTER_HAS(cuMemPoolExportPointer))
		return enter_missing();
	/* Of an address where nothing is the driver gives nothing. */
	if (!init_is_member() || !find_piece(addr, &dev, &bytes))
		return GATE_CALL(real.cuMemPoolExportPointer(out_data, addr));
	piece = given_prepare(addr, bytes);
	if (!piece)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!real.cuPointerGetAttribute ||
	    real.cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, addr) !=
		    CUDA_SUCCESS)
		pool = NULL;
	rc = given_enter(piece, pool, dev);
	if (rc < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = GATE_CALL(real.cuMemPoolExportPointer(out_data, addr));
	if (res != CUDA_SUCCESS && rc > 0)
		given_undo(addr);
	return res;
}

/* What was imported, or the driver's answer where it may not be. */
static CUresult take(CUmemoryPool pool, CUdeviceptr addr)
{
	struct dev dev = { 0 };
	size_t bytes = 0;

	/* Without a size nobody knows what it is; that is said so. */
	find_piece(addr, &dev, &bytes);
	if (taken_enter(pool, dev, addr, bytes) == 0)
		return CUDA_SUCCESS;
	if (real.cuMemFree_v2)
		GATE_CALL(real.cuMemFree_v2(addr));
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult hook_cuMemPoolImportPointer(CUdeviceptr *out_addr, CUmemoryPool pool,
				     CUmemPoolPtrExportData *data)
{
	CUresult res;

	if (!ENTER_HAS(cuMemPoolImportPointer))
		return enter_missing();
	if (!init_is_member() || !out_addr)
		return GATE_CALL(real.cuMemPoolImportPointer(out_addr, pool, data));
	taken_begin();
	res = GATE_CALL(real.cuMemPoolImportPointer(out_addr, pool, data));
	if (res == CUDA_SUCCESS)
		res = take(pool, *out_addr);
	taken_over();
	return res;
}
