/* Physical memory by handle, and its mappings. */
#include "hook/enter.h"

/* True when the handle's memory is on a device, *out_ord. Host locations are free. */
static bool is_on_device(const CUmemAllocationProp *prop, CUdevice *out_ord)
{
	*out_ord = prop->location.id;
	return prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult hook_cuMemCreate(CUmemGenericAllocationHandle *out_handle, size_t size_bytes,
			  const CUmemAllocationProp *prop, unsigned long long flags)
{
	enum enter what = ENTER_FORWARD;
	struct charge c;
	struct dev dev;
	CUdevice ord;
	CUresult res;
	int rc;

	if (!ENTER_HAS(cuMemCreate))
		return enter_missing();
	if (out_handle && size_bytes && prop && is_on_device(prop, &ord))
		what = enter_ordinal(ord, &dev);
	if (what == ENTER_REFUSE)
		return enter_refusal();
	if (what == ENTER_FORWARD)
		return real.cuMemCreate(out_handle, size_bytes, prop, flags);
	rc = charge_reserve_handle(&c, dev, size_bytes);
	if (rc < 0)
		return enter_refused(rc, dev, size_bytes);
	res = real.cuMemCreate(out_handle, size_bytes, prop, flags);
	if (res == CUDA_SUCCESS)
		charge_commit_handle(&c, *out_handle);
	else
		charge_cancel(&c);
	return res;
}

CUresult hook_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct handle_node *node;
	CUresult res;
	bool is_ours;

	if (!ENTER_HAS(cuMemRelease))
		return enter_missing();
	if (!init_is_member())
		return real.cuMemRelease(handle);
	charge_begin();
	is_ours = handle_release(handle, &node);
	res = real.cuMemRelease(handle);
	if (is_ours && res == CUDA_SUCCESS)
		charge_freed_handle(handle_released(node));
	else if (is_ours)
		charge_freed_handle(handle_release_failed(handle, node));
	charge_over();
	return res;
}

CUresult hook_cuMemMap(CUdeviceptr addr, size_t size_bytes, size_t offset_bytes,
		       CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct handle_node *node;
	CUresult res;

	if (!ENTER_HAS(cuMemMap))
		return enter_missing();
	if (!init_is_member())
		return real.cuMemMap(addr, size_bytes, offset_bytes, handle, flags);
	node = handle_prepare();
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = real.cuMemMap(addr, size_bytes, offset_bytes, handle, flags);
	if (res == CUDA_SUCCESS)
		charge_freed_handle(handle_map(node, addr, size_bytes, handle));
	else
		handle_discard(node);
	return res;
}

CUresult hook_cuMemUnmap(CUdeviceptr addr, size_t size_bytes)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };
	struct handle_node *list;
	CUresult res;

	if (!ENTER_HAS(cuMemUnmap))
		return enter_missing();
	if (!init_is_member())
		return real.cuMemUnmap(addr, size_bytes);
	charge_begin();
	list = handle_unmap(addr, size_bytes);
	res = real.cuMemUnmap(addr, size_bytes);
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
	struct handle_node *node;
	CUresult res;

	if (!ENTER_HAS(cuMemRetainAllocationHandle))
		return enter_missing();
	if (!init_is_member() || !out_handle)
		return real.cuMemRetainAllocationHandle(out_handle, addr);
	node = handle_prepare();
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = real.cuMemRetainAllocationHandle(out_handle, addr);
	/*
	 * The driver answers with the handle's own value, one reference more (docs/real-gpu.md); the
	 * memory lives on by it even when every handle before was released.
	 */
	if (res == CUDA_SUCCESS)
		handle_retain(node, *out_handle, (uint64_t)(uintptr_t)addr);
	else
		handle_discard(node);
	return res;
}
