#include "cuda_graph_store.h"

#include <stdlib.h>

#include "cuda_call.h"
#include "cuda_device.h"
#include "cuda_extent.h"
#include "cuda_graph_memory.h"
#include "cuda_heap.h"
#include "cuda_shared.h"

#define UNIT_BYTES CUDA_GRAPH_STORE_UNIT_BYTES

/* Of what a store has, what a descriptor was made of. */
struct lent {
	struct lent *next;
	uint64_t start, bytes, export;
};

static struct store {
	struct cuda_extents free;
	struct lent *lent;
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

CUresult cuda_graph_store_mark(CUdevice dev, uint64_t address, uint64_t bytes, int fd)
{
	struct lent *lent = stores[dev].lent;

	while (lent && lent->start != address)
		lent = lent->next;
	if (!lent) {
		lent = calloc(1, sizeof(*lent));
		if (!lent)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*lent = (struct lent){ .next = stores[dev].lent, .start = address, .bytes = bytes };
		stores[dev].lent = lent;
	}
	return cuda_shared_mark(fd, cuda_device_index(dev), lent->bytes, &lent->export);
}

/* The first that lies in it, out of the store; NULL: none. */
static struct lent *take_lent(struct store *s, const struct cuda_extent *piece)
{
	struct lent **link = &s->lent, *lent;

	while (*link && ((*link)->start < piece->start ||
			 (*link)->start + (*link)->bytes > piece->start + piece->size))
		link = &(*link)->next;
	lent = *link;
	if (lent)
		*link = lent->next;
	return lent;
}

/* Gives one up to the device: what descriptors were made of by its name, the rest afterwards. */
static void give_up(CUdevice dev, struct cuda_extent piece)
{
	struct store *s = &stores[dev];
	struct lent *lent = take_lent(s, &piece);
	struct cuda_extent part = piece;

	if (lent) {
		part = (struct cuda_extent){ .start = lent->start, .size = lent->bytes };
		if (part.start > piece.start)
			cuda_extent_add(&s->free, piece.start, part.start - piece.start);
		if (part.start + part.size < piece.start + piece.size)
			cuda_extent_add(&s->free, part.start + part.size,
					piece.start + piece.size - part.start - part.size);
	}
	s->reserved_bytes -= part.size;
	cuda_heap_give(cuda_device_index(dev), part.start, part.size, lent ? lent->export : 0);
	free(lent);
}

void cuda_graph_store_trim(CUdevice dev)
{
	struct store *s = &stores[dev];

	while (s->free.count) {
		struct cuda_extent piece = s->free.free[s->free.count - 1];

		cuda_extent_take_at(&s->free, piece.start, piece.size);
		give_up(dev, piece);
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
