#include "cuda_ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_block.h"
#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_heap.h"
#include "cuda_memory.h"
#include "cuda_shared.h"
#include "cuda_stream.h"
#include "machine_import.h"

#define IPC_MAGIC 0x696d6973u

enum { OWN, SHARED, PARTS }; /* of an allocation: blocks of its own, one that it shares */

/* The 64 bytes of a handle: which file of which process holds the memory, and where in it. */
struct ipc {
	uint32_t magic;
	int32_t pid;
	int32_t fd;
	int32_t index;         /* of the device in the machine */
	uint64_t inode;        /* of the file: the process may be another one by now */
	uint64_t block_offset; /* of the allocation's first block in the file */
	uint64_t inner_offset; /* of the allocation in there */
	uint64_t size_bytes;
	uint64_t names[PARTS]; /* machine_export.h; 0: it has none */
};

_Static_assert(sizeof(struct ipc) == sizeof(CUipcMemHandle), "a handle has 64 bytes");

/* What a mapping was opened with, so that a second opening finds it. */
struct opened {
	struct ipc ipc;
	struct cuda_range *range;
	uint64_t map_start;
	uint32_t imports[PARTS]; /* machine_import.h */
	int count;
	struct opened *next;
};

static struct opened *all; /* the driver's lock */

static uint64_t block_bytes(const struct ipc *ipc)
{
	return (ipc->inner_offset + ipc->size_bytes + HEAP_BLOCK_BYTES - 1) &
	       ~(HEAP_BLOCK_BYTES - 1);
}

/* Who opens it keeps it by these names. */
static CUresult name_parts(struct cuda_range *range, uint64_t *out_names)
{
	uint64_t own_bytes = cuda_memory_own_bytes(range);
	CUresult res = CUDA_SUCCESS;

	if (own_bytes)
		res = cuda_shared_name(range->ctx->index, own_bytes, &range->export);
	if (res == CUDA_SUCCESS && range->block)
		res = cuda_shared_name(range->ctx->index, HEAP_BLOCK_BYTES,
				       cuda_block_export(range->block));
	if (res != CUDA_SUCCESS)
		return res;
	out_names[OWN] = range->export;
	out_names[SHARED] = range->block ? *cuda_block_export(range->block) : 0;
	return CUDA_SUCCESS;
}

static CUresult export(struct cuda_range *range, struct ipc *out)
{
	uint64_t first = range->start & ~(HEAP_BLOCK_BYTES - 1), offset;
	uint64_t inner = range->start - first;
	struct stat st;
	int fd;

	if (cuda_heap_file(range->ctx->index, first, &fd, &offset) != 0 || fstat(fd, &st) != 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	*out = (struct ipc){
		.magic = IPC_MAGIC,
		.pid = (int32_t)getpid(),
		.fd = fd,
		.index = range->ctx->index,
		.inode = st.st_ino,
		.block_offset = offset,
		.inner_offset = inner,
		.size_bytes = range->size_bytes,
	};
	return name_parts(range, out->names);
}

/* Only what cuMemAlloc gave can be shared so. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *out_handle, CUdeviceptr address)
{
	struct cuda_range *range;
	struct CUctx_st *ctx;
	struct ipc ipc;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuIpcGetMemHandle, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	range = cuda_range_find(address);
	if (!out_handle || !range || range->kind != RANGE_LINEAR)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = export(range, &ipc);
	if (res == CUDA_SUCCESS)
		memcpy(out_handle, &ipc, sizeof(ipc));
	return cuda_call_end(res);
}

static int open_file(const struct ipc *ipc)
{
	char path[64];
	struct stat st;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc->pid, ipc->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_ino == ipc->inode && ipc->size_bytes &&
	    ipc->inner_offset < HEAP_BLOCK_BYTES && ipc->size_bytes <= (uint64_t)st.st_size &&
	    ipc->block_offset <= (uint64_t)st.st_size &&
	    block_bytes(ipc) <= (uint64_t)st.st_size - ipc->block_offset)
		return fd;
	close(fd);
	return -1;
}

static CUdevice ordinal_of(int index)
{
	for (int i = 0; i < cuda_device_count(); i++)
		if (cuda_device_index(i) == index)
			return i;
	return -1;
}

static CUresult map_file(const struct ipc *ipc, struct CUctx_st *ctx, struct cuda_range *range,
			 uint64_t *out_map)
{
	int fd = open_file(ipc);
	void *map;

	if (fd < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	map = mmap(NULL, block_bytes(ipc), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		   (off_t)ipc->block_offset);
	close(fd);
	if (map == MAP_FAILED)
		return CUDA_ERROR_MAP_FAILED;
	madvise(map, block_bytes(ipc), MADV_DONTFORK);
	*range = (struct cuda_range){ .start = (uint64_t)map + ipc->inner_offset,
				      .size_bytes = ipc->size_bytes,
				      .kind = RANGE_IPC,
				      .dev = ordinal_of(ipc->index),
				      .ctx = ctx,
				      .taken_bytes = block_bytes(ipc) };
	*out_map = (uint64_t)map;
	return CUDA_SUCCESS;
}

static void end_imports(struct opened *o)
{
	for (int part = 0; part < PARTS; part++)
		machine_import_end(o->imports[part]);
}

/* What its process has freed and nobody has open is not to be had. */
static CUresult import_parts(const struct ipc *ipc, struct opened *o)
{
	int err = 0;

	for (int part = 0; part < PARTS && !err; part++)
		if (ipc->names[part])
			err = machine_import_open(ipc->names[part], &o->imports[part]);
	if (!err)
		return CUDA_SUCCESS;
	return err == -ENOSPC ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult open_new(const struct ipc *ipc, struct CUctx_st *ctx, CUdeviceptr *out_address)
{
	struct cuda_range *range = calloc(1, sizeof(*range));
	struct opened *o = calloc(1, sizeof(*o));
	CUresult res = CUDA_ERROR_OUT_OF_MEMORY;

	if (!range || !o)
		goto out_free;
	res = import_parts(ipc, o);
	if (res == CUDA_SUCCESS)
		res = map_file(ipc, ctx, range, &o->map_start);
	if (res != CUDA_SUCCESS)
		goto out_end;
	if (cuda_range_insert(range) != 0) {
		munmap((void *)o->map_start, range->taken_bytes);
		res = CUDA_ERROR_OUT_OF_MEMORY;
		goto out_end;
	}
	o->ipc = *ipc;
	o->range = range;
	o->count = 1;
	o->next = all;
	all = o;
	*out_address = range->start;
	return CUDA_SUCCESS;

out_end:
	end_imports(o);
out_free:
	free(range);
	free(o);
	return res;
}

static CUresult open_handle(enum cuda_id id, CUdeviceptr *out_address, CUipcMemHandle handle,
			    unsigned flags)
{
	struct CUctx_st *ctx;
	struct ipc ipc;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	memcpy(&ipc, &handle, sizeof(ipc));
	if (ipc.magic != IPC_MAGIC)
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	if (ipc.pid == (int32_t)getpid())
		return cuda_call_end(CUDA_ERROR_INVALID_CONTEXT);
	for (struct opened *o = all; o; o = o->next) {
		if (o->range->ctx == ctx && memcmp(&o->ipc, &ipc, sizeof(ipc)) == 0) {
			o->count++;
			*out_address = o->range->start;
			return cuda_call_end(CUDA_SUCCESS);
		}
	}
	return cuda_call_end(open_new(&ipc, ctx, out_address));
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *out_address, CUipcMemHandle handle, unsigned int flags)
{
	return open_handle(CUDA_ID_cuIpcOpenMemHandle, out_address, handle, flags);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out_address, CUipcMemHandle handle, unsigned int flags)
{
	return open_handle(CUDA_ID_cuIpcOpenMemHandle_v2, out_address, handle, flags);
}

void cuda_ipc_release(struct cuda_range *range)
{
	for (struct opened **link = &all; *link; link = &(*link)->next) {
		struct opened *o = *link;

		if (o->range != range)
			continue;
		*link = o->next;
		munmap((void *)o->map_start, range->taken_bytes);
		end_imports(o);
		free(o);
		return;
	}
}

static struct opened *find(CUdeviceptr address)
{
	for (struct opened *o = all; o; o = o->next)
		if (o->range->start == address)
			return o;
	return NULL;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	struct CUctx_st *ctx;
	struct opened *o;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuIpcCloseMemHandle, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	o = find(address);
	if (!o)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (--o->count)
		return cuda_call_end(CUDA_SUCCESS);
	cuda_stream_drain(o->range->ctx);
	o = find(address);
	if (o && o->count == 0)
		cuda_memory_delete(o->range);
	return cuda_call_end(CUDA_SUCCESS);
}
