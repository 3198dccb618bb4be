/* A piece of device memory of any kind: taken, and given back step by step. */
#pragma once

#include "client.h"

/* The software GPU's context in these tests. */
#define CLIENT_CONTEXT_BYTES (64 * MIB)

struct piece {
	const char *kind;
	CUdeviceptr address; /* 0: none any more */
	uint64_t bytes;
	CUmemGenericAllocationHandle handle; /* of "vmm" and "mapped" */
	bool has_handle, is_mapped, is_reserved;
};

static inline uint64_t round_to(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* Ends what there is of it. After an error it can be called again. */
static inline CUresult give(struct piece *piece)
{
	CUresult res = CUDA_SUCCESS;

	if (piece->is_mapped && (res = cuMemUnmap(piece->address, piece->bytes)) == CUDA_SUCCESS)
		piece->is_mapped = false;
	if (res == CUDA_SUCCESS && piece->has_handle &&
	    (res = cuMemRelease(piece->handle)) == CUDA_SUCCESS)
		piece->has_handle = false;
	if (res == CUDA_SUCCESS && piece->is_reserved &&
	    (res = cuMemAddressFree(piece->address, piece->bytes)) == CUDA_SUCCESS) {
		piece->is_reserved = false;
		piece->address = 0;
	}
	if (res == CUDA_SUCCESS && piece->address &&
	    (res = cuMemFree_v2(piece->address)) == CUDA_SUCCESS)
		piece->address = 0;
	return res;
}

static inline CUresult take_handle(struct piece *piece, uint64_t bytes)
{
	static const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUresult res;

	piece->bytes = round_to(bytes, BLOCK_BYTES);
	res = cuMemCreate(&piece->handle, piece->bytes, &prop, 0);
	piece->has_handle = res == CUDA_SUCCESS;
	return res;
}

static inline CUresult take_mapped(struct piece *piece, uint64_t bytes)
{
	CUresult res = take_handle(piece, bytes);

	if (res == CUDA_SUCCESS)
		res = cuMemAddressReserve(&piece->address, piece->bytes, 0, 0, 0);
	piece->is_reserved = res == CUDA_SUCCESS;
	if (res == CUDA_SUCCESS)
		res = cuMemMap(piece->address, piece->bytes, 0, piece->handle, 0);
	piece->is_mapped = res == CUDA_SUCCESS;
	for (int i = 0; i < 5 && res != CUDA_SUCCESS; i++)
		if (give(piece) == CUDA_SUCCESS)
			break;
	return res;
}

/* KIND: alloc, pitch, managed, vmm (a handle alone), mapped (a handle and its mapping). */
static inline CUresult take(struct piece *piece, const char *kind, uint64_t bytes)
{
	size_t pitch_bytes;
	CUresult res;

	*piece = (struct piece){ .kind = kind, .bytes = bytes };
	if (!strcmp(kind, "vmm"))
		return take_handle(piece, bytes);
	if (!strcmp(kind, "mapped"))
		return take_mapped(piece, bytes);
	if (!strcmp(kind, "managed")) {
		res = cuMemAllocManaged(&piece->address, bytes, CU_MEM_ATTACH_GLOBAL);
	} else if (!strcmp(kind, "pitch")) {
		res = cuMemAllocPitch_v2(&piece->address, &pitch_bytes, bytes < 4096 ? bytes : 4096,
					 (bytes + 4095) / 4096, 4);
	} else {
		CHECK(!strcmp(kind, "alloc"));
		res = cuMemAlloc_v2(&piece->address, bytes);
	}
	if (res != CUDA_SUCCESS)
		piece->address = 0;
	return res;
}
