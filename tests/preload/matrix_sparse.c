/* Memory by handle that is mapped in a sparse array and released: the array alone holds it. */
#include "matrix_way.h"

enum { TILE_BYTES = 65536, COLUMNS = 16 };

/* Of whole tiles of such texels; it takes no memory itself. */
static CUresult make_array(uint64_t bytes, CUarray *out_array, CUarrayMapInfo *out_map)
{
	/* As large as tiles of any shape could make it; what is used of it is mapped. */
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 16384,
				      .Height = 16384,
				      .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				      .NumChannels = 1,
				      .Flags = CUDA_ARRAY3D_SPARSE };
	CUDA_ARRAY_SPARSE_PROPERTIES sparse;
	CUresult res = cuArray3DCreate_v2(out_array, &d);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuArrayGetSparseProperties(&sparse, *out_array);
	if (res != CUDA_SUCCESS) {
		cuArrayDestroy(*out_array);
		return res;
	}
	*out_map = (CUarrayMapInfo){
		.resourceType = CU_RESOURCE_TYPE_ARRAY,
		.resource.array = *out_array,
		.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
		.subresource.sparseLevel = {
			.extentWidth = COLUMNS * sparse.tileExtent.width,
			.extentHeight = (unsigned)(bytes / TILE_BYTES / COLUMNS) *
					sparse.tileExtent.height,
			.extentDepth = 1,
		},
		.memOperationType = CU_MEM_OPERATION_TYPE_MAP,
		.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
		.deviceBitMask = 1,
	};
	return CUDA_SUCCESS;
}

static CUresult take(uint64_t bytes, struct matrix_piece *p)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				     .allocFlags = { .usage = CU_MEM_CREATE_USAGE_TILE_POOL } };
	CUmemGenericAllocationHandle handle;
	CUarray array = NULL;
	CUarrayMapInfo map;
	CUresult released, res = make_array(bytes, &array, &map);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuMemCreate(&handle, bytes, &prop, 0);
	if (res == CUDA_SUCCESS) {
		map.memHandle.memHandle = handle;
		res = cuMemMapArrayAsync(&map, 1, NULL);
		if (res == CUDA_SUCCESS)
			res = cuStreamSynchronize(NULL);
		released = cuMemRelease(handle);
		res = res == CUDA_SUCCESS ? released : res;
	}
	if (res != CUDA_SUCCESS)
		cuArrayDestroy(array);
	p->object = array;
	return res;
}

static CUresult give(struct matrix_piece *p)
{
	return cuArrayDestroy(p->object);
}

const struct matrix_way matrix_sparse = { "sparse", NULL, take, give, NULL };
