/*
 * Arrays and mipmaps. How much memory one takes no call tells: rows and slices are padded as the
 * card likes. The most that it can be is reserved, and it is charged by what the driver's figure
 * grew.
 */
#include "base/bytes.h"
#include "core/gate.h"
#include "core/tiles.h"
#include "hook/enter.h"
#include "hook/output.h"
#include "hook/room.h"

#include <errno.h>

/* Formats of packed 4 by 4 texels: at most 16 bytes for them, whatever the channels. */
enum { FORMAT_BC_FIRST = 0x91, FORMAT_BC_LAST = 0x9e };

static bool is_packed(CUarray_format format)
{
	return (int)format >= FORMAT_BC_FIRST && (int)format <= FORMAT_BC_LAST;
}

/* Bytes of a channel; 0 of the formats with other names, of which some pack several channels. */
static uint64_t channel_bytes(CUarray_format format)
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

/* Tiles: rows in bytes, and how many rows and slices one has at least and at most. */
enum { ROW_BYTES = 128, ROWS_LEAST = 8, ROWS_MOST = 256, SLICES_MOST = 32 };

/* An array as any of the descriptors has it. */
struct shape {
	uint64_t width, height, depth;
	CUarray_format format;
	unsigned channels, flags, levels;
};

/* A side of level `level`; never 0. */
static uint64_t side(uint64_t side_of_first, unsigned level)
{
	return level < 64 && side_of_first >> level ? side_of_first >> level : 1;
}

/* The most that a texel takes. */
static uint64_t texel_bytes(const struct shape *s)
{
	uint64_t each = channel_bytes(s->format);

	if (is_packed(s->format))
		return 1;
	return (each ? each : 4) * side(s->channels, 0);
}

/*
 * A side made whole tiles: these are powers of two, no larger than what holds the side nor than
 * `most`, and at least `least`.
 */
static uint64_t whole_tiles(uint64_t length, uint64_t least, uint64_t most)
{
	uint64_t tile = least;

	while (tile < length && tile < most)
		tile *= 2;
	return bytes_round_up(length, tile);
}

/*
 * The most bytes that one level takes, padded as the card likes: 1-D arrays were seen to take 8
 * times their row (docs/real-gpu.md). False: more than 64 bits hold.
 */
static bool level_bytes(const struct shape *s, unsigned level, uint64_t *out_bytes)
{
	bool is_layered = s->flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	uint64_t row = bytes_round_up(side(s->width, level) * texel_bytes(s), ROW_BYTES);
	uint64_t rows = whole_tiles(side(s->height, level), ROWS_LEAST, ROWS_MOST);
	uint64_t slices = is_layered ? side(s->depth, 0) :
				       whole_tiles(side(s->depth, level), 1, SLICES_MOST);

	return !__builtin_mul_overflow(row, rows, out_bytes) &&
	       !__builtin_mul_overflow(*out_bytes, slices, out_bytes);
}

/* Levels beyond the last one of a single texel are not there; no device has sides so long. */
enum { LEVELS_MAX = 64, SIDE_MAX = 1 << 18, SIDE_3D_MAX = 1 << 15, CHANNELS_MAX = 4 };

#define KNOWN_FLAGS                                                                            \
	(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |             \
	 CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |                            \
	 CUDA_ARRAY3D_COLOR_ATTACHMENT | CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | \
	 CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)

/* Arrays that take no memory, which is mapped in them later (core/tiles.h). */
#define TILED_FLAGS (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

/*
 * False for what the driver refuses for its arguments, which it looks at before it looks for room.
 * Where it does not after all, nothing is lost: what it took is measured.
 */
static bool is_plausible(const struct shape *s)
{
	uint64_t most = s->depth ? SIDE_3D_MAX : SIDE_MAX;

	if (!s->format || s->flags & ~(unsigned)KNOWN_FLAGS || !s->channels ||
	    s->channels > CHANNELS_MAX || (s->channels == 3 && channel_bytes(s->format)))
		return false;
	return s->width && s->width <= most && s->height <= most && s->depth <= most;
}

/*
 * The most bytes that it takes, so that it never passes the limit; what it takes less is given back
 * after the call. 0 for what takes no memory (sparse, deferred) or what the driver will refuse.
 */
static uint64_t bound(const struct shape *s)
{
	uint64_t sum = 0, bytes;

	if (s->flags & TILED_FLAGS || !is_plausible(s))
		return 0;
	for (unsigned l = 0; l < s->levels && l < LEVELS_MAX; l++) {
		if (!level_bytes(s, l, &bytes))
			return UINT64_MAX;
		if (bytes > TRACK_SMALL_BYTES)
			bytes = bytes_round_up(bytes, TRACK_BLOCK_BYTES);
		sum = bytes_sum(sum, bytes);
	}
	return sum;
}

static struct shape shape_of_3d(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	return (struct shape){ d->Width,       d->Height, d->Depth, d->Format,
			       d->NumChannels, d->Flags,  levels };
}

/* What is mapped in such an array ends with it; what stood at that place ended unseen. */
static void note_tiles(const struct shape *s, const void *handle, const void *ctx)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };

	if (!(s->flags & TILED_FLAGS))
		return;
	charge_begin();
	tiles_made(handle, ctx, s->flags & CUDA_ARRAY3D_DEFERRED_MAPPING, freed_bytes);
	charge_stale_handles(freed_bytes);
	charge_over();
}

/* One create call with its arguments bound: the forms differ in those alone. */
struct create {
	void *out_handle; /* CUarray * or CUmipmappedArray * */
	const void *desc;
	unsigned levels;
};

typedef CUresult create_fn(const struct create *c);
typedef CUresult destroy_fn(const void *handle);

/* Ends what is mapped in it too. */
static CUresult call_to_end(const void *handle, destroy_fn *call)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };
	struct tiles_array tiles;
	CUresult res;

	if (!init_is_member())
		return GATE_CALL(call(handle));
	charge_begin();
	tiles = tiles_take(handle);
	res = GATE_CALL(call(handle));
	if (res == CUDA_SUCCESS)
		tiles_ended(tiles, freed_bytes);
	else
		tiles_put_back(tiles);
	charge_freed_handles(freed_bytes);
	charge_over();
	return res;
}

/*
 * Small ones share what the card gave for the first of them, and it stays until the last has gone:
 * so each end waits for what the card says.
 */
static CUresult destroy(const void *handle, destroy_fn *call)
{
	struct track_node *node;
	struct dev dev = { 0 };
	CUresult res;

	node = init_is_member() ? charge_take((uint64_t)(uintptr_t)handle, &dev) : NULL;
	res = call_to_end(handle, call);
	if (node && res == CUDA_SUCCESS)
		charge_end_later(node, dev);
	else if (node)
		charge_put_back(node, dev);
	return res;
}

static CUresult create(const struct create *c, const struct shape *shape, create_fn *call,
		       destroy_fn *undo)
{
	enum enter what = ENTER_FORWARD;
	struct charge charge;
	const void *ctx, *handle;
	struct output was;
	uint64_t most_bytes;
	struct dev dev;
	CUresult res;
	int rc;

	if (shape)
		what = enter_current(&dev, &ctx);
	if (what == ENTER_REFUSE)
		return enter_refusal();
	if (what == ENTER_FORWARD)
		return GATE_CALL(call(c));
	most_bytes = bound(shape);
	rc = charge_reserve_object(&charge, dev, ctx, most_bytes);
	if (rc < 0)
		return enter_refused_now(rc, dev, most_bytes);
	was = OUTPUT_SAVE((const void **)c->out_handle);
	res = ROOM_CALL(dev, most_bytes, call(c));
	if (res != CUDA_SUCCESS) {
		charge_cancel(&charge);
		return res;
	}
	handle = *(const void **)c->out_handle;
	rc = charge_commit_object(&charge, handle);
	if (rc == 0) {
		note_tiles(shape, handle, ctx);
		return CUDA_SUCCESS;
	}
	if (rc == -EOVERFLOW) {
		destroy(handle, undo);
	} else {
		GATE_CALL(undo(handle));
		charge_cancel(&charge);
	}
	output_restore(&was);
	return enter_refused(-EDQUOT, dev, most_bytes);
}

static CUresult destroy_array(const void *handle)
{
	return real.cuArrayDestroy((CUarray)(uintptr_t)handle);
}

static CUresult destroy_mipmap(const void *handle)
{
	return real.cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)handle);
}

static CUresult array_v1(const struct create *c)
{
	return real.cuArrayCreate(c->out_handle, c->desc);
}

static CUresult array_v2(const struct create *c)
{
	return real.cuArrayCreate_v2(c->out_handle, c->desc);
}

static CUresult array_3d_v1(const struct create *c)
{
	return real.cuArray3DCreate(c->out_handle, c->desc);
}

static CUresult array_3d_v2(const struct create *c)
{
	return real.cuArray3DCreate_v2(c->out_handle, c->desc);
}

static CUresult mipmap(const struct create *c)
{
	return real.cuMipmappedArrayCreate(c->out_handle, c->desc, c->levels);
}

CUresult hook_cuArrayCreate(CUarray *out_handle, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
	struct create c = { .out_handle = out_handle, .desc = desc };
	struct shape s;

	if (!ENTER_HAS(cuArrayCreate))
		return enter_missing();
	if (!out_handle || !desc)
		return GATE_CALL(array_v1(&c));
	s = (struct shape){ .width = desc->Width,
			    .height = desc->Height,
			    .format = desc->Format,
			    .channels = desc->NumChannels,
			    .levels = 1 };
	return create(&c, &s, array_v1, destroy_array);
}

CUresult hook_cuArrayCreate_v2(CUarray *out_handle, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	struct create c = { .out_handle = out_handle, .desc = desc };
	struct shape s;

	if (!ENTER_HAS(cuArrayCreate_v2))
		return enter_missing();
	if (!out_handle || !desc)
		return GATE_CALL(array_v2(&c));
	s = (struct shape){ .width = desc->Width,
			    .height = desc->Height,
			    .format = desc->Format,
			    .channels = desc->NumChannels,
			    .levels = 1 };
	return create(&c, &s, array_v2, destroy_array);
}

CUresult hook_cuArray3DCreate(CUarray *out_handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
	struct create c = { .out_handle = out_handle, .desc = desc };
	struct shape s;

	if (!ENTER_HAS(cuArray3DCreate))
		return enter_missing();
	if (!out_handle || !desc)
		return GATE_CALL(array_3d_v1(&c));
	s = (struct shape){ .width = desc->Width,
			    .height = desc->Height,
			    .depth = desc->Depth,
			    .format = desc->Format,
			    .channels = desc->NumChannels,
			    .flags = desc->Flags,
			    .levels = 1 };
	return create(&c, &s, array_3d_v1, destroy_array);
}

CUresult hook_cuArray3DCreate_v2(CUarray *out_handle, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct create c = { .out_handle = out_handle, .desc = desc };
	struct shape s;

	if (!ENTER_HAS(cuArray3DCreate_v2))
		return enter_missing();
	if (!out_handle || !desc)
		return GATE_CALL(array_3d_v2(&c));
	s = shape_of_3d(desc, 1);
	return create(&c, &s, array_3d_v2, destroy_array);
}

CUresult hook_cuMipmappedArrayCreate(CUmipmappedArray *out_handle,
				     const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
	struct create c = { out_handle, desc, levels };
	struct shape s;

	if (!ENTER_HAS(cuMipmappedArrayCreate))
		return enter_missing();
	if (!out_handle || !desc)
		return GATE_CALL(mipmap(&c));
	s = shape_of_3d(desc, levels);
	return create(&c, &s, mipmap, destroy_mipmap);
}

CUresult hook_cuArrayDestroy(CUarray array)
{
	return ENTER_HAS(cuArrayDestroy) ? destroy(array, destroy_array) : enter_missing();
}

CUresult hook_cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	return ENTER_HAS(cuMipmappedArrayDestroy) ? destroy(array, destroy_mipmap) :
						    enter_missing();
}
