#include "cuda_handle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_call.h"
#include "cuda_device.h"
#include "cuda_heap.h"
#include "cuda_object.h"
#include "cuda_shared.h"
#include "machine_export.h"
#include "machine_hidden.h"
#include "machine_import.h"

static uint64_t last_id; /* the driver's lock */

struct cuda_handle *cuda_handle_find(CUmemGenericAllocationHandle handle)
{
	struct cuda_handle *h = (struct cuda_handle *)handle;

	return cuda_object_is(OBJECT_HANDLE, h) && h->handles ? h : NULL;
}

int cuda_handle_map(const struct cuda_handle *handle, uint64_t target)
{
	void *map;

	if (handle->address)
		return cuda_heap_alias(handle->address, handle->size_bytes, target);
	map = mmap((void *)target, handle->size_bytes, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_FIXED | MAP_NORESERVE, handle->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	madvise(map, handle->size_bytes, MADV_DONTFORK);
	return 0;
}

static void give_memory(const struct cuda_handle *handle)
{
	if (handle->is_hidden)
		machine_show(handle->index, handle->size_bytes);
	if (handle->address)
		cuda_heap_give(handle->index, handle->address, handle->size_bytes, handle->export);
	else if (handle->index != HEAP_HOST && !handle->is_imported)
		machine_give_exported(handle->index, handle->size_bytes, handle->export);
	machine_import_end(handle->import);
	if (handle->fd >= 0)
		close(handle->fd);
}

void cuda_handle_put(struct cuda_handle *handle)
{
	if (--handle->references == 0) {
		cuda_object_remove(handle);
		give_memory(handle);
		if (handle->index == HEAP_HOST)
			machine_host_handle(false);
		free(handle);
		return;
	}
	if (handle->references == handle->tiles && !handle->is_hidden && !handle->is_imported) {
		handle->is_hidden = true;
		machine_hide(handle->index, handle->size_bytes);
	}
}

/* Where a location lies: a device, or the host. */
static CUresult place(const CUmemLocation *location, struct cuda_handle *h)
{
	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		if (!cuda_device_is_valid(location->id))
			return CUDA_ERROR_INVALID_DEVICE;
		h->dev = location->id;
		h->index = cuda_device_index(location->id);
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA: {
		char path[64];

		if (location->id < 0)
			return CUDA_ERROR_INVALID_VALUE;
		(void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", location->id);
		if (location->id > 0 && access(path, F_OK) != 0)
			return CUDA_ERROR_INVALID_VALUE;
	} /* fallthrough */
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		h->dev = -1;
		h->index = HEAP_HOST;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult check_prop(const CUmemAllocationProp *prop, struct cuda_handle *h)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)prop->requestedHandleTypes) {
	case CU_MEM_HANDLE_TYPE_NONE:
	case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
		break;
	case CU_MEM_HANDLE_TYPE_WIN32:
	case CU_MEM_HANDLE_TYPE_WIN32_KMT:
	case CU_MEM_HANDLE_TYPE_FABRIC:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return place(&prop->location, h);
}

static CUresult take_memory(struct cuda_handle *h)
{
	if (h->prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE)
		return cuda_heap_take(h->index, h->size_bytes, &h->address) == 0 ?
			       CUDA_SUCCESS :
			       CUDA_ERROR_OUT_OF_MEMORY;
	if (h->index != HEAP_HOST && machine_take(h->index, h->size_bytes) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	h->fd = cuda_shared_new(SHARED_HANDLE, h->index, h->size_bytes);
	if (h->fd >= 0)
		return CUDA_SUCCESS;
	if (h->index != HEAP_HOST)
		machine_give(h->index, h->size_bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Makes an object of a filled-in description, with one reference. */
static CUresult publish(const struct cuda_handle *description, struct cuda_handle **out_handle)
{
	struct cuda_handle *h = malloc(sizeof(*h));

	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*h = *description;
	h->id = ++last_id;
	h->references = 1;
	if (cuda_object_add(OBJECT_HANDLE, h) != 0) {
		free(h);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (h->index == HEAP_HOST)
		machine_host_handle(true);
	*out_handle = h;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out_handle, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct cuda_handle h = { .fd = -1, .size_bytes = bytes, .handles = 1 }, *made;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemCreate);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_handle || flags || bytes == 0 || bytes % HEAP_BLOCK_BYTES)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = check_prop(prop, &h);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	h.prop = *prop;
	res = take_memory(&h);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	res = publish(&h, &made);
	if (res == CUDA_SUCCESS)
		*out_handle = (CUmemGenericAllocationHandle)made;
	else
		give_memory(&h);
	return cuda_call_end(res);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct cuda_handle *h;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemRelease);

	if (res != CUDA_SUCCESS)
		return res;
	h = cuda_handle_find(handle);
	if (!h)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	h->handles--;
	cuda_handle_put(h);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemGetAllocationGranularity(size_t *out_bytes, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	struct cuda_handle h;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemGetAllocationGranularity);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_bytes || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
			   option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = check_prop(prop, &h);
	if (res == CUDA_SUCCESS)
		*out_bytes = HEAP_BLOCK_BYTES;
	return cuda_call_end(res);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out_prop,
						CUmemGenericAllocationHandle handle)
{
	struct cuda_handle *h;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemGetAllocationPropertiesFromHandle);

	if (res != CUDA_SUCCESS)
		return res;
	h = cuda_handle_find(handle);
	if (!out_prop || !h)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_prop = h->prop;
	return cuda_call_end(CUDA_SUCCESS);
}

/* Nobody counts memory of the host, nor what no other process has named. */
CUresult cuda_handle_mark(struct cuda_handle *handle, int fd)
{
	if (handle->index == HEAP_HOST || (handle->is_imported && !handle->export))
		return CUDA_SUCCESS;
	if (handle->is_imported)
		return machine_export_keep(fd, handle->export) == 0 ? CUDA_SUCCESS :
								      CUDA_ERROR_OPERATING_SYSTEM;
	return cuda_shared_mark(fd, handle->index, handle->size_bytes, &handle->export);
}

static CUresult export(struct cuda_handle *handle, int *out_fd)
{
	int fd = cuda_shared_reopen(handle->fd);
	uint64_t bytes;
	CUdevice dev;
	CUresult res;

	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	/* The number is another file's when the program closed what it did not know. */
	if (cuda_shared_read(SHARED_HANDLE, fd, &dev, &bytes) != CUDA_SUCCESS) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	res = cuda_handle_mark(handle, fd);
	if (res == CUDA_SUCCESS)
		*out_fd = fd;
	else
		close(fd);
	return res;
}

/* What was imported is not exported again. */
CUresult cuMemExportToShareableHandle(void *out_shareable, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	struct cuda_handle *h;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemExportToShareableHandle);

	if (res != CUDA_SUCCESS)
		return res;
	h = cuda_handle_find(handle);
	if (!out_shareable || !h || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    h->fd < 0 || h->is_imported)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(export(h, out_shareable));
}

CUresult cuda_handle_import(int fd, struct cuda_handle **out_handle)
{
	struct cuda_handle h = { .is_imported = true };
	CUresult res = cuda_shared_read(SHARED_HANDLE, fd, &h.dev, &h.size_bytes);

	if (res != CUDA_SUCCESS)
		return res;
	h.index = h.dev < 0 ? HEAP_HOST : cuda_device_index(h.dev);
	h.prop.location.type = h.dev < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
	h.prop.location.id = h.dev < 0 ? 0 : h.dev;
	h.prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	h.prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	h.fd = cuda_shared_reopen(fd);
	if (h.fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	res = cuda_shared_import(fd, &h.export, &h.import);
	if (res == CUDA_SUCCESS)
		res = publish(&h, out_handle);
	if (res != CUDA_SUCCESS) {
		machine_import_end(h.import);
		close(h.fd);
	}
	return res;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out_handle, void *shareable,
					CUmemAllocationHandleType type)
{
	struct cuda_handle *h;
	CUresult res = cuda_call_begin(CUDA_ID_cuMemImportFromShareableHandle);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_handle_import((int)(intptr_t)shareable, &h);
	if (res == CUDA_SUCCESS) {
		h->handles = 1;
		*out_handle = (CUmemGenericAllocationHandle)h;
	}
	return cuda_call_end(res);
}
