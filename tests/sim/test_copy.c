/* Copies and fills in one, two and three dimensions; what is asynchronous. */
#include "check.h"

static unsigned char host[65536], back[65536];

static void pattern(void)
{
	for (size_t i = 0; i < sizeof(host); i++)
		host[i] = (unsigned char)(i * 31 + i / 251);
	memset(back, 0, sizeof(back));
}

static void arguments(void)
{
	CUdeviceptr a;

	OK(cuMemAlloc_v2(&a, 4096));
	EXPECT(cuMemcpyHtoD_v2(0x1000, host, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoD_v2(a, host, 4097), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoD_v2(a + 4000, host, 97), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoD_v2(a, NULL, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoH_v2(NULL, a, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoD_v2(a, (CUdeviceptr)host, 4), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemcpyHtoD_v2(a, host, 0));
	OK(cuMemcpyHtoD_v2(0, NULL, 0));
	EXPECT(cuMemsetD32_v2(a + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD16_v2(a + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD32_v2(a, 0, 1025), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD32_v2(a, 0, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD8_v2((CUdeviceptr)host, 0, 4), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemsetD8_v2(a, 0, 0));
	EXPECT(cuMemcpyHtoDAsync_v2(a, host, 4, (CUstream)host), CUDA_ERROR_INVALID_HANDLE);
	OK(cuMemFree_v2(a));
	EXPECT(cuMemcpy((CUdeviceptr)back, a, 4), CUDA_ERROR_INVALID_VALUE);
}

static void lines(void)
{
	CUdeviceptr a, b;
	CUcontext ctx;
	void *pinned;

	OK(cuCtxGetCurrent(&ctx));
	OK(cuMemAlloc_v2(&a, sizeof(host)));
	OK(cuMemAlloc_v2(&b, sizeof(host)));
	OK(cuMemHostAlloc(&pinned, sizeof(host), 0));
	pattern();
	OK(cuMemcpyHtoD_v2(a, host, sizeof(host)));
	OK(cuMemcpyDtoD_v2(b, a, sizeof(host)));
	OK(cuMemcpyDtoH_v2(back, b, sizeof(host)));
	TRUE(memcmp(host, back, sizeof(host)) == 0);
	pattern();
	OK(cuMemcpy(a, (CUdeviceptr)host, sizeof(host)));
	OK(cuMemcpyPeer(b, ctx, a, ctx, sizeof(host)));
	OK(cuMemcpy((CUdeviceptr)pinned, b, sizeof(host)));
	TRUE(memcmp(host, pinned, sizeof(host)) == 0);
	OK(cuMemcpyHtoD_v2_ptds(a, host, sizeof(host)));
	OK(cuMemcpyDtoHAsync_v2_ptsz(back, a, sizeof(host), NULL));
	OK(cuStreamSynchronize_ptsz(NULL));
	TRUE(memcmp(host, back, sizeof(host)) == 0);
	EXPECT(cuMemcpyPeer(b, NULL, a, ctx, 4), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuMemFreeHost(pinned));
	OK(cuMemFree_v2(b));
	OK(cuMemFree_v2(a));
}

/* A small pageable source may change right after the call; pinned memory may not. */
static void asynchronous(void)
{
	unsigned value = 1, got = 0, *pinned;
	CUdeviceptr a;
	CUstream stream;
	int flag = 0;

	OK(cuMemAlloc_v2(&a, 8));
	OK(cuMemHostAlloc((void **)&pinned, 4, 0));
	*pinned = 1;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(stream, check_hold, &flag));
	OK(cuMemcpyHtoDAsync_v2(a, &value, 4, stream));
	OK(cuMemcpyHtoDAsync_v2(a + 4, pinned, 4, stream));
	value = 2;
	*pinned = 2;
	check_let_go(&flag);
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(&got, a, 4));
	TRUE(got == 1);
	OK(cuMemcpyDtoH_v2(&got, a + 4, 4));
	TRUE(got == 2);
	OK(cuStreamDestroy_v2(stream));
	OK(cuMemFreeHost(pinned));
	OK(cuMemFree_v2(a));
}

/* The synchronous forms return before a copy between devices, or a fill of one, is done. */
static void not_so_synchronous(void)
{
	CUdeviceptr a;
	int flag = 0;

	OK(cuMemAlloc_v2(&a, 8192));
	OK(cuLaunchHostFunc(NULL, check_hold, &flag));
	OK(cuMemsetD8_v2(a, 1, 4096));
	OK(cuMemcpyDtoD_v2(a + 4096, a, 4096));
	EXPECT(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	check_let_go(&flag);
	OK(cuMemcpyDtoH_v2(back, a + 8188, 4));
	TRUE(back[0] == 1 && back[3] == 1);
	OK(cuMemFree_v2(a));
}

static void fills(void)
{
	unsigned char bytes[1024];
	unsigned short shorts[512];
	unsigned words[256];
	CUdeviceptr a;

	OK(cuMemAlloc_v2(&a, 1024));
	OK(cuMemsetD8_v2(a, 0xab, 1024));
	OK(cuMemcpyDtoH_v2(bytes, a, 1024));
	TRUE(bytes[0] == 0xab && bytes[1023] == 0xab);
	OK(cuMemsetD16Async(a, 0x1234, 512, NULL));
	OK(cuMemcpyDtoH_v2(shorts, a, 1024));
	TRUE(shorts[0] == 0x1234 && shorts[511] == 0x1234);
	OK(cuMemsetD32_v2(a, 0xdeadbeef, 255));
	OK(cuMemcpyDtoH_v2(words, a, 1024));
	TRUE(words[0] == 0xdeadbeef && words[254] == 0xdeadbeef && words[255] == 0x12341234);
	OK(cuMemsetD2D8_v2(a, 64, 1, 10, 16));
	OK(cuMemcpyDtoH_v2(bytes, a, 1024));
	TRUE(bytes[0] == 1 && bytes[9] == 1 && bytes[10] != 1 && bytes[64 * 15 + 9] == 1);
	EXPECT(cuMemsetD2D8_v2(a, 8, 1, 10, 16), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD2D32_v2(a, 64, 1, 16, 17), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(a));
}

static void rectangles(void)
{
	CUDA_MEMCPY2D c = { .srcMemoryType = CU_MEMORYTYPE_HOST,
			    .srcHost = host,
			    .srcPitch = 256,
			    .srcXInBytes = 16,
			    .srcY = 2,
			    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			    .WidthInBytes = 100,
			    .Height = 50 };
	size_t pitch;
	CUdeviceptr a;

	pattern();
	OK(cuMemAllocPitch_v2(&a, &pitch, 100, 60, 4));
	c.dstDevice = a;
	c.dstPitch = pitch;
	c.dstY = 10;
	OK(cuMemcpy2D_v2(&c));
	c = (CUDA_MEMCPY2D){ .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			     .srcDevice = a,
			     .srcPitch = pitch,
			     .srcY = 10,
			     .dstMemoryType = CU_MEMORYTYPE_HOST,
			     .dstHost = back,
			     .dstPitch = 100,
			     .WidthInBytes = 100,
			     .Height = 50 };
	OK(cuMemcpy2DAsync_v2(&c, NULL));
	OK(cuStreamSynchronize(NULL));
	for (int y = 0; y < 50; y++)
		TRUE(memcmp(back + 100 * y, host + 256 * (y + 2) + 16, 100) == 0);
	c.dstPitch = 99;
	EXPECT(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
	c.dstPitch = 100;
	c.Height = 51;
	EXPECT(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	EXPECT(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_HANDLE);
	c.srcMemoryType = (CUmemorytype)9;
	EXPECT(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpy2D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	c.Height = 0;
	OK(cuMemcpy2D_v2(&c));
	OK(cuMemFree_v2(a));
}

static void boxes(void)
{
	CUDA_MEMCPY3D c = { .srcMemoryType = CU_MEMORYTYPE_HOST,
			    .srcHost = host,
			    .srcPitch = 64,
			    .srcHeight = 16,
			    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			    .dstPitch = 32,
			    .dstHeight = 8,
			    .WidthInBytes = 32,
			    .Height = 8,
			    .Depth = 4 };

	pattern();
	OK(cuMemAlloc_v2(&c.dstDevice, 32 * 8 * 4));
	OK(cuMemcpy3D_v2(&c));
	OK(cuMemcpyDtoH_v2(back, c.dstDevice, 32 * 8 * 4));
	for (int z = 0; z < 4; z++)
		for (int y = 0; y < 8; y++)
			TRUE(memcmp(back + 32 * (8 * z + y), host + 64 * (16 * z + y), 32) == 0);
	c.srcHeight = 7;
	EXPECT(cuMemcpy3D_v2(&c), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(c.dstDevice));
}

/* Many copies in one call. */
static void batch(void)
{
	CUmemcpyAttributes attrs = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	size_t first = 0, bytes[3] = { 100, 200, 300 }, failed = 77;
	CUdeviceptr a, dst[3], src[3];
	CUstream stream;

	pattern();
	OK(cuMemAlloc_v2(&a, 600));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (size_t i = 0, at = 0; i < 3; at += bytes[i], i++) {
		dst[i] = a + at;
		src[i] = (CUdeviceptr)host + at;
	}
	OK(cuMemcpyBatchAsync_v2(dst, src, bytes, 3, &attrs, &first, 1, stream));
	OK(cuMemcpyDtoHAsync_v2(back, a, 600, stream));
	OK(cuStreamSynchronize(stream));
	TRUE(memcmp(host, back, 600) == 0);
	dst[1] = a + 500;
	EXPECT(cuMemcpyBatchAsync(dst, src, bytes, 3, &attrs, &first, 1, &failed, stream),
	       CUDA_ERROR_INVALID_VALUE);
	TRUE(failed == 1);
	EXPECT(cuMemcpyBatchAsync_v2(dst, src, bytes, 0, &attrs, &first, 1, stream),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyBatchAsync_v2(dst, src, bytes, 1, &attrs, &first, 1, NULL),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamDestroy_v2(stream));
	OK(cuMemFree_v2(a));
}

int main(void)
{
	check_start("count=1,mem=1g");
	arguments();
	lines();
	asynchronous();
	not_so_synchronous();
	fills();
	rectangles();
	boxes();
	batch();
	return check_end();
}
