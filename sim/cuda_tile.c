#include "cuda_tile.h"

#include <stdlib.h>

#include "cuda_array.h"
#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_handle.h"
#include "cuda_object.h"
#include "cuda_stream.h"
#include "cuda_work.h"

enum { TILE_BYTES = 64 << 10, SIDES = 3 };

/* Columns, rows, slices. In texels, or in tiles. */
struct box {
	uint64_t from[SIDES], extent[SIDES];
};

/* One step of a call, its region in tiles. */
struct step {
	struct CUarray_st *array; /* the level's own, of a mipmap */
	unsigned layer;
	struct box box;
	struct cuda_handle *handle; /* has a reference; NULL: to unmap */
};

struct cuda_tile_call {
	unsigned count;
	bool has_run;
	struct step step[];
};

/* What a step has mapped, of which some may be unmapped. */
struct mapping {
	struct step step;
	uint64_t left; /* tiles */
	struct mapping *next;
	bool is_unmapped[];
};

static struct mapping *mappings; /* the driver's lock */

bool cuda_tile_is_sparse(unsigned flags)
{
	return flags & CUDA_ARRAY3D_SPARSE;
}

/* The sides of a tile, as in other graphics interfaces. */
static void tile_sides(const struct CUarray_st *a, uint64_t out[SIDES])
{
	static const uint64_t flat[][SIDES] = {
		{ 256, 256, 1 }, { 256, 128, 1 }, { 128, 128, 1 }, { 128, 64, 1 }, { 64, 64, 1 }
	};
	static const uint64_t deep[][SIDES] = {
		{ 64, 32, 32 }, { 32, 32, 32 }, { 32, 32, 16 }, { 32, 16, 16 }, { 16, 16, 16 }
	};
	const bool is_deep = a->desc.Depth && !(a->desc.Flags & CUDA_ARRAY3D_LAYERED);
	const int size = __builtin_ctzll(a->element_bytes);

	for (int s = 0; s < SIDES; s++)
		out[s] = is_deep ? deep[size][s] : flat[size][s];
}

static void array_sides(const struct CUarray_st *a, uint64_t out[SIDES])
{
	const bool is_layered = a->desc.Flags & CUDA_ARRAY3D_LAYERED;

	out[0] = a->desc.Width;
	out[1] = a->desc.Height;
	out[2] = a->desc.Depth && !is_layered ? a->desc.Depth : 1;
}

/* False where it does not lie in the array, tile by tile. */
static bool box_in_tiles(const struct CUarray_st *a, const struct box *texels, struct box *out)
{
	uint64_t tile[SIDES], side[SIDES];

	tile_sides(a, tile);
	array_sides(a, side);
	for (int s = 0; s < SIDES; s++) {
		const uint64_t end = texels->from[s] + texels->extent[s];

		if (texels->extent[s] == 0 || end > side[s] || texels->from[s] % tile[s] ||
		    (end % tile[s] && end != side[s]))
			return false;
		out->from[s] = texels->from[s] / tile[s];
		out->extent[s] = (texels->extent[s] + tile[s] - 1) / tile[s];
	}
	return true;
}

static uint64_t tiles_of(const struct box *box)
{
	return box->extent[0] * box->extent[1] * box->extent[2];
}

static struct CUarray_st *find_array(const CUarrayMapInfo *info)
{
	struct CUarray_st *a = NULL;

	if (info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		a = cuda_array_level(info->resource.mipmap, info->subresource.sparseLevel.level);
	else if (info->subresource.sparseLevel.level == 0)
		a = cuda_array_find(info->resource.array);
	if (!a || !cuda_tile_is_sparse(a->desc.Flags) ||
	    (info->resourceType == CU_RESOURCE_TYPE_ARRAY && a->mipmap))
		return NULL;
	return a;
}

static CUresult read_memory(const CUarrayMapInfo *info, const struct CUstream_st *stream,
			    struct step *out)
{
	struct cuda_handle *h;

	if (info->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
		return info->memHandle.memHandle ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	if (info->memOperationType != CU_MEM_OPERATION_TYPE_MAP ||
	    info->memHandleType != CU_MEM_HANDLE_TYPE_GENERIC)
		return CUDA_ERROR_INVALID_VALUE;
	h = cuda_handle_find(info->memHandle.memHandle);
	if (!h || !(h->prop.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) ||
	    h->dev != stream->ctx->dev || info->offset % TILE_BYTES ||
	    info->offset > h->size_bytes ||
	    tiles_of(&out->box) > (h->size_bytes - info->offset) / TILE_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	out->handle = h;
	return CUDA_SUCCESS;
}

/* The tail of small levels is not here. */
static CUresult read_step(const CUarrayMapInfo *info, const struct CUstream_st *stream,
			  struct step *out)
{
	const __typeof__(info->subresource.sparseLevel) *l = &info->subresource.sparseLevel;
	const struct box texels = { { l->offsetX, l->offsetY, l->offsetZ },
				    { l->extentWidth, l->extentHeight, l->extentDepth } };

	if (info->subresourceType != CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL)
		return CUDA_ERROR_NOT_SUPPORTED;
	*out = (struct step){ .array = find_array(info), .layer = l->layer };
	if (!out->array || info->flags || info->reserved[0] || info->reserved[1] ||
	    info->deviceBitMask != 1u << stream->ctx->dev ||
	    !box_in_tiles(out->array, &texels, &out->box))
		return CUDA_ERROR_INVALID_VALUE;
	return read_memory(info, stream, out);
}

static void hold(struct cuda_handle *handle)
{
	handle->references++;
	handle->tiles++;
}

static void let_go(struct cuda_handle *handle)
{
	handle->tiles--;
	cuda_handle_put(handle);
}

/* Takes what both have off the mapping. */
static void unmap(struct mapping *m, const struct step *s)
{
	const struct box *a = &m->step.box, *b = &s->box;
	uint64_t tile = 0;

	for (uint64_t z = a->from[2]; z < a->from[2] + a->extent[2]; z++)
		for (uint64_t y = a->from[1]; y < a->from[1] + a->extent[1]; y++)
			for (uint64_t x = a->from[0]; x < a->from[0] + a->extent[0]; x++, tile++) {
				if (m->is_unmapped[tile] || z - b->from[2] >= b->extent[2] ||
				    y - b->from[1] >= b->extent[1] ||
				    x - b->from[0] >= b->extent[0])
					continue;
				m->is_unmapped[tile] = true;
				m->left--;
			}
}

static void make_step(const struct step *s)
{
	struct mapping **link = &mappings, *m;

	while ((m = *link)) {
		if (m->step.array == s->array && m->step.layer == s->layer)
			unmap(m, s);
		if (m->left) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		let_go(m->step.handle);
		free(m);
	}
	if (!s->handle)
		return;
	m = calloc(1, sizeof(*m) + tiles_of(&s->box));
	if (!m) {
		let_go(s->handle);
		return;
	}
	m->step = *s;
	m->left = tiles_of(&s->box);
	m->next = mappings;
	mappings = m;
}

static CUresult run(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	(void)ctx;
	(void)turn;
	work->tiles->has_run = true;
	return CUDA_SUCCESS;
}

/* In arrays that are gone nothing is mapped. */
static void release(struct cuda_work *work)
{
	for (unsigned i = 0; i < work->tiles->count; i++) {
		const struct step *s = &work->tiles->step[i];

		if (work->tiles->has_run && cuda_array_find(s->array))
			make_step(s);
		else if (s->handle)
			let_go(s->handle);
	}
	free(work->tiles);
}

static const struct cuda_work_ops tile_ops = { .run = run, .release = release };

/* All of it is checked before any is done. */
static CUresult submit(const CUarrayMapInfo *infos, unsigned count, struct CUstream_st *stream)
{
	struct cuda_tile_call *c = calloc(1, sizeof(*c) + count * sizeof(*c->step));
	struct cuda_work *work = c ? cuda_work_new(&tile_ops) : NULL;
	CUresult res = work ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	for (unsigned i = 0; res == CUDA_SUCCESS && i < count; i++)
		res = read_step(&infos[i], stream, &c->step[i]);
	if (res != CUDA_SUCCESS) {
		free(work);
		free(c);
		return res;
	}
	c->count = count;
	for (unsigned i = 0; i < count; i++)
		if (c->step[i].handle)
			hold(c->step[i].handle);
	work->tiles = c;
	return cuda_stream_submit(stream, work);
}

static CUresult map(enum cuda_id id, enum stream_default form, const CUarrayMapInfo *infos,
		    unsigned count, CUstream handle)
{
	struct CUstream_st *stream;
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, &stream);
	if (res == CUDA_SUCCESS && stream->capture)
		res = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (res == CUDA_SUCCESS && (!infos || count == 0))
		res = CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = submit(infos, count, stream);
	return cuda_call_end(res);
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *infos, unsigned int count, CUstream stream)
{
	return map(CUDA_ID_cuMemMapArrayAsync, DEFAULT_LEGACY, infos, count, stream);
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *infos, unsigned int count, CUstream stream)
{
	return map(CUDA_ID_cuMemMapArrayAsync_ptsz, DEFAULT_PER_THREAD, infos, count, stream);
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out_sparse, CUarray array)
{
	const struct CUarray_st *a;
	uint64_t tile[SIDES];
	CUresult res = cuda_call_begin(CUDA_ID_cuArrayGetSparseProperties);

	if (res != CUDA_SUCCESS)
		return res;
	a = cuda_array_find(array);
	if (!a || !out_sparse || a->mipmap || !cuda_tile_is_sparse(a->desc.Flags))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	tile_sides(a, tile);
	*out_sparse = (CUDA_ARRAY_SPARSE_PROPERTIES){
		.tileExtent = { (unsigned)tile[0], (unsigned)tile[1], (unsigned)tile[2] }
	};
	return cuda_call_end(CUDA_SUCCESS);
}

void cuda_tile_end(const struct CUarray_st *array)
{
	struct mapping **link = &mappings, *m;

	while ((m = *link)) {
		if (m->step.array != array) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		let_go(m->step.handle);
		free(m);
	}
}
