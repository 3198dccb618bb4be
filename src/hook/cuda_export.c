/* Descriptors of device memory: they hold it wherever they go (core/lent.h). */
#include "base/bytes.h"
#include "core/handed.h"
#include "core/lending.h"
#include "core/object_pin.h"
#include "core/pool.h"
#include "drv/gpu_cuda.h"
#include "hook/gated.h"
#include "hook/movable.h"

#include <errno.h>

CUresult hook_cuMemExportToShareableHandle(void *out_shareable, CUmemGenericAllocationHandle handle,
					   CUmemAllocationHandleType type, unsigned long long flags)
{
	struct lending lending = { 0 };
	CUresult res = CUDA_ERROR_OUT_OF_MEMORY;

	if (!ENTER_HAS(cuMemExportToShareableHandle))
		return enter_missing();
	if (!init_is_member() || !out_shareable)
		return GATE_CALL(
			real.cuMemExportToShareableHandle(out_shareable, handle, type, flags));
	handed_export();
	charge_begin();
	if (lending_begin_handle(&lending, handle) == 0)
		res = GATE_CALL(
			real.cuMemExportToShareableHandle(out_shareable, handle, type, flags));
	if (res == CUDA_SUCCESS && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		lending_given(&lending, *(int *)out_shareable);
	else if (res == CUDA_SUCCESS)
		lending_named(&lending);
	lending_end(&lending);
	charge_over();
	return res;
}

/*
 * Memory of an object that others reach stays where it is. What leaves the object is refused by the
 * driver, as it refuses an address where nothing is.
 */
static int begin_object(struct lending *lending, CUdeviceptr *inout_addr, size_t bytes)
{
	struct object_info o;

	if (!object_find(*inout_addr, &o) || bytes > o.addr + o.bytes - *inout_addr ||
	    object_pin(o.addr, o.id) < 0) {
		*inout_addr = MOVABLE_NOWHERE;
		return 0;
	}
	return lending_begin_address(lending, o.addr, o.dev,
				     bytes_round_up(o.bytes, TRACK_BLOCK_BYTES), false);
}

/* A graph's memory has none, nor has that of cuMemAlloc (docs/real-gpu.md). */
static bool has_pool(CUdeviceptr addr)
{
	CUmemoryPool pool = NULL;

	return !real.cuPointerGetAttribute ||
	       real.cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, addr) !=
		       CUDA_SUCCESS ||
	       pool;
}

/*
 * What is mapped there, or the allocation. Of a pool's or a graph's it is the whole steps that its
 * memory grew by (docs/real-gpu.md).
 */
static int begin_range(struct lending *lending, CUdeviceptr addr, size_t bytes)
{
	size_t base_bytes = 0;
	CUdeviceptr base;
	struct dev dev;
	int rc = lending_begin_range(lending, addr, bytes);

	if (rc != -ENOENT)
		return rc;
	if (!real.cuMemGetAddressRange_v2 || !gpu_cuda_device_of(addr, &dev) ||
	    real.cuMemGetAddressRange_v2(&base, &base_bytes, addr) != CUDA_SUCCESS)
		return 0;
	base_bytes = bytes_round_up(base + base_bytes, POOL_STEP_BYTES) -
		     base / POOL_STEP_BYTES * POOL_STEP_BYTES;
	return lending_begin_address(lending, base, dev, base_bytes, !has_pool(base));
}

CUresult hook_cuMemGetHandleForAddressRange(void *out_handle, CUdeviceptr addr, size_t bytes,
					    CUmemRangeHandleType type, unsigned long long flags)
{
	struct lending lending = { 0 };
	CUresult res = CUDA_ERROR_OUT_OF_MEMORY;
	int rc;

	if (!ENTER_HAS(cuMemGetHandleForAddressRange))
		return enter_missing();
	if (!init_is_member() || !out_handle)
		return GATE_CALL(
			real.cuMemGetHandleForAddressRange(out_handle, addr, bytes, type, flags));
	handed_export();
	/* Before the gate and the change: it may take a move. */
	rc = movable_has(addr) ? begin_object(&lending, &addr, bytes) : 0;
	charge_begin();
	if (rc == 0 && !lending.count && addr != MOVABLE_NOWHERE)
		rc = begin_range(&lending, addr, bytes);
	if (rc == 0)
		res = GATE_CALL(
			real.cuMemGetHandleForAddressRange(out_handle, addr, bytes, type, flags));
	if (res == CUDA_SUCCESS && type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
		lending_given(&lending, *(int *)out_handle);
	lending_end(&lending);
	charge_over();
	return res;
}
