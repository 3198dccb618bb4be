/*
 * What an address belongs to. An object answers as what cuMemAlloc gives, wherever its bytes are;
 * what the driver says of the mapping behind it is not asked, but for what it can do.
 */
#include "core/object_pin.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_object.h"
#include "hook/gated.h"
#include "hook/ipc_export.h"
#include "hook/movable.h"

#include <errno.h>
#include <string.h>

/* Numbers of objects do not meet those that the driver gives, which count up from 1. */
#define ID_BASE (UINT64_C(1) << 62)

/* An attribute's value, as many bytes as its type has. */
struct value {
	uint64_t wide;
	size_t bytes;
};

static struct value wide(uint64_t value)
{
	return (struct value){ value, sizeof(uint64_t) };
}

static struct value narrow(unsigned value)
{
	return (struct value){ value, sizeof(uint32_t) };
}

/* What an object says of itself; false for what it does not know. */
static bool tell(const struct object_info *o, CUdeviceptr addr, CUpointer_attribute what,
		 struct value *out)
{
	struct cuda_ord ord = { 0 };

	switch ((int)what) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*out = wide((uint64_t)(uintptr_t)o->ctx);
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*out = narrow(CU_MEMORYTYPE_DEVICE);
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*out = wide(addr);
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		device_ordinal(o->dev, &ord);
		*out = narrow((unsigned)ord.v);
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*out = wide(ID_BASE + o->id);
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*out = wide(o->addr);
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*out = wide(o->bytes);
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*out = wide(0);
		return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*out = narrow(o->is_sync);
		return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*out = narrow(false);
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*out = narrow(ipc_export_can(o->dev));
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*out = narrow(true);
		return true;
	default:
		return false;
	}
}

/* What others do with the memory behind it needs it to stay there. */
static bool needs_pin(CUpointer_attribute what)
{
	return what == CU_POINTER_ATTRIBUTE_P2P_TOKENS ||
	       what == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE;
}

/*
 * An attribute that an object has not is that of memory without it. One that the driver says of
 * the memory behind it, it says of device memory, and of none where that cannot be kept so.
 */
static CUdeviceptr asked_address(const struct object_info *o, CUdeviceptr addr,
				 CUpointer_attribute what)
{
	if (!o || what == CU_POINTER_ATTRIBUTE_HOST_POINTER)
		return MOVABLE_NOWHERE;
	/* What cannot stay there is not told of as if it did. */
	return needs_pin(what) && object_pin(o->addr, o->id) < 0 ? MOVABLE_NOWHERE : addr;
}

CUresult hook_cuPointerGetAttribute(void *out_data, CUpointer_attribute what, CUdeviceptr addr)
{
	struct object_info o;
	struct value v;
	bool is_object;

	if (!ENTER_HAS(cuPointerGetAttribute))
		return enter_missing();
	if (!movable_has(addr))
		return real.cuPointerGetAttribute(out_data, what, addr);
	is_object = object_find(addr, &o);
	if (!out_data || !is_object || !tell(&o, addr, what, &v))
		return real.cuPointerGetAttribute(out_data, what,
						  asked_address(is_object ? &o : NULL, addr, what));
	memcpy(out_data, &v.wide, v.bytes);
	return CUDA_SUCCESS;
}

/* Of an object: one after the other, as the driver would together. */
static CUresult tell_all(const struct object_info *o, unsigned int count,
			 CUpointer_attribute *whats, void **out_data, CUdeviceptr addr)
{
	for (unsigned i = 0; i < count; i++) {
		struct value v;
		CUresult res;

		if (out_data[i] && tell(o, addr, whats[i], &v)) {
			memcpy(out_data[i], &v.wide, v.bytes);
			continue;
		}
		res = real.cuPointerGetAttributes(1, &whats[i], &out_data[i],
						  asked_address(o, addr, whats[i]));
		if (res != CUDA_SUCCESS)
			return res;
	}
	return CUDA_SUCCESS;
}

CUresult hook_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *whats,
				     void **out_data, CUdeviceptr addr)
{
	struct object_info o;

	if (!ENTER_HAS(cuPointerGetAttributes))
		return enter_missing();
	if (!movable_has(addr))
		return real.cuPointerGetAttributes(count, whats, out_data, addr);
	if (!count || !whats || !out_data || !object_find(addr, &o))
		return real.cuPointerGetAttributes(count, whats, out_data, MOVABLE_NOWHERE);
	return tell_all(&o, count, whats, out_data, addr);
}

/*
 * The driver keeps no such promise for memory that is mapped by handle. It does so for all copies
 * of a context: that is set, which is more than was asked for.
 */
static CUresult set_sync(const struct object_info *o, bool is_sync)
{
	CUresult res = is_sync ? gpu_object_sync_memops(o->ctx) : CUDA_SUCCESS;
	int rc = res == CUDA_SUCCESS && is_sync ? object_pin(o->addr, o->id) : 0;

	if (rc < 0)
		res = rc == -ENOENT ? CUDA_ERROR_INVALID_VALUE : status_cuda(rc);
	if (res == CUDA_SUCCESS)
		object_pin_set_sync(o->addr, o->id, is_sync);
	return res;
}

CUresult hook_cuPointerSetAttribute(const void *value, CUpointer_attribute what, CUdeviceptr addr)
{
	struct object_info o;

	if (!ENTER_HAS(cuPointerSetAttribute))
		return enter_missing();
	if (!movable_has(addr))
		return GATE_CALL(real.cuPointerSetAttribute(value, what, addr));
	if (!value || what != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !object_find(addr, &o))
		return GATE_CALL(real.cuPointerSetAttribute(value, what, MOVABLE_NOWHERE));
	return set_sync(&o, *(const int *)value != 0);
}

/* Whether there is a context, and both outputs missing, is the driver's to say. */
CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *out_base, size_t *out_bytes, CUdeviceptr addr)
{
	struct object_info o;
	struct cuda_ord ord;
	const void *ctx;

	if (!ENTER_HAS(cuMemGetAddressRange_v2))
		return enter_missing();
	if (!movable_has(addr))
		return real.cuMemGetAddressRange_v2(out_base, out_bytes, addr);
	if ((!out_base && !out_bytes) || !gpu_cuda_current(&ord, &ctx) || !object_find(addr, &o))
		return real.cuMemGetAddressRange_v2(out_base, out_bytes, MOVABLE_NOWHERE);
	if (out_base)
		*out_base = o.addr;
	if (out_bytes)
		*out_bytes = o.bytes;
	return CUDA_SUCCESS;
}
