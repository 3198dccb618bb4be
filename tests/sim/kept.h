/* What tests of memory that descriptors keep share: what is in use, and pieces of all kinds. */
#pragma once

#include <fcntl.h>

#include "nvml.h"
#include "share.h"

#define POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define MEM_BYTES (1024 * MIB)

/* What the card and this process have, once and now. */
static struct {
	nvmlDevice_t card;
	uint64_t used;
	int64_t own;
} start;

static inline void begin(void)
{
	share_start();
	start.card = nvml_start();
	start.used = nvml_used_bytes(start.card);
	start.own = nvml_process_bytes(start.card, (unsigned)getpid());
}

/* The card has so much more in use than at the start, and this process so much. */
#define HAS(card_bytes, own_bytes)                                                 \
	do {                                                                       \
		TRUE(nvml_used_bytes(start.card) == start.used + (card_bytes));    \
		TRUE(check_free_bytes() == MEM_BYTES - start.used - (card_bytes)); \
		TRUE(nvml_process_bytes(start.card, (unsigned)getpid()) ==         \
		     start.own + (int64_t)(own_bytes));                            \
	} while (0)

static inline CUmemGenericAllocationHandle create_for(CUmemAllocationHandleType types, size_t bytes)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = types,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle handle = 0;

	OK(cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

static inline CUmemGenericAllocationHandle create(size_t bytes)
{
	return create_for(POSIX, bytes);
}

static inline int export(CUmemGenericAllocationHandle handle)
{
	int fd = -1;

	OK(cuMemExportToShareableHandle(&fd, handle, POSIX, 0));
	return fd;
}

static inline CUmemGenericAllocationHandle import(int fd)
{
	CUmemGenericAllocationHandle handle = 0;

	OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, POSIX));
	return handle;
}

static inline CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes)
{
	CUmemAccessDesc access = { { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUdeviceptr address = 0;

	OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	OK(cuMemMap(address, bytes, 0, handle, 0));
	OK(cuMemSetAccess(address, bytes, &access, 1));
	return address;
}

static inline int dma_buf(CUdeviceptr address, size_t bytes)
{
	int fd = -1;

	OK(cuMemGetHandleForAddressRange(&fd, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					 0));
	return fd;
}

static inline bool is_open_as_it_should(int fd)
{
	return fd > STDERR_FILENO && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR &&
	       fcntl(fd, F_GETFD) == FD_CLOEXEC;
}

static inline CUmemoryPool new_pool(CUmemAllocationHandleType types)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = types,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool pool = NULL;

	OK(cuMemPoolCreate(&pool, &props));
	return pool;
}

static inline void end_pool(CUmemoryPool pool, CUdeviceptr address)
{
	OK(cuMemFreeAsync(address, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemPoolDestroy(pool));
}
