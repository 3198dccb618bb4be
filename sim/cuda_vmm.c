#include "cuda_vmm.h"

#include <stdlib.h>

#include "cuda_address.h"
#include "cuda_call.h"
#include "cuda_device.h"
#include "cuda_handle.h"
#include "cuda_heap.h"
#include "cuda_range.h"

struct reservation {
	uint64_t start, size_bytes;
	struct reservation *next;
};

static struct reservation *reservations; /* the driver's lock */

static struct reservation *find(uint64_t address)
{
	for (struct reservation *r = reservations; r; r = r->next)
		if (address >= r->start && address - r->start < r->size_bytes)
			return r;
	return NULL;
}

bool cuda_vmm_is_reserved(uint64_t address)
{
	return find(address) != NULL;
}

bool cuda_vmm_reservation(uint64_t address, uint64_t *out_start, uint64_t *out_bytes)
{
	struct reservation *r = find(address);

	if (!r)
		return false;
	*out_start = r->start;
	*out_bytes = r->size_bytes;
	return true;
}

CUresult cuMemAddressReserve(CUdeviceptr *out_address, size_t bytes, size_t align, CUdeviceptr hint,
			     unsigned long long flags)
{
	struct reservation *r;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemAddressReserve);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_address || flags || bytes == 0 || bytes % HEAP_BLOCK_BYTES ||
	    (align & (align - 1)) || hint % HEAP_BLOCK_BYTES || (align && hint % align))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	r = malloc(sizeof(*r));
	if (!r)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	r->start = cuda_address_reserve(bytes, align > HEAP_BLOCK_BYTES ? align : HEAP_BLOCK_BYTES,
					hint);
	if (!r->start) {
		free(r);
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	}
	r->size_bytes = bytes;
	r->next = reservations;
	reservations = r;
	*out_address = r->start;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuMemAddressFree);

	if (res != CUDA_SUCCESS)
		return res;
	for (struct reservation **link = &reservations; *link; link = &(*link)->next) {
		struct reservation *r = *link;

		if (r->start != address || r->size_bytes != bytes)
			continue;
		if (!cuda_range_is_free(address, bytes))
			break;
		*link = r->next;
		cuda_address_free(r->start, r->size_bytes);
		free(r);
		return cuda_call_end(CUDA_SUCCESS);
	}
	return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
}

static CUresult map_handle(uint64_t address, struct cuda_handle *handle)
{
	struct cuda_range *range = calloc(1, sizeof(*range));

	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*range = (struct cuda_range){ .start = address,
				      .size_bytes = handle->size_bytes,
				      .kind = RANGE_MAPPED,
				      .dev = handle->dev,
				      .handle = handle };
	if (cuda_handle_map(handle, address) != 0)
		goto out_free;
	if (cuda_range_insert(range) != 0)
		goto out_blank;
	handle->references++;
	return CUDA_SUCCESS;

out_blank:
	cuda_address_blank(address, handle->size_bytes);
out_free:
	free(range);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* A handle is mapped as a whole or not at all. */
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct cuda_handle *h;
	struct reservation *r;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemMap);

	if (res != CUDA_SUCCESS)
		return res;
	h = cuda_handle_find(handle);
	r = find(address);
	if (!h || !r || flags || bytes == 0 || address % HEAP_BLOCK_BYTES ||
	    bytes % HEAP_BLOCK_BYTES || offset % HEAP_BLOCK_BYTES || bytes > h->size_bytes ||
	    offset > h->size_bytes - bytes || bytes > r->start + r->size_bytes - address)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (bytes != h->size_bytes)
		return cuda_call_end(CUDA_ERROR_NOT_SUPPORTED);
	if (!cuda_range_is_free(address, bytes))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(map_handle(address, h));
}

/* True when a span is made of whole mappings, side by side. */
static bool is_whole(uint64_t address, uint64_t bytes)
{
	uint64_t end = address + bytes;

	if (bytes == 0 || end < address)
		return false;
	while (address < end) {
		struct cuda_range *range = cuda_range_find(address);

		if (!range || range->kind != RANGE_MAPPED || range->start != address)
			return false;
		address += range->size_bytes;
	}
	return address == end;
}

/* Work that still uses the addresses finds nothing there at its next access. */
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	uint64_t at, end = address + bytes;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemUnmap);

	if (res != CUDA_SUCCESS)
		return res;
	if (!is_whole(address, bytes))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (at = address; at < end;) {
		struct cuda_range *range = cuda_range_find(at);

		at += range->size_bytes;
		cuda_range_remove(range);
		cuda_address_blank(range->start, range->size_bytes);
		cuda_handle_put(range->handle);
		free(range);
	}
	return cuda_call_end(CUDA_SUCCESS);
}

static CUresult check_access(const CUmemAccessDesc *desc, const struct cuda_range *range)
{
	switch ((int)desc->flags) {
	case CU_MEM_ACCESS_FLAGS_PROT_NONE:
	case CU_MEM_ACCESS_FLAGS_PROT_READ:
	case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	switch ((int)desc->location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		if (!cuda_device_is_valid(desc->location.id))
			return CUDA_ERROR_INVALID_DEVICE;
		return range->dev < 0 || range->dev == desc->location.id || machine_has_peers() ?
			       CUDA_SUCCESS :
			       CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return range->dev < 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static void set_access(struct cuda_range *range, const CUmemAccessDesc *desc)
{
	uint64_t bit;

	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return;
	bit = (uint64_t)1 << desc->location.id;
	range->readers &= ~bit;
	range->writers &= ~bit;
	if (desc->flags & CU_MEM_ACCESS_FLAGS_PROT_READ)
		range->readers |= bit;
	if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		range->writers |= bit;
}

/* The mapping at *at, or the next before `end`; *at is behind it then. NULL: none is left. */
static struct cuda_range *next_mapping(uint64_t *at, uint64_t end)
{
	struct cuda_range *range = NULL;

	while (*at < end && !(range = cuda_range_find(*at)))
		*at += HEAP_BLOCK_BYTES;
	if (range)
		*at = range->start + range->size_bytes;
	return range;
}

/* True when a span holds whole mappings, one at least; a hole between them says nothing (docs/real-gpu.md). */
static bool has_whole(uint64_t address, uint64_t bytes)
{
	uint64_t at = address, end = address + bytes;
	struct cuda_range *range;
	bool is_any = false;

	if (bytes == 0 || end < address || address % HEAP_BLOCK_BYTES || bytes % HEAP_BLOCK_BYTES)
		return false;
	while ((range = next_mapping(&at, end))) {
		if (range->kind != RANGE_MAPPED || range->start < address || at > end)
			return false;
		is_any = true;
	}
	return is_any;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *desc,
			size_t count)
{
	uint64_t at, end = address + bytes;
	struct cuda_range *range;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemSetAccess);

	if (res != CUDA_SUCCESS)
		return res;
	if (!desc || count == 0 || !has_whole(address, bytes))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (at = address; (range = next_mapping(&at, end));)
		for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++)
			res = check_access(&desc[i], range);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	cuda_range_lock_alone();
	for (at = address; (range = next_mapping(&at, end));)
		for (size_t i = 0; i < count; i++)
			set_access(range, &desc[i]);
	cuda_range_unlock();
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemGetAccess(unsigned long long *out_flags, const CUmemLocation *location,
			CUdeviceptr address)
{
	struct cuda_range *range;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemGetAccess);
	uint64_t bit;

	if (res != CUDA_SUCCESS)
		return res;
	range = cuda_range_find(address);
	if (!out_flags || !location || !range || range->kind != RANGE_MAPPED)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
		*out_flags = range->dev < 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
					      CU_MEM_ACCESS_FLAGS_PROT_NONE;
		return cuda_call_end(CUDA_SUCCESS);
	}
	if (!cuda_device_is_valid(location->id))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	bit = (uint64_t)1 << location->id;
	*out_flags = range->writers & bit ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
		     range->readers & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ :
					    CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out_handle, void *address)
{
	struct cuda_range *range;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemRetainAllocationHandle);

	if (res != CUDA_SUCCESS)
		return res;
	range = cuda_range_find((uint64_t)address);
	if (!out_handle || !range || range->kind != RANGE_MAPPED)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	range->handle->references++;
	range->handle->handles++;
	*out_handle = (CUmemGenericAllocationHandle)range->handle;
	return cuda_call_end(CUDA_SUCCESS);
}
