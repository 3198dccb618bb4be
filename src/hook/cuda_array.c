/*
 * Arrays and mipmaps. How much memory one takes no call tells: rows and slices are padded as the
 * card likes. It is reserved by an estimate and charged by what the driver's figure grew.
 */
#include "hook/enter.h"

/* A texel of a format that we do not know is taken for the largest there is. */
enum { TEXEL_CHANNEL_BYTES_MAX = 4 };

static uint64_t channel_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	default:
		return TEXEL_CHANNEL_BYTES_MAX;
	}
}

/* An array as any of the descriptors has it. */
struct shape {
	uint64_t width, height, depth;
	CUarray_format format;
	unsigned channels, flags, levels;
};

static uint64_t at_least_one(uint64_t n)
{
	return n ? n : 1;
}

/*
 * Bytes of the texels; 0 for what takes no memory (sparse, deferred) or what the driver will refuse
 * (more than 64 bits hold). A mipmap's smaller levels are a third of the first, or as much again
 * for a row of one texel's height.
 */
static uint64_t estimate(const struct shape *s)
{
	uint64_t bytes;

	if (s->flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING) || s->width == 0)
		return 0;
	if (__builtin_mul_overflow(s->width, at_least_one(s->height), &bytes) ||
	    __builtin_mul_overflow(bytes, at_least_one(s->depth), &bytes) ||
	    __builtin_mul_overflow(bytes, channel_bytes(s->format) * at_least_one(s->channels),
				   &bytes) ||
	    bytes > UINT64_MAX / 4)
		return 0;
	if (s->levels > 1)
		bytes += s->height > 1 ? bytes / 3 : bytes;
	return bytes;
}

static struct shape shape_of_3d(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	return (struct shape){ d->Width, d->Height,	 d->Depth, d->Format,
			       d->NumChannels, d->Flags, levels };
}

/* One create call with its arguments bound: the forms differ in those alone. */
struct create {
	void *out_handle; /* CUarray * or CUmipmappedArray * */
	const void *desc;
	unsigned levels;
};

typedef CUresult create_fn(const struct create *c);
typedef CUresult destroy_fn(const void *handle);

static CUresult create(const struct create *c, const struct shape *shape, create_fn *call,
		       destroy_fn *undo)
{
	enum enter what = ENTER_FORWARD;
	struct charge charge;
	const void *ctx, *handle;
	struct dev dev;
	CUresult res;
	int rc;

	if (shape)
		what = enter_current(&dev, &ctx);
	if (what == ENTER_REFUSE)
		return enter_refusal();
	if (what == ENTER_FORWARD)
		return call(c);
	rc = charge_reserve_object(&charge, dev, ctx, estimate(shape));
	if (rc < 0)
		return enter_refused(rc, dev, estimate(shape));
	res = call(c);
	if (res != CUDA_SUCCESS) {
		charge_cancel(&charge);
		return res;
	}
	handle = *(const void **)c->out_handle;
	rc = charge_commit_object(&charge, handle);
	if (rc == 0)
		return CUDA_SUCCESS;
	undo(handle);
	charge_cancel(&charge);
	return enter_refused(rc, dev, estimate(shape));
}

static CUresult destroy(const void *handle, destroy_fn *call)
{
	struct track_node *node;
	struct dev dev = { 0 };
	CUresult res;

	node = init_is_member() ? charge_take((uint64_t)(uintptr_t)handle, &dev) : NULL;
	res = call(handle);
	if (node && res == CUDA_SUCCESS)
		charge_end(node, dev);
	else if (node)
		charge_put_back(node, dev);
	return res;
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
		return array_v1(&c);
	s = (struct shape){ .width = desc->Width,
			    .height = desc->Height,
			    .format = desc->Format,
			    .channels = desc->NumChannels };
	return create(&c, &s, array_v1, destroy_array);
}

CUresult hook_cuArrayCreate_v2(CUarray *out_handle, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	struct create c = { .out_handle = out_handle, .desc = desc };
	struct shape s;

	if (!ENTER_HAS(cuArrayCreate_v2))
		return enter_missing();
	if (!out_handle || !desc)
		return array_v2(&c);
	s = (struct shape){ .width = desc->Width,
			    .height = desc->Height,
			    .format = desc->Format,
			    .channels = desc->NumChannels };
	return create(&c, &s, array_v2, destroy_array);
}

CUresult hook_cuArray3DCreate(CUarray *out_handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
	struct create c = { .out_handle = out_handle, .desc = desc };
	struct shape s;

	if (!ENTER_HAS(cuArray3DCreate))
		return enter_missing();
	if (!out_handle || !desc)
		return array_3d_v1(&c);
	s = (struct shape){ .width = desc->Width,
			    .height = desc->Height,
			    .depth = desc->Depth,
			    .format = desc->Format,
			    .channels = desc->NumChannels,
			    .flags = desc->Flags };
	return create(&c, &s, array_3d_v1, destroy_array);
}

CUresult hook_cuArray3DCreate_v2(CUarray *out_handle, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct create c = { .out_handle = out_handle, .desc = desc };
	struct shape s;

	if (!ENTER_HAS(cuArray3DCreate_v2))
		return enter_missing();
	if (!out_handle || !desc)
		return array_3d_v2(&c);
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
		return mipmap(&c);
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
