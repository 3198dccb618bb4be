#include "cuda_graph_store.h"

#include "cuda_call.h"
#include "cuda_device.h"
#include "cuda_extent.h"
#include "cuda_graph_memory.h"
#include "cuda_heap.h"

/* A store grows by whole units (docs/real-gpu.md). */
#define UNIT_BYTES (UINT64_C(32) << 20)

static struct store {
	struct cuda_extents free;
	/* Graphs use all that it has: the two marks differ in when they were set. */
	uint64_t reserved_bytes, used_high_bytes, reserved_high_bytes;
} stores[MACHINE_DEVICES]; /* by ordinal */

static void add(struct store *s, uint64_t bytes)
{
	s->reserved_bytes += bytes;
	if (s->used_high_bytes < s->reserved_bytes)
		s->used_high_bytes = s->reserved_bytes;
	if (s->reserved_high_bytes < s->reserved_bytes)
		s->reserved_high_bytes = s->reserved_bytes;
}

void cuda_graph_store_trim(CUdevice dev)
{
	struct store *s = &stores[dev];

	while (s->free.count) {
		struct cuda_extent piece = s->free.free[s->free.count - 1];

		cuda_extent_take_at(&s->free, piece.start, piece.size);
		s->reserved_bytes -= piece.size;
		cuda_heap_give(cuda_device_index(dev), piece.start, piece.size, 0);
	}
}

/*
 * Grows until one piece has `bytes`. On the card pieces serve a request together; here, free ones that
 * are too small one by one go back for a larger one, and what they were more is taken again.
 */
static int grow(CUdevice dev, uint64_t bytes, uint64_t *out_address)
{
	struct store *s = &stores[dev];
	uint64_t had_bytes = s->reserved_bytes, rest_bytes, address;
	int err;

	cuda_graph_store_trim(dev);
	err = cuda_heap_take(cuda_device_index(dev), bytes, out_address);
	if (err)
		return err;
	add(s, bytes);
	rest_bytes = had_bytes > s->reserved_bytes ? had_bytes - s->reserved_bytes : 0;
	if (rest_bytes && cuda_heap_take(cuda_device_index(dev), rest_bytes, &address) == 0) {
		add(s, rest_bytes);
		cuda_graph_store_give(dev, address, rest_bytes);
	}
	return 0;
}

int cuda_graph_store_take(CUdevice dev, uint64_t *inout_bytes, uint64_t *out_address)
{
	*inout_bytes = (*inout_bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
	if (cuda_extent_take(&stores[dev].free, *inout_bytes, HEAP_BLOCK_BYTES, out_address) == 0)
		return 0;
	return grow(dev, *inout_bytes, out_address);
}

void cuda_graph_store_give(CUdevice dev, uint64_t address, uint64_t bytes)
{
	struct store *s = &stores[dev];

	if (cuda_extent_add(&s->free, address, bytes) == 0)
		return;
	s->reserved_bytes -= bytes;
	cuda_heap_give(cuda_device_index(dev), address, bytes, 0);
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
	*(cuuint64_t *)out_value = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ?
					   stores[dev].used_high_bytes :
				   attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH ?
					   stores[dev].reserved_high_bytes :
					   stores[dev].reserved_bytes;
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
	if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		stores[dev].used_high_bytes = stores[dev].reserved_bytes;
	else
		stores[dev].reserved_high_bytes = stores[dev].reserved_bytes;
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
