/* Memory by handle that is mapped in sparse arrays and mipmaps, a tile or many at a time. */
#include "core/gate.h"
#include "core/tiles.h"
#include "drv/gpu_tiles.h"
#include "hook/enter.h"

#include <stdlib.h>
#include <string.h>

/* One call, with the program's list as it was when it came: another thread may write into that. */
struct call {
	CUarrayMapInfo *infos;
	struct tiles_step *steps;
	unsigned count;
	CUstream stream; /* by a name that is the same for both forms */
};

typedef CUresult map_fn(CUarrayMapInfo *infos, unsigned count, CUstream stream);

static bool is_map(const CUarrayMapInfo *info)
{
	return info->memOperationType == CU_MEM_OPERATION_TYPE_MAP;
}

static const void *array_of(const CUarrayMapInfo *info)
{
	return info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY ?
		       (const void *)info->resource.mipmap :
		       (const void *)info->resource.array;
}

static struct tiles_region region_of(const CUarrayMapInfo *info)
{
	const __typeof__(info->subresource.sparseLevel) *level = &info->subresource.sparseLevel;
	const __typeof__(info->subresource.miptail) *tail = &info->subresource.miptail;

	if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
		return (struct tiles_region){ .kind = TILES_TAIL,
					      .layer = tail->layer,
					      .from = { 0, 0, tail->offset },
					      .extent = { 1, 1, tail->size } };
	return (struct tiles_region){
		.kind = TILES_LEVEL,
		.level = level->level,
		.layer = level->layer,
		.from = { level->offsetZ, level->offsetY, level->offsetX },
		.extent = { level->extentDepth, level->extentHeight, level->extentWidth },
	};
}

static void end(struct call *c)
{
	free(c->infos);
	free(c->steps);
}

static void discard(struct call *c)
{
	for (unsigned i = 0; i < c->count; i++)
		tiles_discard(c->steps[i].mapping);
	end(c);
}

/* False: there is no memory for it, and nothing is left. */
static bool prepare(struct call *c, const CUarrayMapInfo *infos)
{
	c->infos = calloc(c->count, sizeof(*c->infos));
	c->steps = calloc(c->count, sizeof(*c->steps));
	if (!c->infos || !c->steps) {
		end(c);
		return false;
	}
	memcpy(c->infos, infos, c->count * sizeof(*infos));
	for (unsigned i = 0; i < c->count; i++) {
		c->steps[i] = (struct tiles_step){ .array = array_of(&c->infos[i]),
						   .region = region_of(&c->infos[i]) };
		if (!is_map(&c->infos[i]))
			continue;
		c->steps[i].mapping = tiles_prepare();
		if (!c->steps[i].mapping) {
			discard(c);
			return false;
		}
	}
	return true;
}

static void use(const struct call *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->steps[i].mapping)
			tiles_use(c->steps[i].mapping, c->infos[i].memHandle.memHandle);
}

/* The driver made none of it. */
static void refused(const struct call *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->steps[i].mapping)
			charge_freed_handle(tiles_refused(c->steps[i].mapping));
}

static CUresult map(struct call *c, const CUarrayMapInfo *infos, map_fn *fn, CUstream stream)
{
	struct stage *stage;
	uint64_t mark;
	CUresult res;

	if (!prepare(c, infos))
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* What other streams have come to by now is mapped for sure, when this one unmaps it. */
	gpu_tiles_settle();
	charge_begin();
	use(c);
	mark = tiles_mark();
	res = GATE_CALL(fn(c->infos, c->count, stream));
	if (res == CUDA_SUCCESS) {
		stage = gpu_tiles_stage(c->stream);
		tiles_call(c->steps, c->count, mark, stage);
		stage_drop(stage);
	} else {
		refused(c);
	}
	charge_over();
	end(c);
	return res;
}

/* What has no list the driver refuses, or does nothing. */
static bool is_followed(const CUarrayMapInfo *infos, unsigned count)
{
	return infos && count && init_is_member();
}

CUresult hook_cuMemMapArrayAsync(CUarrayMapInfo *infos, unsigned int count, CUstream stream)
{
	struct call c = { .count = count, .stream = stream };

	if (!ENTER_HAS(cuMemMapArrayAsync))
		return enter_missing();
	if (!is_followed(infos, count))
		return GATE_CALL(real.cuMemMapArrayAsync(infos, count, stream));
	return map(&c, infos, real.cuMemMapArrayAsync, stream);
}

CUresult hook_cuMemMapArrayAsync_ptsz(CUarrayMapInfo *infos, unsigned int count, CUstream stream)
{
	struct call c = { .count = count, .stream = stream ? stream : CU_STREAM_PER_THREAD };

	if (!ENTER_HAS(cuMemMapArrayAsync_ptsz))
		return enter_missing();
	if (!is_followed(infos, count))
		return GATE_CALL(real.cuMemMapArrayAsync_ptsz(infos, count, stream));
	return map(&c, infos, real.cuMemMapArrayAsync_ptsz, stream);
}
