#include "drv/gpu_vmm.h"

#include "base/process.h"
#include "drv/real.h"
#include "drv/relaxed.h"
#include "drv/status.h"

#include <errno.h>
#include <stdatomic.h>

enum { UNMAP_TRIES = 3 };

struct gpu_vmm_state {
	_Atomic bool has_left; /* atomic */
};
PROCESS_STATE(gpu_vmm_state, state);

static int attribute(struct cuda_ord ord, CUdevice_attribute what, int *out_value)
{
	if (!real.cuDeviceGetAttribute)
		return -ENOTSUP;
	return status_errno(real.cuDeviceGetAttribute(out_value, what, ord.v));
}

/* What `call`, a driver call that the driver has, says; a capture does not notice it. */
#define CALL(sym, ...)                                                 \
	({                                                             \
		int call_rc = -ENOTSUP;                                \
                                                                       \
		if (real.sym) {                                        \
			struct relaxed call_mode = relaxed_begin();    \
                                                                       \
			call_rc = status_errno(real.sym(__VA_ARGS__)); \
			relaxed_end(call_mode);                        \
		}                                                      \
		call_rc;                                               \
	})

/*
 * The host's node beside the device; 0 where the driver names none, as on a machine of one node.
 * False where that node is the device's own memory.
 */
static bool node_of(struct cuda_ord ord, int *out_node)
{
	int gpu_node = -1;

	if (attribute(ord, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, out_node) < 0 || *out_node < 0)
		*out_node = 0;
	return attribute(ord, CU_DEVICE_ATTRIBUTE_NUMA_ID, &gpu_node) < 0 || gpu_node < 0 ||
	       gpu_node != *out_node;
}

static int prop_of(struct cuda_ord ord, enum gpu_vmm_kind kind, CUmemAllocationProp *out_prop)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ord.v },
	};

	if (kind == GPU_VMM_HOST) {
		prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		if (!node_of(ord, &prop.location.id))
			return -ENOTSUP;
	}
	*out_prop = prop;
	return 0;
}

bool gpu_vmm_is_there(struct cuda_ord ord)
{
	size_t grain_bytes = 0;
	CUmemAllocationProp prop;
	int can_map = 0;

	if (!real.cuMemAddressReserve || !real.cuMemAddressFree || !real.cuMemCreate ||
	    !real.cuMemRelease || !real.cuMemMap || !real.cuMemUnmap || !real.cuMemSetAccess)
		return false;
	if (attribute(ord, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &can_map) < 0 ||
	    !can_map)
		return false;
	prop_of(ord, GPU_VMM_DEVICE, &prop);
	return CALL(cuMemGetAllocationGranularity, &grain_bytes, &prop,
		    CU_MEM_ALLOC_GRANULARITY_MINIMUM) == 0 &&
	       grain_bytes && GPU_VMM_GRAIN_BYTES % grain_bytes == 0;
}

int gpu_vmm_reserve(uint64_t bytes, uint64_t align_bytes, uint64_t *out_addr)
{
	CUdeviceptr addr = 0;
	int rc = CALL(cuMemAddressReserve, &addr, bytes,
		      align_bytes ? align_bytes : GPU_VMM_GRAIN_BYTES, 0, 0);

	if (rc == 0)
		*out_addr = addr;
	return rc;
}

int gpu_vmm_unreserve(uint64_t addr, uint64_t bytes)
{
	int rc = CALL(cuMemAddressFree, addr, bytes);

	/* As in gpu_vmm_release(). */
	return rc < 0 ? CALL(cuMemAddressFree, addr, bytes) : 0;
}

/*
 * Device memory that can be all that cuMemAlloc's can: which will be shared, or given to a network
 * card, is not known yet.
 */
static int create_able(struct cuda_ord ord, CUmemAllocationProp prop, uint64_t bytes,
		       CUmemGenericAllocationHandle *out_handle)
{
	int can = 0;

	if (gpu_vmm_can_export(ord))
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (attribute(ord, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, &can) == 0)
		prop.allocFlags.gpuDirectRDMACapable = can != 0;
	return CALL(cuMemCreate, out_handle, bytes, &prop, 0);
}

int gpu_vmm_create(struct cuda_ord ord, enum gpu_vmm_kind kind, uint64_t bytes,
		   uint64_t *out_handle)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp prop;
	int rc = prop_of(ord, kind, &prop);

	if (rc < 0)
		return rc;
	if (kind == GPU_VMM_DEVICE)
		rc = create_able(ord, prop, bytes, &handle);
	if (kind != GPU_VMM_DEVICE || (rc < 0 && rc != -ENOMEM))
		rc = CALL(cuMemCreate, &handle, bytes, &prop, 0);
	if (rc == 0)
		*out_handle = handle;
	return rc;
}

bool gpu_vmm_can_export(struct cuda_ord ord)
{
	int can = 0;

	return real.cuMemExportToShareableHandle &&
	       attribute(ord, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
			 &can) == 0 &&
	       can;
}

int gpu_vmm_export(uint64_t handle, int *out_fd)
{
	return CALL(cuMemExportToShareableHandle, out_fd, handle,
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

int gpu_vmm_import(int fd, uint64_t *out_handle)
{
	CUmemGenericAllocationHandle handle = 0;
	int rc = CALL(cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)fd,
		      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

	if (rc == 0)
		*out_handle = handle;
	return rc;
}

int gpu_vmm_release(uint64_t handle)
{
	int rc = CALL(cuMemRelease, handle);

	/* Nobody else knows the handle: its memory would be gone for good. */
	return rc < 0 ? CALL(cuMemRelease, handle) : 0;
}

int gpu_vmm_map(uint64_t addr, uint64_t bytes, uint64_t handle)
{
	return CALL(cuMemMap, addr, bytes, 0, handle, 0);
}

int gpu_vmm_unmap(uint64_t addr, uint64_t bytes)
{
	return CALL(cuMemUnmap, addr, bytes);
}

int gpu_vmm_unmap_surely(uint64_t addr, uint64_t bytes)
{
	int rc = -ENODEV;

	for (int i = 0; i < UNMAP_TRIES && rc < 0; i++)
		rc = gpu_vmm_unmap(addr, bytes);
	if (rc < 0) {
		process_wipe_on_fork(&state, sizeof(state));
		atomic_store(&state.s.has_left, true);
	}
	return rc;
}

bool gpu_vmm_has_left(void)
{
	return atomic_load(&state.s.has_left);
}

int gpu_vmm_allow(uint64_t addr, uint64_t bytes, const struct cuda_ord *ords, unsigned count)
{
	CUmemAccessDesc desc[GPU_VMM_DEVICES];

	if (count == 0 || count > GPU_VMM_DEVICES)
		return -EINVAL;
	for (unsigned i = 0; i < count; i++)
		desc[i] = (CUmemAccessDesc){
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ords[i].v },
			.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
		};
	return CALL(cuMemSetAccess, addr, bytes, desc, count);
}
