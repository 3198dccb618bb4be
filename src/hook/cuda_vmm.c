/* Physical memory by handle, and its mappings. */
#include "core/gate.h"
#include "core/handed.h"
#include "core/still.h"
#include "hook/enter.h"
#include "hook/movable.h"
#include "hook/room.h"

#include <errno.h>

/*
 * An object is not memory by handle to the program, which cannot map there nor take away what is:
 * the driver answers as of memory of its own.
 */
static CUdeviceptr unless_object(CUdeviceptr addr)
{
	return movable_has(addr) ? MOVABLE_NOWHERE : addr;
}

/* True when the handle's memory is on a device, *out_ord. Host locations are free. */
static bool is_on_device(const CUmemAllocationProp *prop, CUdevice *out_ord)
{
	*out_ord = prop->location.id;
	return prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/*
 * What the driver says of a request without a look at the memory there is: it finds fault with the
 * arguments first, and asking for the granularity looks at them too.
 */
static CUresult judge(size_t size_bytes, const CUmemAllocationProp *prop, unsigned long long flags)
{
	size_t grain_bytes = TRACK_BLOCK_BYTES;
	CUresult res = CUDA_SUCCESS;

	if (real.cuMemGetAllocationGranularity)
		res = real.cuMemGetAllocationGranularity(&grain_bytes, prop,
							 CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (flags || (grain_bytes && size_bytes % grain_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return res;
}

/* Memory of the host takes nothing of a limit, but is known of (core/handle.h). */
static CUresult create_host(CUmemGenericAllocationHandle *out_handle, size_t size_bytes,
			    const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct handle_node *node = handle_prepare();
	CUmemGenericAllocationHandle handle;
	struct handle_freed stale;
	CUresult res;

	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	handle_expect_host();
	charge_begin();
	res = GATE_CALL(real.cuMemCreate(&handle, size_bytes, prop, flags));
	if (res == CUDA_SUCCESS) {
		handle_enter_host(node, handle, &stale);
		charge_freed_handle(stale);
		*out_handle = handle;
	} else {
		handle_unexpect_host();
		handle_discard(node);
	}
	charge_over();
	return res;
}

CUresult hook_cuMemCreate(CUmemGenericAllocationHandle *out_handle, size_t size_bytes,
			  const CUmemAllocationProp *prop, unsigned long long flags)
{
	enum enter what = ENTER_FORWARD;
	struct charge c;
	struct dev dev;
	CUmemGenericAllocationHandle handle;
	CUdevice ord;
	CUresult res;
	int rc;

	if (!ENTER_HAS(cuMemCreate))
		return enter_missing();
	if (out_handle && size_bytes && prop && is_on_device(prop, &ord))
		what = enter_ordinal(ord, &dev);
	if (what == ENTER_REFUSE)
		return enter_refusal();
	if (what == ENTER_FORWARD && out_handle && prop && !is_on_device(prop, &ord) &&
	    init_is_member())
		return create_host(out_handle, size_bytes, prop, flags);
	if (what == ENTER_FORWARD)
		return GATE_CALL(real.cuMemCreate(out_handle, size_bytes, prop, flags));
	rc = charge_reserve_handle(&c, dev, size_bytes);
	if (rc < 0) {
		res = judge(size_bytes, prop, flags);
		return res == CUDA_SUCCESS ? enter_refused(rc, dev, size_bytes) : res;
	}
	/* Nobody sees the handle before it is entered. */
	res = ROOM_CALL(dev, size_bytes, real.cuMemCreate(&handle, size_bytes, prop, flags));
	if (res != CUDA_SUCCESS) {
		charge_cancel(&c);
		return res;
	}
	charge_commit_handle(&c, handle);
	enter_use(dev);
	*out_handle = handle;
	return res;
}

CUresult hook_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct handle_node *node;
	CUresult res;

	if (!ENTER_HAS(cuMemRelease))
		return enter_missing();
	if (!init_is_member())
		return GATE_CALL(real.cuMemRelease(handle));
	charge_begin();
	node = handle_release(handle);
	res = GATE_CALL(real.cuMemRelease(handle));
	if (node)
		charge_freed_handle(res == CUDA_SUCCESS ? handle_released(node) :
							  handle_release_failed(node));
	charge_over();
	if (!node && res == CUDA_SUCCESS)
		charge_freed_unknown(0);
	return res;
}

CUresult hook_cuMemMap(CUdeviceptr addr, size_t size_bytes, size_t offset_bytes,
		       CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };
	struct handle_node *node;
	CUresult res;

	if (!ENTER_HAS(cuMemMap))
		return enter_missing();
	addr = unless_object(addr);
	if (!init_is_member())
		return GATE_CALL(real.cuMemMap(addr, size_bytes, offset_bytes, handle, flags));
	node = handle_prepare();
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	charge_begin();
	handle_use(node, handle);
	res = GATE_CALL(real.cuMemMap(addr, size_bytes, offset_bytes, handle, flags));
	if (res == CUDA_SUCCESS)
		handle_map(node, addr, size_bytes, freed_bytes);
	else
		charge_freed_handle(handle_unuse(node));
	charge_stale_handles(freed_bytes);
	charge_over();
	return res;
}

CUresult hook_cuMemUnmap(CUdeviceptr addr, size_t size_bytes)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };
	struct handle_node *list;
	CUresult res;

	if (!ENTER_HAS(cuMemUnmap))
		return enter_missing();
	addr = unless_object(addr);
	if (!init_is_member())
		return GATE_CALL(real.cuMemUnmap(addr, size_bytes));
	charge_begin();
	list = handle_unmap(addr, size_bytes);
	res = GATE_CALL(real.cuMemUnmap(addr, size_bytes));
	if (res == CUDA_SUCCESS)
		handle_unmapped(list, freed_bytes);
	else
		handle_unmap_failed(list, freed_bytes);
	charge_freed_handles(freed_bytes);
	charge_over();
	return res;
}

CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out_handle, void *addr)
{
	CUmemGenericAllocationHandle handle;
	struct handle_node *node;
	CUresult res;

	if (!ENTER_HAS(cuMemRetainAllocationHandle))
		return enter_missing();
	addr = (void *)(uintptr_t)unless_object((uint64_t)(uintptr_t)addr);
	if (!init_is_member() || !out_handle)
		return GATE_CALL(real.cuMemRetainAllocationHandle(out_handle, addr));
	node = handle_prepare();
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	charge_begin();
	handle_use_mapped(node, (uint64_t)(uintptr_t)addr);
	res = GATE_CALL(real.cuMemRetainAllocationHandle(&handle, addr));
	/*
	 * The driver answers with the handle's own value, one reference more (docs/real-gpu.md);
	 * the memory lives on by it even when every handle before was released.
	 */
	charge_freed_handle(res == CUDA_SUCCESS ? handle_retain(node, handle) : handle_unuse(node));
	charge_over();
	if (res == CUDA_SUCCESS)
		*out_handle = handle;
	return res;
}

/*
 * Memory of another process, or of this one by another handle: no call tells which. The driver's
 * figure does: what it grew by counts as overhead, so memory that this process was charged for, or
 * that only the other holds, is not counted twice.
 */
static bool enter_import(struct handle_node *node, CUmemGenericAllocationHandle handle,
			 struct dev *out_dev)
{
	CUmemAllocationProp prop;
	CUdevice ord;

	if (!real.cuMemGetAllocationPropertiesFromHandle ||
	    real.cuMemGetAllocationPropertiesFromHandle(&prop, handle) != CUDA_SUCCESS) {
		handle_discard(node);
		return false;
	}
	if (!is_on_device(&prop, &ord)) {
		handle_expect_host();
		handle_import_host(node, handle);
		return false;
	}
	if (!device_by_ordinal((struct cuda_ord){ ord }, out_dev)) {
		handle_discard(node);
		return false;
	}
	handle_import(node, handle, *out_dev);
	return true;
}

/*
 * 0, or -EDQUOT when what is held with an import passes the limit; *out_bytes is then what it took.
 */
static int check_import(struct dev dev, const uint64_t before_bytes[RATION_DEVICES],
			uint64_t *out_bytes)
{
	uint64_t doubt_bytes = still_reconcile(dev, QUOTA_MODULE);
	uint64_t now_bytes = quota_overhead(dev) + doubt_bytes;

	if (!still_is_over(dev, doubt_bytes) || now_bytes <= before_bytes[dev.v])
		return 0;
	*out_bytes = now_bytes - before_bytes[dev.v];
	return -EDQUOT;
}

CUresult hook_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out_handle,
					     void *shareable, CUmemAllocationHandleType type)
{
	uint64_t before_bytes[RATION_DEVICES], bytes;
	CUmemGenericAllocationHandle handle;
	struct handle_node *node;
	bool is_entered = false;
	struct dev dev;
	CUresult res;
	int rc;

	if (!ENTER_HAS(cuMemImportFromShareableHandle))
		return enter_missing();
	if (!out_handle || init_member() == INIT_PASS)
		return GATE_CALL(real.cuMemImportFromShareableHandle(out_handle, shareable, type));
	if (!init_is_member())
		return enter_refusal();
	node = handle_prepare();
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int d = 0; d < RATION_DEVICES; d++)
		before_bytes[d] = quota_overhead((struct dev){ d });
	handed_import();
	charge_begin();
	res = GATE_CALL(real.cuMemImportFromShareableHandle(&handle, shareable, type));
	if (res == CUDA_SUCCESS)
		is_entered = enter_import(node, handle, &dev);
	else
		handle_discard(node);
	charge_over();
	if (is_entered) {
		rc = check_import(dev, before_bytes, &bytes);
		if (rc < 0) {
			hook_cuMemRelease(handle);
			return enter_refused(rc, dev, bytes);
		}
	}
	if (res == CUDA_SUCCESS)
		*out_handle = handle;
	return res;
}

CUresult hook_cuMemSetAccess(CUdeviceptr addr, size_t size_bytes, const CUmemAccessDesc *desc,
			     size_t count)
{
	if (!ENTER_HAS(cuMemSetAccess))
		return enter_missing();
	return GATE_CALL(real.cuMemSetAccess(unless_object(addr), size_bytes, desc, count));
}

CUresult hook_cuMemGetAccess(unsigned long long *out_flags, const CUmemLocation *location,
			     CUdeviceptr addr)
{
	return ENTER_HAS(cuMemGetAccess) ?
		       real.cuMemGetAccess(out_flags, location, unless_object(addr)) :
		       enter_missing();
}

CUresult hook_cuMemAddressFree(CUdeviceptr addr, size_t size_bytes)
{
	return ENTER_HAS(cuMemAddressFree) ?
		       real.cuMemAddressFree(unless_object(addr), size_bytes) :
		       enter_missing();
}
