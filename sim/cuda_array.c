#include "cuda_array.h"

#include <stdlib.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_memory.h"
#include "cuda_object.h"
#include "cuda_stream.h"
#include "cuda_tile.h"

enum { PITCH_BYTES = 128, TILE_ROWS = 8, LEVELS = 32 };
enum { LINE_WIDTH = 131072, AREA_WIDTH = 131072, AREA_HEIGHT = 65536, BOX_SIDE = 16384 };
enum { LAYERS = 2048, KNOWN_FLAGS = 0xff, FLAGS_NOT_HERE = 0x80, LAST_FORMAT = 0xcb };

struct CUmipmappedArray_st {
	struct CUctx_st *ctx;
	unsigned levels;
	struct CUarray_st *level[LEVELS];
	struct CUmipmappedArray_st *next, **link;
};

static struct CUarray_st *arrays;           /* the driver's lock */
static struct CUmipmappedArray_st *mipmaps; /* the driver's lock */

struct CUarray_st *cuda_array_find(CUarray handle)
{
	return cuda_object_is(OBJECT_ARRAY, handle) ? handle : NULL;
}

static uint64_t format_bytes(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

static bool is_size_valid(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	if (d->Width == 0)
		return false;
	if (d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP))
		return d->Width <= AREA_WIDTH && d->Height <= AREA_HEIGHT && d->Depth &&
		       d->Depth <= LAYERS;
	if (d->Depth)
		return d->Height && d->Width <= BOX_SIDE && d->Height <= BOX_SIDE &&
		       d->Depth <= BOX_SIDE;
	return d->Height ? d->Width <= AREA_WIDTH && d->Height <= AREA_HEIGHT :
			   d->Width <= LINE_WIDTH;
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	if (d->Flags & ~(unsigned)KNOWN_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!format_bytes(d->Format))
		return (int)d->Format > CU_AD_FORMAT_FLOAT && (int)d->Format <= LAST_FORMAT ?
			       CUDA_ERROR_NOT_SUPPORTED :
			       CUDA_ERROR_INVALID_VALUE;
	if (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_size_valid(d))
		return CUDA_ERROR_INVALID_VALUE;
	/* A sparse one has rows. */
	if (cuda_tile_is_sparse(d->Flags) && d->Height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	return d->Flags & FLAGS_NOT_HERE ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static void delete_array(struct CUarray_st *a)
{
	cuda_object_remove(a);
	cuda_tile_end(a);
	if (a->memory)
		cuda_memory_delete(a->memory);
	*a->link = a->next;
	if (a->next)
		a->next->link = a->link;
	free(a);
}

static CUresult new_array(struct CUctx_st *ctx, const CUDA_ARRAY3D_DESCRIPTOR *d,
			  struct CUarray_st **out)
{
	uint64_t rows = d->Height ? d->Height : 1, slices = d->Depth ? d->Depth : 1;
	struct CUarray_st *a = calloc(1, sizeof(*a));

	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->ctx = ctx;
	a->desc = *d;
	a->element_bytes = format_bytes(d->Format) * d->NumChannels;
	a->pitch_bytes = (d->Width * a->element_bytes + PITCH_BYTES - 1) / PITCH_BYTES *
			 PITCH_BYTES;
	a->slice_bytes = a->pitch_bytes * ((rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS);
	a->next = arrays;
	a->link = &arrays;
	if (arrays)
		arrays->link = &a->next;
	arrays = a;
	if (!cuda_tile_is_sparse(d->Flags))
		a->memory = cuda_memory_new(ctx, a->slice_bytes * slices, RANGE_ARRAY);
	if ((!a->memory && !cuda_tile_is_sparse(d->Flags)) ||
	    cuda_object_add(OBJECT_ARRAY, a) != 0) {
		delete_array(a);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = a;
	return CUDA_SUCCESS;
}

static CUresult create(enum cuda_id id, CUarray *out_array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = out_array && d ? check(d) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_stream_check_unsafe(ctx);
	if (res == CUDA_SUCCESS)
		res = new_array(ctx, d, out_array);
	return cuda_call_end(res);
}

CUresult cuArray3DCreate_v2(CUarray *out_array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return create(CUDA_ID_cuArray3DCreate_v2, out_array, d);
}

CUresult cuArrayCreate_v2(CUarray *out_array, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR deep;

	if (!d)
		return create(CUDA_ID_cuArrayCreate_v2, out_array, NULL);
	deep = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = d->Width,
					  .Height = d->Height,
					  .Format = d->Format,
					  .NumChannels = d->NumChannels };
	return create(CUDA_ID_cuArrayCreate_v2, out_array, &deep);
}

/* Starts a call about an array that exists. */
static CUresult begin(enum cuda_id id, CUarray array, const void *out)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_array_find(array))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	return out ? CUDA_SUCCESS : cuda_call_end(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out_desc, CUarray array)
{
	CUresult res = begin(CUDA_ID_cuArray3DGetDescriptor_v2, array, out_desc);

	if (res != CUDA_SUCCESS)
		return res;
	*out_desc = array->desc;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *out_desc, CUarray array)
{
	CUresult res = begin(CUDA_ID_cuArrayGetDescriptor_v2, array, out_desc);

	if (res != CUDA_SUCCESS)
		return res;
	*out_desc = (CUDA_ARRAY_DESCRIPTOR){ .Width = array->desc.Width,
					     .Height = array->desc.Height,
					     .Format = array->desc.Format,
					     .NumChannels = array->desc.NumChannels };
	return cuda_call_end(CUDA_SUCCESS);
}

/* Waits for the work of its context. A level goes with its mipmap only. */
CUresult cuArrayDestroy(CUarray array)
{
	CUresult res = begin(CUDA_ID_cuArrayDestroy, array, array);

	if (res != CUDA_SUCCESS)
		return res;
	if (array->mipmap)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	cuda_stream_drain(array->ctx);
	if (cuda_array_find(array))
		delete_array(array);
	return cuda_call_end(CUDA_SUCCESS);
}

static void delete_mipmap(struct CUmipmappedArray_st *m)
{
	cuda_object_remove(m);
	for (unsigned i = 0; i < m->levels; i++)
		delete_array(m->level[i]);
	*m->link = m->next;
	if (m->next)
		m->next->link = m->link;
	free(m);
}

static size_t half(size_t side)
{
	return side > 1 ? side / 2 : side;
}

static CUresult new_mipmap(struct CUctx_st *ctx, CUDA_ARRAY3D_DESCRIPTOR d, unsigned levels,
			   CUmipmappedArray *out)
{
	struct CUmipmappedArray_st *m = calloc(1, sizeof(*m));

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->ctx = ctx;
	m->next = mipmaps;
	m->link = &mipmaps;
	if (mipmaps)
		mipmaps->link = &m->next;
	mipmaps = m;
	for (unsigned i = 0; i < levels; i++) {
		if (new_array(ctx, &d, &m->level[i]) != CUDA_SUCCESS)
			goto out_delete;
		m->level[i]->mipmap = m;
		m->levels++;
		d.Width = half(d.Width);
		d.Height = half(d.Height);
		if (!(d.Flags & CUDA_ARRAY3D_LAYERED))
			d.Depth = half(d.Depth);
	}
	if (cuda_object_add(OBJECT_MIPMAP, m) != 0)
		goto out_delete;
	*out = m;
	return CUDA_SUCCESS;

out_delete:
	delete_mipmap(m);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* How many levels there are until every side is 1. */
static unsigned most_levels(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	size_t side = d->Width;
	unsigned levels = 1;

	if (side < d->Height)
		side = d->Height;
	if (!(d->Flags & CUDA_ARRAY3D_LAYERED) && side < d->Depth)
		side = d->Depth;
	while (side > 1) {
		side /= 2;
		levels++;
	}
	return levels;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *out_mipmap, const CUDA_ARRAY3D_DESCRIPTOR *d,
				unsigned int levels)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuMipmappedArrayCreate, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = out_mipmap && d && levels ? check(d) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_stream_check_unsafe(ctx);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	if (levels > most_levels(d))
		levels = most_levels(d);
	return cuda_call_end(new_mipmap(ctx, *d, levels, out_mipmap));
}

CUresult cuMipmappedArrayGetLevel(CUarray *out_array, CUmipmappedArray mipmap, unsigned int level)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuMipmappedArrayGetLevel);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_MIPMAP, mipmap))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	if (!out_array || level >= mipmap->levels)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_array = mipmap->level[level];
	return cuda_call_end(CUDA_SUCCESS);
}

struct CUarray_st *cuda_array_level(CUmipmappedArray mipmap, unsigned level)
{
	return cuda_object_is(OBJECT_MIPMAP, mipmap) && level < mipmap->levels ?
		       mipmap->level[level] :
		       NULL;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuMipmappedArrayDestroy);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_MIPMAP, mipmap))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	cuda_stream_drain(mipmap->ctx);
	if (cuda_object_is(OBJECT_MIPMAP, mipmap))
		delete_mipmap(mipmap);
	return cuda_call_end(CUDA_SUCCESS);
}

void cuda_array_delete_all(struct CUctx_st *ctx)
{
	struct CUmipmappedArray_st *next_mipmap;
	struct CUarray_st *next;

	for (struct CUmipmappedArray_st *m = mipmaps; m; m = next_mipmap) {
		next_mipmap = m->next;
		if (m->ctx == ctx)
			delete_mipmap(m);
	}
	for (struct CUarray_st *a = arrays; a; a = next) {
		next = a->next;
		if (a->ctx == ctx)
			delete_array(a);
	}
}
