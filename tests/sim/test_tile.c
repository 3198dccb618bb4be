/* Memory of cuMemCreate in sparse arrays: the device holds it, and no figure for the process does. */
#include "nvml.h"

enum { TILE = 128, HANDLE_TILES = 32 };

#define HANDLE_BYTES (2 * MIB)

static CUmemGenericAllocationHandle create(unsigned short usage)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				     .allocFlags = { .usage = usage } };
	CUmemGenericAllocationHandle handle = 0;

	OK(cuMemCreate(&handle, HANDLE_BYTES, &prop, 0));
	return handle;
}

static CUarray make_array(unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 64 * TILE,
				      .Height = 2 * TILE,
				      .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				      .NumChannels = 1,
				      .Flags = flags };
	CUarray array = NULL;

	OK(cuArray3DCreate_v2(&array, &d));
	return array;
}

/* Tiles of the first row; without a handle to unmap. */
static CUarrayMapInfo step(CUarray array, unsigned first, unsigned count,
			   CUmemGenericAllocationHandle handle)
{
	return (CUarrayMapInfo){
		.resourceType = CU_RESOURCE_TYPE_ARRAY,
		.resource.array = array,
		.subresource.sparseLevel = { .offsetX = first * TILE,
					     .extentWidth = count * TILE,
					     .extentHeight = TILE,
					     .extentDepth = 1 },
		.memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP :
					     CU_MEM_OPERATION_TYPE_UNMAP,
		.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
		.memHandle.memHandle = handle,
		.deviceBitMask = 1,
	};
}

static void map(CUarray array, unsigned first, unsigned count, CUmemGenericAllocationHandle handle)
{
	CUarrayMapInfo s = step(array, first, count, handle);

	OK(cuMemMapArrayAsync(&s, 1, NULL));
	OK(cuStreamSynchronize(NULL));
}

static void properties(void)
{
	CUDA_ARRAY_SPARSE_PROPERTIES sparse;
	CUarray array = make_array(CUDA_ARRAY3D_SPARSE), plain = make_array(0);
	int has;

	OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 0));
	TRUE(has == 1);
	OK(cuArrayGetSparseProperties(&sparse, array));
	TRUE(sparse.tileExtent.width == TILE && sparse.tileExtent.height == TILE &&
	     sparse.tileExtent.depth == 1);
	EXPECT(cuArrayGetSparseProperties(NULL, array), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuArrayGetSparseProperties(&sparse, plain), CUDA_ERROR_INVALID_VALUE);
	OK(cuArrayDestroy(array));
	OK(cuArrayDestroy(plain));
}

static void holding(nvmlDevice_t nvml)
{
	uint64_t start = check_free_bytes();
	int64_t own = nvml_process_bytes(nvml, (unsigned)getpid());
	CUarray array = make_array(CUDA_ARRAY3D_SPARSE);
	CUmemGenericAllocationHandle handle = create(CU_MEM_CREATE_USAGE_TILE_POOL);

	TRUE(check_free_bytes() == start - HANDLE_BYTES);
	map(array, 0, 4, handle);
	TRUE(nvml_process_bytes(nvml, (unsigned)getpid()) == own + (int64_t)HANDLE_BYTES);
	OK(cuMemRelease(handle));
	TRUE(check_free_bytes() == start - HANDLE_BYTES);
	TRUE(nvml_process_bytes(nvml, (unsigned)getpid()) == own);
	map(array, 0, 3, 0);
	TRUE(check_free_bytes() == start - HANDLE_BYTES);
	map(array, 3, 2, 0);
	TRUE(check_free_bytes() == start);
	handle = create(CU_MEM_CREATE_USAGE_TILE_POOL);
	map(array, 0, 4, handle);
	OK(cuMemRelease(handle));
	handle = create(CU_MEM_CREATE_USAGE_TILE_POOL);
	map(array, 0, 4, handle);
	OK(cuMemRelease(handle));
	TRUE(check_free_bytes() == start - HANDLE_BYTES);
	OK(cuArrayDestroy(array));
	TRUE(check_free_bytes() == start);
	TRUE(nvml_process_bytes(nvml, (unsigned)getpid()) == own);
}

static void arguments(void)
{
	CUarray array = make_array(CUDA_ARRAY3D_SPARSE), plain = make_array(0);
	CUmemGenericAllocationHandle handle = create(CU_MEM_CREATE_USAGE_TILE_POOL);
	CUmemGenericAllocationHandle other = create(0);
	CUarrayMapInfo good = step(array, 0, HANDLE_TILES, handle), s[2];
	uint64_t start = check_free_bytes();

	EXPECT(cuMemMapArrayAsync(NULL, 1, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemMapArrayAsync(&good, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < 7; i++) {
		s[0] = s[1] = good;
		s[1].subresource.sparseLevel.offsetX = i == 0 ? 1 : 0;
		s[1].subresource.sparseLevel.extentWidth += i == 1 ? TILE : 0;
		s[1].subresource.sparseLevel.extentDepth += i == 2 ? 1 : 0;
		s[1].memHandle.memHandle = i == 3 ? other : handle;
		s[1].resource.array = i == 4 ? plain : array;
		s[1].deviceBitMask = i == 5 ? 2 : 1;
		if (i == 6)
			s[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
		EXPECT(cuMemMapArrayAsync(s, 2, NULL), CUDA_ERROR_INVALID_VALUE);
	}
	OK(cuMemRelease(handle));
	OK(cuMemRelease(other));
	TRUE(check_free_bytes() == start + 2 * HANDLE_BYTES);
	OK(cuArrayDestroy(array));
	OK(cuArrayDestroy(plain));
}

int main(void)
{
	nvmlDevice_t nvml;
	uint64_t start;

	check_start("mem=1g,context=32m");
	nvml = nvml_start();
	start = check_free_bytes();
	properties();
	holding(nvml);
	arguments();
	TRUE(check_free_bytes() == start);
	return check_end();
}
