#include "cuda_resource.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_green.h"
#include "cuda_object.h"
#include "cuda_stream.h"

#define RESOURCE_MAGIC 0x736d7372u

enum { IGNORE_COSCHEDULING = 1, MAX_CLUSTER = 2, HOPPER = 9, AMPERE = 8 };

/* The driver's own part of a resource. */
struct inner {
	uint32_t magic;
	int32_t dev;
	uint64_t split_id; /* which split made it; 0: none, so it can be split */
};

struct CUdevResourceDesc_st {
	CUdevice dev;
	unsigned sms;
};

static uint64_t last_split_id; /* the driver's lock */

/* False for what is none of ours. */
static bool read_inner(const CUdevResource *resource, struct inner *out)
{
	_Static_assert(sizeof(*out) <= sizeof(resource->_internal_padding), "it fits");
	if (resource->type != CU_DEV_RESOURCE_TYPE_SM)
		return false;
	memcpy(out, resource->_internal_padding, sizeof(*out));
	return out->magic == RESOURCE_MAGIC && cuda_device_is_valid(out->dev);
}

/* The smallest group and its granularity: clusters need neighbours. */
static unsigned least_group(CUdevice dev, unsigned flags)
{
	unsigned major = cuda_device_get(dev)->cc_major;

	if (flags & IGNORE_COSCHEDULING)
		return major >= HOPPER ? 2 : 1;
	return major >= HOPPER ? 8 : major >= AMPERE ? 4 : 2;
}

static void make(CUdevice dev, unsigned sms, uint64_t split_id, unsigned flags, CUdevResource *out)
{
	struct inner inner = { RESOURCE_MAGIC, dev, split_id };

	memset(out, 0, sizeof(*out));
	out->type = sms ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
	memcpy(out->_internal_padding, &inner, sizeof(inner));
	out->sm.smCount = sms;
	out->sm.minSmPartitionSize = least_group(dev, flags);
	out->sm.smCoscheduledAlignment = least_group(dev, flags);
}

CUresult cuda_resource_get(CUdevice dev, unsigned sms, CUdevResourceType type,
			   CUdevResource *out_resource)
{
	if (!out_resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	make(dev, sms, 0, 0, out_resource);
	return CUDA_SUCCESS;
}

CUresult cuda_resource_read(CUdevResourceDesc desc, CUdevice *out_dev, unsigned *out_sms)
{
	if (!cuda_object_is(OBJECT_RESOURCE, desc))
		return CUDA_ERROR_INVALID_VALUE;
	*out_dev = desc->dev;
	*out_sms = desc->sms;
	return CUDA_SUCCESS;
}

/* Without groups to write it only counts them. */
static CUresult split(CUdevResource *out_groups, unsigned *inout_count, const CUdevResource *input,
		      CUdevResource *out_rest, unsigned flags, unsigned least_sms)
{
	unsigned sms = input->sm.smCount, unit, size, groups;
	struct inner inner;

	if (!read_inner(input, &inner))
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	if (flags & ~(unsigned)(IGNORE_COSCHEDULING | MAX_CLUSTER) || least_sms > sms)
		return CUDA_ERROR_INVALID_VALUE;
	if (inner.split_id)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	unit = least_group(inner.dev, flags);
	size = least_sms > unit ? (least_sms + unit - 1) / unit * unit : unit;
	groups = sms / size;
	if (out_groups && groups > *inout_count)
		groups = *inout_count;
	if (groups == 0)
		return out_groups && *inout_count == 0 ? CUDA_ERROR_INVALID_VALUE :
							 CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	last_split_id++;
	for (unsigned i = 0; out_groups && i < groups; i++)
		make(inner.dev, size, last_split_id, flags, &out_groups[i]);
	if (out_rest)
		make(inner.dev, sms - groups * size, last_split_id, flags, out_rest);
	*inout_count = groups;
	return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *out_groups, unsigned int *inout_count,
				     const CUdevResource *input, CUdevResource *out_rest,
				     unsigned int flags, unsigned int min_count)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuDevSmResourceSplitByCount);

	if (res != CUDA_SUCCESS)
		return res;
	if (!inout_count || !input)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(split(out_groups, inout_count, input, out_rest, flags, min_count));
}

/* Several resources must be of one split. */
static CUresult sum(const CUdevResource *resources, unsigned count,
		    struct CUdevResourceDesc_st *out)
{
	struct inner first, inner;

	for (unsigned i = 0; i < count; i++) {
		if (!read_inner(&resources[i], &inner))
			return CUDA_ERROR_INVALID_RESOURCE_TYPE;
		if (i == 0)
			first = inner;
		else if (inner.dev != first.dev || inner.split_id != first.split_id ||
			 !inner.split_id)
			return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		out->dev = inner.dev;
		out->sms += resources[i].sm.smCount;
	}
	return CUDA_SUCCESS;
}

/* Descriptors live as long as the process. */
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *out_desc, CUdevResource *resources,
				   unsigned int count)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuDevResourceGenerateDesc);
	struct CUdevResourceDesc_st *desc;

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_desc || !resources || count == 0)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	desc = calloc(1, sizeof(*desc));
	if (!desc)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	res = sum(resources, count, desc);
	if (res == CUDA_SUCCESS && cuda_object_add(OBJECT_RESOURCE, desc) != 0)
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (res == CUDA_SUCCESS)
		*out_desc = desc;
	else
		free(desc);
	return cuda_call_end(res);
}

CUresult cuDeviceGetDevResource(CUdevice dev, CUdevResource *out_resource, CUdevResourceType type)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuDeviceGetDevResource);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_device_is_valid(dev))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	return cuda_call_end(cuda_resource_get(dev, cuda_device_get(dev)->sms, type, out_resource));
}

CUresult cuCtxGetDevResource(CUcontext ctx, CUdevResource *out_resource, CUdevResourceType type)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuCtxGetDevResource);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_context_check(ctx);
	if (res == CUDA_SUCCESS)
		res = cuda_resource_get(ctx->dev, cuda_green_sms(ctx->green, ctx->dev), type,
					out_resource);
	return cuda_call_end(res);
}

static CUresult of_stream(enum cuda_id id, CUstream handle, enum stream_default form,
			  CUdevResource *out_resource, CUdevResourceType type)
{
	CUresult res = cuda_call_begin(id);
	struct CUstream_st *stream;

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, &stream);
	if (res == CUDA_SUCCESS)
		res = cuda_resource_get(stream->ctx->dev,
					cuda_green_sms(stream->green, stream->ctx->dev), type,
					out_resource);
	return cuda_call_end(res);
}

CUresult cuStreamGetDevResource(CUstream stream, CUdevResource *out_resource,
				CUdevResourceType type)
{
	return of_stream(CUDA_ID_cuStreamGetDevResource, stream, DEFAULT_LEGACY, out_resource,
			 type);
}

CUresult cuStreamGetDevResource_ptsz(CUstream stream, CUdevResource *out_resource,
				     CUdevResourceType type)
{
	return of_stream(CUDA_ID_cuStreamGetDevResource_ptsz, stream, DEFAULT_PER_THREAD,
			 out_resource, type);
}
