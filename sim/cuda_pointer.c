#include <string.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_handle.h"
#include "cuda_pool.h"
#include "cuda_range.h"
#include "cuda_vmm.h"

enum { INVALID_ORDINAL = -2 };

/* The value of one attribute, as many bytes as its type has. */
struct value {
	size_t bytes;
	union {
		uint64_t wide;
		int32_t narrow;
		void *pointer;
	};
};

static struct value wide(uint64_t value)
{
	return (struct value){ .bytes = sizeof(uint64_t), .wide = value };
}

static struct value narrow(int value)
{
	return (struct value){ .bytes = sizeof(int32_t), .narrow = value };
}

static struct value flag(bool value)
{
	return (struct value){ .bytes = sizeof(int32_t), .narrow = value };
}

static bool is_host_kind(const struct cuda_range *range)
{
	return range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED;
}

/* Mapped memory has the range of its reservation, everything else its own. */
static void range_of(const struct cuda_range *range, uint64_t *out_start, uint64_t *out_bytes)
{
	*out_start = range->start;
	*out_bytes = range->size_bytes;
	if (range->kind == RANGE_MAPPED)
		cuda_vmm_reservation(range->start, out_start, out_bytes);
}

static int access_of(const struct cuda_range *range)
{
	struct CUctx_st *ctx;

	if (cuda_context_current_any(&ctx) != CUDA_SUCCESS)
		return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
	if (cuda_range_is_accessible(ctx, range->start, 1, RANGE_WRITE))
		return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
	return cuda_range_is_accessible(ctx, range->start, 1, RANGE_READ) ?
		       CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ :
		       CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

/* What is asked about where the memory is. */
static CUresult get_place(const struct cuda_range *range, CUpointer_attribute attribute,
			  uint64_t address, struct value *out)
{
	bool is_host = range->dev < 0;

	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*out = wide((uint64_t)(range->kind == RANGE_POOL ? NULL : range->ctx));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*out = narrow(is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*out = wide(address);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*out = wide(address);
		return is_host_kind(range) || range->kind == RANGE_MANAGED ?
			       CUDA_SUCCESS :
			       CUDA_ERROR_INVALID_VALUE;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		/* Mapped host memory: of node 0, which is what is told. */
		*out = narrow(is_host && range->ctx ? range->ctx->dev :
			      range->dev < 0        ? 0 :
						      range->dev);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_FOUND;
	}
}

/* What is asked about how far the memory goes. */
static CUresult get_extent(const struct cuda_range *range, CUpointer_attribute attribute,
			   struct value *out)
{
	uint64_t start, bytes;

	range_of(range, &start, &bytes);
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*out = wide(start);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*out = wide(bytes);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*out = wide(range->start);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*out = wide(range->size_bytes);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*out = wide(range->buffer_id);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*out = wide(range->handle ? range->handle->id : range->buffer_id);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_FOUND;
	}
}

static uint64_t handle_types(const struct cuda_range *range)
{
	if (range->kind == RANGE_MAPPED)
		return (uint64_t)range->handle->prop.requestedHandleTypes;
	if (range->kind == RANGE_POOL && cuda_pool_file(range->pool) >= 0)
		return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return 0;
}

/* What is asked about what it can do. */
static CUresult get_ability(const struct cuda_range *range, CUpointer_attribute attribute,
			    struct value *out)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*out = flag(range->has_sync_memops);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*out = flag(range->kind == RANGE_MANAGED ||
			    (range->kind == RANGE_POOL && cuda_pool_is_managed(range->pool)));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*out = flag(range->kind == RANGE_LINEAR);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*out = flag(true);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*out = wide(handle_types(range));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*out = flag(range->kind == RANGE_LINEAR ||
			    (range->kind == RANGE_MAPPED &&
			     range->handle->prop.allocFlags.gpuDirectRDMACapable));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*out = flag(false);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*out = narrow(access_of(range));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*out = wide((uint64_t)range->pool);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult get(const struct cuda_range *range, CUpointer_attribute attribute, uint64_t address,
		    struct value *out)
{
	CUresult res = get_place(range, attribute, address, out);

	if (res == CUDA_ERROR_NOT_FOUND)
		res = get_extent(range, attribute, out);
	if (res == CUDA_ERROR_NOT_FOUND)
		res = get_ability(range, attribute, out);
	return res;
}

static struct cuda_range *find(uint64_t address)
{
	struct cuda_range *range = cuda_range_find(address);

	if (range && range->kind == RANGE_ARRAY)
		return NULL;
	return range && range->kind == RANGE_POOL ? cuda_pool_find(range->pool, address) : range;
}

CUresult cuPointerGetAttribute(void *out_data, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct cuda_range *range;
	struct value value;
	CUresult res = cuda_call_begin(CUDA_ID_cuPointerGetAttribute);

	if (res != CUDA_SUCCESS)
		return res;
	range = find(address);
	if (!out_data || !range)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = get(range, attribute, address, &value);
	if (res == CUDA_SUCCESS)
		memcpy(out_data, &value.wide, value.bytes);
	return cuda_call_end(res);
}

/* What is known of memory that is not the driver's: nothing, in the attribute's own type. */
static CUresult get_unknown(CUpointer_attribute attribute, struct value *out)
{
	static const struct cuda_range nothing = { .kind = RANGE_HOST, .dev = -1 };
	CUresult res = get(&nothing, attribute, 0, out);

	if (res != CUDA_SUCCESS)
		return res;
	out->wide = 0;
	if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		out->narrow = INVALID_ORDINAL;
	return CUDA_SUCCESS;
}

/* An attribute that this memory has not is the same as that of unknown memory. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
				void **out_data, CUdeviceptr address)
{
	struct cuda_range *range;
	CUresult res = cuda_call_begin(CUDA_ID_cuPointerGetAttributes);

	if (res != CUDA_SUCCESS)
		return res;
	if (count == 0 || !attributes || !out_data)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	range = find(address);
	for (unsigned i = 0; i < count && res == CUDA_SUCCESS; i++) {
		struct value value;

		if (!range || get(range, attributes[i], address, &value) != CUDA_SUCCESS)
			res = get_unknown(attributes[i], &value);
		if (res == CUDA_SUCCESS && !out_data[i])
			res = CUDA_ERROR_INVALID_VALUE;
		if (res == CUDA_SUCCESS)
			memcpy(out_data[i], &value.wide, value.bytes);
	}
	return cuda_call_end(res);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
			       CUdeviceptr address)
{
	struct cuda_range *range;
	CUresult res = cuda_call_begin(CUDA_ID_cuPointerSetAttribute);

	if (res != CUDA_SUCCESS)
		return res;
	range = find(address);
	if (!value || !range || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (range->kind != RANGE_LINEAR)
		return cuda_call_end(CUDA_ERROR_NOT_SUPPORTED);
	range->has_sync_memops = *(const int *)value != 0;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *out_base, size_t *out_bytes, CUdeviceptr address)
{
	struct cuda_range *range;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuMemGetAddressRange_v2, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_base && !out_bytes)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	range = find(address);
	if (!range)
		return cuda_call_end(CUDA_ERROR_NOT_FOUND);
	if (out_base)
		*out_base = range->start;
	if (out_bytes)
		*out_bytes = range->size_bytes;
	return cuda_call_end(CUDA_SUCCESS);
}
