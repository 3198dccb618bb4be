#include "cuda_graph_store.h"

#include "cuda_call.h"
#include "cuda_device.h"
#include "cuda_extent.h"
#include "cuda_graph_memory.h"
#include "cuda_heap.h"

static struct store {
	struct cuda_extents free;
	/* by attribute: what graphs have, what the store has, and the most of each */
	uint64_t figure[CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH + 1];
} stores[MACHINE_DEVICES]; /* by ordinal */

static void add(struct store *s, CUgraphMem_attribute current, uint64_t bytes)
{
	uint64_t *now = &s->figure[current], *high = now + 1;

	*now += bytes;
	if (*high < *now)
		*high = *now;
}

void cuda_graph_store_trim(CUdevice dev)
{
	struct store *s = &stores[dev];

	while (s->free.count) {
		struct cuda_extent piece = s->free.free[s->free.count - 1];

		cuda_extent_take_at(&s->free, piece.start, piece.size);
		s->figure[CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] -= piece.size;
		cuda_heap_give(cuda_device_index(dev), piece.start, piece.size);
	}
}

int cuda_graph_store_take(CUdevice dev, uint64_t bytes, uint64_t *out_address)
{
	struct store *s = &stores[dev];
	int err;

	if (cuda_extent_take(&s->free, bytes, HEAP_BLOCK_BYTES, out_address) != 0) {
		err = cuda_heap_take(cuda_device_index(dev), bytes, out_address);
		if (err) {
			/* its pieces may be too small one by one */
			cuda_graph_store_trim(dev);
			err = cuda_heap_take(cuda_device_index(dev), bytes, out_address);
		}
		if (err)
			return err;
		add(s, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, bytes);
	}
	add(s, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, bytes);
	return 0;
}

void cuda_graph_store_give(CUdevice dev, uint64_t address, uint64_t bytes)
{
	struct store *s = &stores[dev];

	s->figure[CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT] -= bytes;
	if (cuda_extent_add(&s->free, address, bytes) == 0)
		return;
	s->figure[CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] -= bytes;
	cuda_heap_give(cuda_device_index(dev), address, bytes);
}

/* Starts a call about the store of a device. */
static CUresult begin(enum cuda_id id, CUdevice dev)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	return cuda_device_is_valid(dev) ? CUDA_SUCCESS : cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute, void *out_value)
{
	CUresult res = begin(CUDA_ID_cuDeviceGetGraphMemAttribute, dev);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_value || (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*(cuuint64_t *)out_value = stores[dev].figure[attribute];
	return cuda_call_end(CUDA_SUCCESS);
}

/* A high mark can only be set to zero, which means to what it is now. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute, void *value)
{
	CUresult res = begin(CUDA_ID_cuDeviceSetGraphMemAttribute, dev);

	if (res != CUDA_SUCCESS)
		return res;
	if (!value || *(cuuint64_t *)value ||
	    (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
	     attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	stores[dev].figure[attribute] = stores[dev].figure[attribute - 1];
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuDeviceGraphMemTrim, dev);

	if (res != CUDA_SUCCESS)
		return res;
	cuda_graph_memory_rest(dev);
	cuda_graph_store_trim(dev);
	return cuda_call_end(CUDA_SUCCESS);
}
