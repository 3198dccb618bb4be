/* Arrays and mipmaps: what they cost, what is refused, copies into and out of them. */
#include "check.h"

static CUDA_ARRAY3D_DESCRIPTOR box(size_t width, size_t height, size_t depth)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){ .Width = width,
					  .Height = height,
					  .Depth = depth,
					  .Format = CU_AD_FORMAT_FLOAT,
					  .NumChannels = 1 };
}

static void arguments(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = box(16, 16, 0);
	CUarray array;

	EXPECT(cuArray3DCreate_v2(NULL, &d), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuArray3DCreate_v2(&array, NULL), CUDA_ERROR_INVALID_VALUE);
	d.NumChannels = 3;
	EXPECT(cuArray3DCreate_v2(&array, &d), CUDA_ERROR_INVALID_VALUE);
	d = box(0, 16, 0);
	EXPECT(cuArray3DCreate_v2(&array, &d), CUDA_ERROR_INVALID_VALUE);
	d = box(1 << 20, 1, 0);
	EXPECT(cuArray3DCreate_v2(&array, &d), CUDA_ERROR_INVALID_VALUE);
	d = box(16384, 16384, 16384);
	EXPECT(cuArray3DCreate_v2(&array, &d), CUDA_ERROR_OUT_OF_MEMORY);
	d = box(16, 16, 0);
	d.Format = CU_AD_FORMAT_NV12;
	EXPECT(cuArray3DCreate_v2(&array, &d), CUDA_ERROR_NOT_SUPPORTED);
	d.Format = (CUarray_format)0x7777;
	EXPECT(cuArray3DCreate_v2(&array, &d), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuArrayDestroy((CUarray)&array), CUDA_ERROR_INVALID_HANDLE);
}

static void cost(void)
{
	uint64_t start = check_free_bytes();
	CUDA_ARRAY3D_DESCRIPTOR d = box(1024, 1024, 4), got;
	CUDA_ARRAY_DESCRIPTOR flat;
	CUmipmappedArray mipmap;
	CUarray array, level;
	CUcontext ctx;

	OK(cuArray3DCreate_v2(&array, &d));
	TRUE(check_free_bytes() == start - 16 * MIB);
	OK(cuArray3DGetDescriptor_v2(&got, array));
	TRUE(memcmp(&got, &d, sizeof(d)) == 0);
	OK(cuArrayGetDescriptor_v2(&flat, array));
	TRUE(flat.Width == 1024 && flat.Height == 1024 && flat.Format == CU_AD_FORMAT_FLOAT);
	OK(cuArrayDestroy(array));
	EXPECT(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	TRUE(check_free_bytes() == start);
	d = box(2048, 1024, 0);
	OK(cuMipmappedArrayCreate(&mipmap, &d, 2));
	TRUE(check_free_bytes() == start - 10 * MIB);
	OK(cuMipmappedArrayGetLevel(&level, mipmap, 1));
	OK(cuArrayGetDescriptor_v2(&flat, level));
	TRUE(flat.Width == 1024 && flat.Height == 512);
	EXPECT(cuArrayDestroy(level), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMipmappedArrayGetLevel(&level, mipmap, 2), CUDA_ERROR_INVALID_VALUE);
	OK(cuMipmappedArrayDestroy(mipmap));
	EXPECT(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuMipmappedArrayCreate(&mipmap, &d, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuArray3DCreate_v2(&array, &d));
	OK(cuMipmappedArrayCreate(&mipmap, &d, 3));
	OK(cuCtxDestroy_v2(ctx));
	EXPECT(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	TRUE(check_free_bytes() == start);
}

static void copies(void)
{
	float host[64], back[64] = { 0 };
	CUDA_ARRAY3D_DESCRIPTOR d = box(8, 8, 0);
	CUDA_MEMCPY2D c = { .srcMemoryType = CU_MEMORYTYPE_HOST,
			    .srcHost = host,
			    .srcPitch = 32,
			    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			    .WidthInBytes = 32,
			    .Height = 8 };
	CUdeviceptr device;
	CUarray array, line;

	for (int i = 0; i < 64; i++)
		host[i] = (float)i;
	OK(cuArray3DCreate_v2(&array, &d));
	c.dstArray = array;
	OK(cuMemcpy2D_v2(&c));
	c = (CUDA_MEMCPY2D){ .srcMemoryType = CU_MEMORYTYPE_ARRAY,
			     .srcArray = array,
			     .srcXInBytes = 8,
			     .srcY = 3,
			     .dstMemoryType = CU_MEMORYTYPE_HOST,
			     .dstHost = back,
			     .dstPitch = 8,
			     .WidthInBytes = 8,
			     .Height = 2 };
	OK(cuMemcpy2D_v2(&c));
	TRUE(back[0] == 26 && back[1] == 27 && back[2] == 34 && back[3] == 35);
	c.srcXInBytes = 28;
	EXPECT(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
	c.srcXInBytes = 2;
	EXPECT(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
	OK(cuArrayDestroy(array));
	d = box(64, 0, 0);
	OK(cuArray3DCreate_v2(&line, &d));
	OK(cuMemAlloc_v2(&device, 256));
	OK(cuMemcpyHtoA_v2(line, 0, host, 256));
	OK(cuMemcpyAtoD_v2(device, line, 128, 128));
	OK(cuMemcpyDtoA_v2(line, 0, device, 128));
	OK(cuMemcpyAtoH_v2(back, line, 0, 256));
	TRUE(back[0] == 32 && back[31] == 63 && back[32] == 32);
	EXPECT(cuMemcpyAtoH_v2(back, line, 4, 256), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(device));
	OK(cuArrayDestroy(line));
}

int main(void)
{
	check_start("count=1,mem=1g");
	arguments();
	cost();
	copies();
	return check_end();
}
