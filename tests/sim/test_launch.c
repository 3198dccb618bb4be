/* Launches: what is refused, how parameters come in, what the kernels do. */
#include "check.h"

static CUfunction empty, fill;

static CUresult shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		      unsigned shared)
{
	return cuLaunchKernel(empty, gx, gy, gz, bx, by, bz, shared, NULL, NULL, NULL);
}

static void shapes(void)
{
	OK(shape(1, 1, 1, 1, 1, 1, 0));
	OK(shape(2147483647, 65535, 65535, 1024, 1, 1, 0));
	OK(shape(1, 1, 1, 16, 1, 64, 0));
	EXPECT(shape(0, 1, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(shape(1, 0, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(shape(1, 1, 1, 1, 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(shape(1, 65536, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(shape(1, 1, 65536, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(shape(2147483648u, 1, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(shape(1, 1, 1, 1025, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(shape(1, 1, 1, 33, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(shape(1, 1, 1, 1, 1, 65, 0), CUDA_ERROR_INVALID_VALUE);
	OK(shape(1, 1, 1, 1, 1, 1, 49152));
	EXPECT(shape(1, 1, 1, 1, 1, 1, 49153), CUDA_ERROR_INVALID_VALUE);
	OK(cuFuncSetAttribute(empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
	OK(shape(1, 1, 1, 1, 1, 1, 65536));
	OK(cuLaunchCooperativeKernel(empty, 32, 1, 1, 1024, 1, 1, 0, NULL, NULL));
	EXPECT(cuLaunchCooperativeKernel(empty, 33, 1, 1, 1024, 1, 1, 0, NULL, NULL),
	       CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

static unsigned word_at(CUdeviceptr address)
{
	unsigned value = 0;

	OK(cuMemcpyDtoH_v2(&value, address, 4));
	return value;
}

static void parameters(void)
{
	struct {
		CUdeviceptr address;
		unsigned value, unused;
		uint64_t words;
	} buffer = { 0, 21, 0, 1 };
	size_t bytes = sizeof(buffer);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
			  &bytes, CU_LAUNCH_PARAM_END };
	void *params[] = { &buffer.address, &buffer.value, &buffer.words };
	CUlaunchConfig config = { .gridDimX = 1,
				  .gridDimY = 1,
				  .gridDimZ = 1,
				  .blockDimX = 1,
				  .blockDimY = 1,
				  .blockDimZ = 1 };

	OK(cuMemAlloc_v2(&buffer.address, 4));
	OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	TRUE(word_at(buffer.address) == 21);
	buffer.value = 22;
	OK(cuLaunchKernel_ptsz(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	TRUE(word_at(buffer.address) == 22);
	buffer.value = 23;
	OK(cuLaunchKernelEx(&config, fill, params, NULL));
	TRUE(word_at(buffer.address) == 23);
	EXPECT(cuLaunchKernelEx(NULL, fill, params, NULL), CUDA_ERROR_INVALID_VALUE);
	config.gridDimY = 0;
	EXPECT(cuLaunchKernelEx(&config, fill, params, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
	       CUDA_ERROR_INVALID_VALUE);
	bytes = 8;
	EXPECT(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(check_launch(NULL, NULL, params), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(check_launch((CUfunction)&bytes, NULL, params), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(check_launch(fill, (CUstream)&bytes, params), CUDA_ERROR_INVALID_HANDLE);
	OK(cuMemFree_v2(buffer.address));
}

/* Functions and streams of another context do not fit. */
static void contexts(void)
{
	CUcontext other;
	CUstream stream;

	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuStreamCreate(&stream, 0));
	EXPECT(check_launch(empty, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	OK(cuCtxPopCurrent_v2(NULL));
	EXPECT(check_launch(empty, stream, NULL), CUDA_ERROR_INVALID_HANDLE);
	OK(cuCtxDestroy_v2(other));
}

static uint64_t sum_of(const unsigned char *bytes, uint64_t count)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < count; i++)
		sum += bytes[i] * (2 * i + 1);
	return sum;
}

static void kernels(void)
{
	uint64_t bytes = 100000, words = bytes / 4, got = 0;
	float *host = malloc(bytes), *back = malloc(bytes);
	CUdeviceptr a, b, c, sum;
	void *add[] = { &c, &a, &b, &words }, *copy[] = { &a, &c, &bytes };
	void *checksum[] = { &a, &bytes, &sum };

	OK(cuMemAlloc_v2(&a, bytes));
	OK(cuMemAlloc_v2(&b, bytes));
	OK(cuMemAlloc_v2(&c, bytes));
	OK(cuMemAlloc_v2(&sum, 8));
	for (uint64_t i = 0; i < words; i++)
		host[i] = (float)i / 8;
	OK(cuMemcpyHtoD_v2(a, host, bytes));
	OK(cuMemcpyHtoD_v2(b, host, bytes));
	OK(check_launch(check_kernel("add"), NULL, add));
	OK(check_launch(check_kernel("copy"), NULL, copy));
	OK(check_launch(check_kernel("checksum"), NULL, checksum));
	OK(cuMemcpyDtoH_v2(back, a, bytes));
	OK(cuMemcpyDtoH_v2(&got, sum, 8));
	TRUE(back[0] == 0 && back[words - 1] == host[words - 1] * 2);
	TRUE(got == sum_of((unsigned char *)back, bytes));
	free(back);
	free(host);
	OK(cuCtxSynchronize());
}

/* Kernels reach pinned memory, and no other memory of the host. */
static void host_memory(void)
{
	uint64_t words = 1;
	unsigned value = 4, *pinned, pageable = 0;
	CUdeviceptr address;
	void *params[] = { &address, &value, &words };
	CUcontext ctx;

	OK(cuMemHostAlloc((void **)&pinned, 4, 0));
	address = (CUdeviceptr)pinned;
	OK(check_launch(fill, NULL, params));
	OK(cuCtxSynchronize());
	TRUE(*pinned == 4);
	OK(cuMemFreeHost(pinned));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	address = (CUdeviceptr)&pageable;
	OK(check_launch(check_kernel("fill"), NULL, params));
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	TRUE(pageable == 0);
	OK(cuCtxDestroy_v2(ctx));
}

static CUDA_LAUNCH_PARAMS spin_on(CUfunction spin, CUstream stream, void **params)
{
	return (CUDA_LAUNCH_PARAMS){ .function = spin,
				     .gridDimX = 1,
				     .gridDimY = 1,
				     .gridDimZ = 1,
				     .blockDimX = 1,
				     .blockDimY = 1,
				     .blockDimZ = 1,
				     .hStream = stream,
				     .kernelParams = params };
}

/* One launch in a stream of each device; each begins when all streams have come to it. */
static void several_devices(void)
{
	unsigned long long ns = 1000000, long_ns = 20000000;
	void *params[] = { &ns }, *long_params[] = { &long_ns };
	CUDA_LAUNCH_PARAMS launches[2];
	CUstream streams[2];
	CUcontext own, other;
	CUfunction spin[2];
	CUmodule module;

	OK(cuCtxGetCurrent(&own));
	spin[0] = check_kernel("spin");
	OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
	OK(cuDevicePrimaryCtxRetain(&other, 1));
	OK(cuCtxSetCurrent(other));
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&spin[1], module, "spin"));
	OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	OK(cuLaunchKernel(spin[1], 1, 1, 1, 1, 1, 1, 0, streams[1], long_params, NULL));
	OK(cuCtxSetCurrent(own));
	for (int i = 0; i < 2; i++)
		launches[i] = spin_on(spin[i], streams[i], params);
	OK(cuLaunchCooperativeKernelMultiDevice(launches, 2, 0));
	OK(cuStreamSynchronize(streams[0]));
	OK(cuStreamQuery(streams[1]) == CUDA_SUCCESS ? CUDA_SUCCESS :
						       cuStreamSynchronize(streams[1]));

	EXPECT(cuLaunchCooperativeKernelMultiDevice(NULL, 2, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuLaunchCooperativeKernelMultiDevice(launches, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuLaunchCooperativeKernelMultiDevice(launches, 2, 4), CUDA_ERROR_INVALID_VALUE);
	launches[1] = launches[0];
	EXPECT(cuLaunchCooperativeKernelMultiDevice(launches, 2, 0), CUDA_ERROR_INVALID_DEVICE);
	launches[1].hStream = NULL;
	EXPECT(cuLaunchCooperativeKernelMultiDevice(launches, 2, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuLaunchCooperativeKernelMultiDevice(launches, 1, 3));
	OK(cuStreamSynchronize(streams[0]));
	OK(cuDevicePrimaryCtxRelease_v2(1));
}

int main(void)
{
	check_start("count=2,mem=1g,sms=16");
	empty = check_kernel("empty");
	fill = check_kernel("fill");
	shapes();
	parameters();
	contexts();
	kernels();
	host_memory();
	several_devices();
	return check_end();
}
