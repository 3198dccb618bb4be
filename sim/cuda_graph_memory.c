#include "cuda_graph_memory.h"

#include <stdlib.h>
#include <string.h>

#include "cuda_address.h"
#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_graph.h"
#include "cuda_graph_store.h"
#include "cuda_heap.h"
#include "cuda_range.h"
#include "cuda_stream.h"
#include "cuda_work.h"

/* Allocations lie side by side in what a graph takes; mappings want whole pages. */
#define PAGE_BYTES UINT64_C(4096)

static struct cuda_graph_memory *memories; /* the driver's lock */

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
	return (bytes + to - 1) / to * to;
}

struct cuda_graph_memory *cuda_graph_memory_find(CUdeviceptr address)
{
	for (struct cuda_graph_memory *m = memories; m; m = m->next)
		if (m->params.dptr == address)
			return m;
	return NULL;
}

static void set_rights(struct cuda_graph_memory *m, uint64_t devices)
{
	cuda_range_lock_alone();
	m->range->readers = devices;
	m->range->writers = devices;
	cuda_range_unlock();
}

/* A piece of a chunk. */
struct piece {
	uint64_t physical, bytes;
};

/* Device memory that a graph took for all it allocates on a device, as long as any of that lies there. */
struct cuda_graph_chunk {
	CUdevice dev;
	uint64_t bytes; /* of all pieces */
	struct piece *pieces;
	int count;
	int memories;
	/* Graphs launched into one stream run one after another: they share, if they keep nothing. */
	const struct CUstream_st *stream;
	bool is_kept;
	struct cuda_graph_chunk *next;
};

static struct cuda_graph_chunk *chunks; /* the driver's lock */

static void put_chunk(struct cuda_graph_chunk *chunk)
{
	struct cuda_graph_chunk **link = &chunks;

	if (--chunk->memories > 0)
		return;
	while (*link != chunk)
		link = &(*link)->next;
	*link = chunk->next;
	for (int i = 0; i < chunk->count; i++)
		cuda_graph_store_give(chunk->dev, chunk->pieces[i].physical,
				      chunk->pieces[i].bytes);
	free(chunk->pieces);
	free(chunk);
}

CUresult cuda_graph_memory_mark(const struct cuda_graph_memory *memory, int fd)
{
	const struct cuda_graph_chunk *chunk = memory->chunk;
	CUresult res = CUDA_SUCCESS;

	for (int i = 0; res == CUDA_SUCCESS && i < chunk->count; i++)
		res = cuda_graph_store_mark(chunk->dev, chunk->pieces[i].physical,
					    chunk->pieces[i].bytes, fd);
	return res;
}

static void unplace(struct cuda_graph_memory *m)
{
	if (!m->chunk)
		return;
	set_rights(m, 0);
	cuda_address_blank(m->params.dptr, m->taken_bytes);
	put_chunk(m->chunk);
	m->chunk = NULL;
}

static void delete_memory(struct cuda_graph_memory *m)
{
	struct cuda_graph_memory **link = &memories;

	unplace(m);
	while (*link != m)
		link = &(*link)->next;
	*link = m->next;
	cuda_range_remove(m->range);
	cuda_address_free(m->params.dptr, round_up(m->params.bytesize, HEAP_BLOCK_BYTES));
	free(m->range);
	free((void *)m->params.accessDescs);
	free(m);
}

static void put(struct cuda_graph_memory *m)
{
	if (--m->references == 0)
		delete_memory(m);
}

static void set_unfreed(struct cuda_graph_memory *m, bool is_unfreed)
{
	if (m->is_unfreed == is_unfreed)
		return;
	m->is_unfreed = is_unfreed;
	if (is_unfreed)
		m->references++;
	else
		put(m);
}

/* Work of both kinds of nodes has a reference of its own. */
static void retain_work(struct cuda_work *work)
{
	work->memory->references++;
}

static void release_work(struct cuda_work *work)
{
	put(work->memory);
}

static CUresult run_rights(const struct cuda_work *work, uint64_t devices)
{
	cuda_call_lock();
	set_rights(work->memory, devices);
	cuda_call_unlock();
	return CUDA_SUCCESS;
}

static CUresult run_alloc(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	(void)ctx;
	(void)turn;
	return run_rights(work, work->memory->devices);
}

static CUresult run_free(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	(void)ctx;
	(void)turn;
	return run_rights(work, 0);
}

static const struct cuda_work_ops alloc_ops = { .node_type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
						.run = run_alloc,
						.retain = retain_work,
						.release = release_work };
static const struct cuda_work_ops free_ops = { .node_type = CU_GRAPH_NODE_TYPE_MEM_FREE,
					       .run = run_free,
					       .retain = retain_work,
					       .release = release_work };

static void release_late(struct cuda_work *work)
{
	work->memory->uses--;
	put(work->memory);
}

/* A free in a stream. */
static const struct cuda_work_ops late_ops = { .run = run_free, .release = release_late };

static struct cuda_work *new_work(const struct cuda_work_ops *ops, struct cuda_graph_memory *m)
{
	struct cuda_work *work = cuda_work_new(ops);

	m->references++;
	if (!work) {
		put(m);
		return NULL;
	}
	work->memory = m;
	return work;
}

struct cuda_work *cuda_graph_memory_alloc_work(struct cuda_graph_memory *memory)
{
	return new_work(&alloc_ops, memory);
}

struct cuda_work *cuda_graph_memory_free_work(struct cuda_graph_memory *memory)
{
	return new_work(&free_ops, memory);
}

struct cuda_graph_memory *cuda_graph_memory_of(const struct cuda_work *work, CUgraphNodeType type)
{
	return work && work->ops->node_type == type ? work->memory : NULL;
}

/* Addresses for an allocation, in the map without any rights. */
static int reserve(struct cuda_graph_memory *m)
{
	uint64_t bytes = m->params.bytesize;

	if (bytes > UINT64_MAX / 2)
		return -1;
	m->taken_bytes = round_up(bytes, PAGE_BYTES);
	m->range = calloc(1, sizeof(*m->range));
	m->params.dptr = m->range ? cuda_address_reserve(round_up(bytes, HEAP_BLOCK_BYTES),
							 CUDA_GRAPH_STORE_UNIT_BYTES, 0) :
				    0;
	if (!m->params.dptr)
		goto out_free;
	*m->range = (struct cuda_range){
		.start = m->params.dptr, .size_bytes = bytes, .kind = RANGE_GRAPH, .dev = m->dev
	};
	if (cuda_range_insert(m->range) == 0)
		return 0;
	cuda_address_free(m->params.dptr, round_up(bytes, HEAP_BLOCK_BYTES));
out_free:
	free(m->range);
	return -1;
}

/* A copy of the list of accesses; NULL when host memory is out. */
static CUmemAccessDesc *copy_list(const CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	size_t bytes = p->accessDescCount * sizeof(CUmemAccessDesc);
	CUmemAccessDesc *list = malloc(bytes + 1);

	if (list && bytes)
		memcpy(list, p->accessDescs, bytes);
	return list;
}

struct cuda_graph_memory *cuda_graph_memory_new(const CUDA_MEM_ALLOC_NODE_PARAMS *params,
						uint64_t owner_id, uint64_t devices)
{
	struct cuda_graph_memory *m = calloc(1, sizeof(*m));
	CUmemAccessDesc *list = copy_list(params);

	if (!m || !list)
		goto out_free;
	m->params = *params;
	m->params.accessDescs = list;
	m->dev = params->poolProps.location.id;
	m->devices = devices;
	m->owner_id = owner_id;
	if (reserve(m) != 0)
		goto out_free;
	m->next = memories;
	memories = m;
	return m;

out_free:
	free(list);
	free(m);
	return NULL;
}

/* The allocation of a node that allocates one; NULL for other nodes. */
static struct cuda_graph_memory *allocated(const struct cuda_program *program, int i)
{
	return cuda_graph_memory_of(program->work[i], CU_GRAPH_NODE_TYPE_MEM_ALLOC);
}

static struct cuda_graph_memory *freed(const struct cuda_program *program, int i)
{
	return cuda_graph_memory_of(program->work[i], CU_GRAPH_NODE_TYPE_MEM_FREE);
}

bool cuda_graph_memory_is_in(const struct cuda_program *program)
{
	for (int i = 0; i < program->count; i++)
		if (allocated(program, i) || freed(program, i))
			return true;
	return false;
}

CUresult cuda_graph_memory_claim(const struct cuda_program *program)
{
	for (int i = 0; i < program->count; i++)
		if (allocated(program, i) && allocated(program, i)->is_claimed)
			return CUDA_ERROR_NOT_SUPPORTED;
	for (int i = 0; i < program->count; i++)
		if (allocated(program, i))
			allocated(program, i)->is_claimed = true;
	return CUDA_SUCCESS;
}

void cuda_graph_memory_unclaim(const struct cuda_program *program)
{
	for (int i = 0; i < program->count; i++)
		if (allocated(program, i))
			allocated(program, i)->is_claimed = false;
}

static bool is_resting(const struct cuda_graph_memory *m)
{
	return m->uses == 0 && !m->is_unfreed;
}

/* The allocation of node i, if it is on the device and has no memory yet. */
static struct cuda_graph_memory *unplaced(const struct cuda_program *program, int i, CUdevice dev)
{
	struct cuda_graph_memory *m = allocated(program, i);

	return m && m->dev == dev && !m->chunk ? m : NULL;
}

/* Shows the chunk's memory from `at` on at an address. */
static int show(const struct cuda_graph_chunk *chunk, uint64_t at, uint64_t bytes,
		CUdeviceptr address)
{
	for (int i = 0; i < chunk->count && bytes; i++) {
		const struct piece *p = &chunk->pieces[i];
		uint64_t part_bytes;

		if (at >= p->bytes) {
			at -= p->bytes;
			continue;
		}
		part_bytes = p->bytes - at < bytes ? p->bytes - at : bytes;
		if (cuda_heap_alias(p->physical + at, part_bytes, address) != 0)
			return -1;
		at = 0;
		address += part_bytes;
		bytes -= part_bytes;
	}
	return 0;
}

/* Puts what has no memory yet into the chunk; its last user gives it back. */
static CUresult fill(struct cuda_graph_chunk *chunk, const struct cuda_program *program,
		     CUdevice dev)
{
	CUresult res = CUDA_SUCCESS;
	uint64_t at = 0;

	chunk->memories++;
	for (int i = 0; i < program->count; i++) {
		struct cuda_graph_memory *m = unplaced(program, i, dev);

		if (!m)
			continue;
		if (show(chunk, at, m->taken_bytes, m->params.dptr) != 0) {
			res = CUDA_ERROR_OUT_OF_MEMORY;
			break;
		}
		at += m->taken_bytes;
		m->chunk = chunk;
		chunk->memories++;
	}
	put_chunk(chunk);
	return res;
}

/* Grows to `bytes` at least. */
static int grow_chunk(struct cuda_graph_chunk *chunk, uint64_t bytes)
{
	struct piece piece = { .bytes = bytes - chunk->bytes }, *pieces;

	pieces = realloc(chunk->pieces, (size_t)(chunk->count + 1) * sizeof(*pieces));
	if (!pieces)
		return -1;
	chunk->pieces = pieces;
	if (cuda_graph_store_take(chunk->dev, &piece.bytes, &piece.physical) != 0)
		return -1;
	pieces[chunk->count++] = piece;
	chunk->bytes += piece.bytes;
	return 0;
}

static struct cuda_graph_chunk *new_chunk(CUdevice dev, uint64_t bytes)
{
	struct cuda_graph_chunk *chunk = calloc(1, sizeof(*chunk));

	if (!chunk)
		return NULL;
	chunk->dev = dev;
	if (grow_chunk(chunk, bytes) != 0) {
		free(chunk->pieces);
		free(chunk);
		return NULL;
	}
	chunk->next = chunks;
	chunks = chunk;
	return chunk;
}

/* A chunk whose users have gone before when work of the stream comes to it: what it lacks it grows. */
static struct cuda_graph_chunk *find_chunk(CUdevice dev, const struct CUstream_st *stream)
{
	for (struct cuda_graph_chunk *c = chunks; c; c = c->next)
		if (c->dev == dev && c->stream == stream && !c->is_kept)
			return c;
	return NULL;
}

static bool frees_all(const struct cuda_program *program)
{
	for (int i = 0; i < program->count; i++) {
		bool is_freed = !allocated(program, i);

		for (int k = 0; k < program->count && !is_freed; k++)
			is_freed = freed(program, k) == allocated(program, i);
		if (!is_freed)
			return false;
	}
	return true;
}

static CUresult place(const struct cuda_program *program, CUdevice dev,
		      const struct CUstream_st *stream)
{
	bool is_kept = !frees_all(program);
	struct cuda_graph_chunk *chunk;
	uint64_t bytes = 0;

	for (int i = 0; i < program->count; i++)
		if (unplaced(program, i, dev))
			bytes += unplaced(program, i, dev)->taken_bytes;
	if (bytes == 0)
		return CUDA_SUCCESS;
	chunk = is_kept ? NULL : find_chunk(dev, stream);
	if (chunk && chunk->bytes < bytes && grow_chunk(chunk, bytes) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!chunk)
		chunk = new_chunk(dev, bytes);
	if (!chunk)
		return CUDA_ERROR_OUT_OF_MEMORY;
	chunk->stream = stream;
	chunk->is_kept = is_kept;
	return fill(chunk, program, dev);
}

/* It has all its memory, and nobody in another stream may be in that. */
static bool is_placed(const struct cuda_program *program, const struct CUstream_st *stream)
{
	for (int i = 0; i < program->count; i++) {
		const struct cuda_graph_memory *m = allocated(program, i);

		if (m && (!m->chunk || (is_resting(m) && m->chunk->stream != stream)))
			return false;
	}
	return true;
}

CUresult cuda_graph_memory_place(const struct cuda_program *program,
				 const struct CUstream_st *stream)
{
	if (is_placed(program, stream))
		return CUDA_SUCCESS;
	/* One chunk has it all, and graphs that rest leave theirs to this one. */
	for (CUdevice dev = 0; cuda_device_is_valid(dev); dev++) {
		CUresult res;

		cuda_graph_memory_rest(dev);
		res = place(program, dev, stream);
		if (res != CUDA_SUCCESS)
			return res;
	}
	return CUDA_SUCCESS;
}

/* Notes which allocations the program frees itself. */
static void note_frees(const struct cuda_program *program)
{
	for (int i = 0; i < program->count; i++)
		if (allocated(program, i))
			allocated(program, i)->is_freed_here = false;
	for (int i = 0; i < program->count; i++)
		if (freed(program, i))
			freed(program, i)->is_freed_here = true;
}

/* Allocations of an earlier launch must be freed by now, and what another graph allocates must be
 * there to be freed. */
static CUresult check_launch(const struct cuda_program *program, bool frees_itself)
{
	for (int i = 0; i < program->count; i++) {
		const struct cuda_graph_memory *m = allocated(program, i);

		if (m && m->is_unfreed && !frees_itself)
			return CUDA_ERROR_INVALID_VALUE;
		m = freed(program, i);
		if (m && m->is_freed_by_other && !m->is_unfreed)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuda_graph_memory_launch(const struct cuda_program *program,
				  const struct CUstream_st *stream, bool frees_itself)
{
	CUresult res = check_launch(program, frees_itself);

	if (res == CUDA_SUCCESS)
		res = cuda_graph_memory_place(program, stream);
	if (res != CUDA_SUCCESS)
		return res;
	note_frees(program);
	for (int i = 0; i < program->count; i++) {
		struct cuda_graph_memory *m = allocated(program, i);

		if (m) {
			m->uses++;
			set_unfreed(m, !m->is_freed_here);
		}
		m = freed(program, i);
		if (m) {
			m->uses++;
			set_unfreed(m, false);
		}
	}
	return CUDA_SUCCESS;
}

void cuda_graph_memory_done(const struct cuda_program *program)
{
	for (int i = 0; i < program->count; i++) {
		if (allocated(program, i))
			allocated(program, i)->uses--;
		if (freed(program, i))
			freed(program, i)->uses--;
	}
}

CUresult cuda_graph_memory_free(CUdeviceptr address, struct CUctx_st *ctx)
{
	struct cuda_graph_memory *m;

	for (int pass = 0;; pass++) {
		m = cuda_graph_memory_find(address);
		if (!m || !m->is_unfreed)
			return CUDA_ERROR_INVALID_VALUE;
		if (pass)
			break;
		cuda_stream_drain(ctx);
	}
	set_rights(m, 0);
	set_unfreed(m, false);
	return ctx->error;
}

CUresult cuda_graph_memory_free_async(CUdeviceptr address, struct CUstream_st *stream)
{
	struct cuda_graph_memory *m = cuda_graph_memory_find(address);
	struct cuda_work *work;

	if (!m || !m->is_unfreed)
		return CUDA_ERROR_INVALID_VALUE;
	work = new_work(&late_ops, m);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->uses++;
	set_unfreed(m, false);
	return cuda_stream_enqueue(stream, work);
}

void cuda_graph_memory_rest(CUdevice dev)
{
	for (struct cuda_graph_memory *m = memories; m; m = m->next)
		if (m->dev == dev && is_resting(m))
			unplace(m);
}

void cuda_graph_memory_empty_device(CUdevice dev)
{
	struct cuda_graph_memory *next;

	for (struct cuda_graph_memory *m = memories; m; m = next) {
		next = m->next;
		if (m->dev == dev)
			set_unfreed(m, false);
	}
	cuda_graph_memory_rest(dev);
	cuda_graph_store_trim(dev);
}
