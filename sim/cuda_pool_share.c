/* Pools between processes: the exporter's file, and single allocations in it. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_call.h"
#include "cuda_object.h"
#include "cuda_pool.h"
#include "cuda_shared.h"
#include "machine_export.h"

#define SHARE_MAGIC 0x6c6f6f70u

/* The 64 bytes that tell of an allocation: which file holds it, and where. */
struct share {
	uint32_t magic, unused;
	uint64_t inode; /* of the pool's file */
	uint64_t offset, size_bytes;
	uint64_t address, export; /* what its pool took there, and the name of that */
	uint64_t rest[2];
};

_Static_assert(sizeof(struct share) == sizeof(CUmemPoolPtrExportData), "it has 64 bytes");

/* Starts a call about a pool with a file, of its own or imported. */
static CUresult begin(enum cuda_id id, CUmemoryPool pool, bool is_imported)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_POOL, pool) || cuda_pool_file(pool) < 0 ||
	    cuda_pool_is_imported(pool) != is_imported)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolExportToShareableHandle(void *out_handle, CUmemoryPool pool,
					  CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult res = begin(CUDA_ID_cuMemPoolExportToShareableHandle, pool, false);
	int fd;

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_handle || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	fd = fcntl(cuda_pool_file(pool), F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return cuda_call_end(CUDA_ERROR_OPERATING_SYSTEM);
	*(int *)out_handle = fd;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out_pool, void *handle,
					    CUmemAllocationHandleType type,
					    unsigned long long flags)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuMemPoolImportFromShareableHandle);
	int fd = (int)(intptr_t)handle, own;
	uint64_t bytes;
	CUdevice dev;

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_shared_read(SHARED_POOL, fd, &dev, &bytes);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	own = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (own < 0)
		return cuda_call_end(CUDA_ERROR_OPERATING_SYSTEM);
	*out_pool = cuda_pool_new_imported(dev, own);
	return cuda_call_end(*out_pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* Where in its pool's file an allocation lies; NULL when it cannot be shared. */
static struct cuda_range *describe(CUdeviceptr address, struct share *out)
{
	struct cuda_range *region = cuda_range_find(address);
	const struct cuda_range *a;
	struct stat st;

	if (!region || region->kind != RANGE_POOL || cuda_pool_file(region->pool) < 0 ||
	    cuda_pool_is_imported(region->pool))
		return NULL;
	a = cuda_pool_find(region->pool, address);
	if (!a || a->start != address || fstat(cuda_pool_file(region->pool), &st) != 0)
		return NULL;
	*out = (struct share){ .magic = SHARE_MAGIC,
			       .inode = st.st_ino,
			       .offset = region->file_offset + address - region->start,
			       .size_bytes = a->size_bytes,
			       .address = region->start };
	return region;
}

/* The pool holds all that it took there from now on, in no figure. */
static CUresult hold(struct cuda_range *region, struct share *share)
{
	CUresult res = cuda_shared_name(region->index, region->size_bytes, &region->export);

	if (res != CUDA_SUCCESS)
		return res;
	machine_export_hide(region->export);
	share->export = region->export;
	return cuda_pool_held_add(cuda_pool_held(region->pool), region->start, region->export);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out_share, CUdeviceptr address)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuMemPoolExportPointer);
	struct cuda_range *region;
	struct share share;

	if (res != CUDA_SUCCESS)
		return res;
	region = out_share ? describe(address, &share) : NULL;
	if (!region)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = hold(region, &share);
	if (res == CUDA_SUCCESS)
		memcpy(out_share, &share, sizeof(share));
	return cuda_call_end(res);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *out_address, CUmemoryPool pool,
				CUmemPoolPtrExportData *data)
{
	CUresult res = begin(CUDA_ID_cuMemPoolImportPointer, pool, true);
	struct share share;
	uint64_t address;
	struct stat st;

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_address || !data)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	memcpy(&share, data, sizeof(share));
	if (share.magic != SHARE_MAGIC || fstat(cuda_pool_file(pool), &st) != 0 ||
	    st.st_ino != share.inode || share.size_bytes == 0 ||
	    share.size_bytes > (uint64_t)st.st_size ||
	    share.offset > (uint64_t)st.st_size - share.size_bytes)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_pool_held_add(cuda_pool_held(pool), share.address, share.export);
	if (res == CUDA_SUCCESS)
		res = cuda_pool_adopt(pool, share.offset, share.size_bytes, &address);
	if (res == CUDA_SUCCESS)
		*out_address = address;
	return cuda_call_end(res);
}
