/*
 * Two devices of one process: memory of the first is read and written by kernels on the second,
 * from before and from after it was let reach it, and copied between them. With an argument, where
 * neither reaches the other's memory: copied alone.
 */
#include "client.h"

#include "../../examples/kernels.h"

enum { BUFFERS = 4 };
#define BYTES (3 * MIB)

static CUcontext ctxs[2];
static CUfunction copy_bytes;

static CUdeviceptr make(int dev, unsigned value)
{
	CUdeviceptr addr;

	OK(cuCtxSetCurrent(ctxs[dev]));
	OK(cuMemAlloc_v2(&addr, BYTES));
	OK(cuMemsetD32_v2(addr, value, BYTES / 4));
	OK(cuCtxSynchronize());
	return addr;
}

static void expect(CUdeviceptr addr, unsigned value)
{
	unsigned *got = malloc(BYTES);

	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(got, addr, BYTES));
	for (size_t i = 0; i < BYTES / 4; i++)
		SAME(got[i], value);
	free(got);
}

static CUresult copy_by_kernel(CUdeviceptr to, CUdeviceptr from)
{
	uint64_t bytes = BYTES;
	void *params[] = { &to, &from, &bytes };

	OK(cuLaunchKernel(copy_bytes, 8, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	return cuCtxSynchronize();
}

/* With each device's context current: of what is on the other, or on the same. */
static void copy_all_ways(CUdeviceptr there, const CUdeviceptr *here)
{
	CUdeviceptr also;
	CUstream stream;

	for (int d = 0; d < 2; d++) {
		OK(cuCtxSetCurrent(ctxs[d]));
		OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		OK(cuMemcpyDtoDAsync_v2(there, here[0], BYTES, stream));
		OK(cuStreamSynchronize(stream));
		also = make(d, 7);
		OK(cuMemcpyDtoD_v2(also, there, BYTES));
		OK(cuCtxSetCurrent(ctxs[1]));
		expect(there, 1);
		OK(cuCtxSetCurrent(ctxs[d]));
		expect(also, 1);
		OK(cuMemcpyAsync(there, here[1], BYTES, stream));
		OK(cuStreamSynchronize(stream));
		OK(cuMemcpy(also, there, BYTES));
		OK(cuCtxSynchronize());
		expect(also, 2);
		IS(cuMemcpyDtoD_v2(there, here[0], 64 * MIB), CUDA_ERROR_INVALID_VALUE);
		OK(cuMemFree_v2(also));
		OK(cuStreamDestroy_v2(stream));
	}
	OK(cuCtxSetCurrent(ctxs[1]));
}

enum { ROW = 64 * 1024, ROWS = BYTES / ROW, SLICES = 4 };

static CUDA_MEMCPY2D box_2d(CUdeviceptr to, CUdeviceptr from, CUmemorytype type)
{
	return (CUDA_MEMCPY2D){ .srcMemoryType = type,
				.srcDevice = from,
				.srcPitch = ROW,
				.dstMemoryType = type,
				.dstDevice = to,
				.dstPitch = ROW,
				.WidthInBytes = ROW,
				.Height = ROWS };
}

static CUDA_MEMCPY3D box_3d(CUdeviceptr to, CUdeviceptr from)
{
	return (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				.srcDevice = from,
				.srcPitch = ROW,
				.srcHeight = ROWS / SLICES,
				.dstMemoryType = CU_MEMORYTYPE_DEVICE,
				.dstDevice = to,
				.dstPitch = ROW,
				.dstHeight = ROWS / SLICES,
				.WidthInBytes = ROW,
				.Height = ROWS / SLICES,
				.Depth = SLICES };
}

enum form { FLAT, UNALIGNED, FLAT_LATER, DEEP, DEEP_LATER, FORMS };

static void copy_box(enum form form, CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
	CUDA_MEMCPY2D flat = box_2d(to, from, CU_MEMORYTYPE_DEVICE);
	CUDA_MEMCPY2D any = box_2d(to, from, CU_MEMORYTYPE_UNIFIED);
	CUDA_MEMCPY3D deep = box_3d(to, from);

	if (form == FLAT)
		OK(cuMemcpy2D_v2(&flat));
	else if (form == UNALIGNED)
		OK(cuMemcpy2DUnaligned_v2(&any));
	else if (form == FLAT_LATER)
		OK(cuMemcpy2DAsync_v2(&any, stream));
	else if (form == DEEP)
		OK(cuMemcpy3D_v2(&deep));
	else
		OK(cuMemcpy3DAsync_v2(&deep, stream));
	OK(cuCtxSynchronize());
}

/* In the context of one device, of memory of the other's. */
static void copy_host_boxes(CUdeviceptr far)
{
	unsigned *host = malloc(BYTES), *back = calloc(1, BYTES);
	CUDA_MEMCPY2D in = box_2d(far, 0, CU_MEMORYTYPE_DEVICE);
	CUDA_MEMCPY2D out = box_2d(0, far, CU_MEMORYTYPE_UNIFIED);

	for (unsigned i = 0; i < BYTES / 4; i++)
		host[i] = i * 3;
	in.srcMemoryType = CU_MEMORYTYPE_HOST;
	in.srcHost = host;
	OK(cuMemcpy2D_v2(&in));
	OK(cuCtxSynchronize());
	out.dstDevice = (CUdeviceptr)(uintptr_t)back;
	OK(cuMemcpy2DAsync_v2(&out, NULL));
	OK(cuCtxSynchronize());
	SAME(memcmp(host, back, BYTES), 0);
	free(host);
	free(back);
}

static void copy_boxes(void)
{
	CUdeviceptr sides[2] = { make(0, 1), make(1, 2) };
	CUDA_MEMCPY3D beyond = box_3d(sides[1], sides[0]);
	unsigned value = 100;
	CUstream stream;

	beyond.Depth = 64 * SLICES;
	for (int d = 0; d < 2; d++) {
		OK(cuCtxSetCurrent(ctxs[d]));
		OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		for (int n = 0; n < 2 * FORMS; n++) {
			int to = n % 2;

			OK(cuCtxSetCurrent(ctxs[!to]));
			OK(cuMemsetD32_v2(sides[!to], ++value, BYTES / 4));
			OK(cuCtxSynchronize());
			OK(cuCtxSetCurrent(ctxs[d]));
			copy_box((enum form)(n / 2), sides[to], sides[!to], stream);
			OK(cuCtxSetCurrent(ctxs[to]));
			expect(sides[to], value);
		}
		OK(cuCtxSetCurrent(ctxs[d]));
		IS(cuMemcpy3D_v2(&beyond), CUDA_ERROR_INVALID_VALUE);
		copy_host_boxes(sides[!d]);
		OK(cuStreamDestroy_v2(stream));
	}
	for (int d = 0; d < 2; d++) {
		OK(cuCtxSetCurrent(ctxs[d]));
		OK(cuMemFree_v2(sides[d]));
	}
	OK(cuCtxSetCurrent(ctxs[1]));
}

int main(int argc, char **argv)
{
	CUdeviceptr here[BUFFERS], there;
	CUmodule module;

	(void)argv;
	OK(cuInit(0));
	for (int d = 0; d < 2; d++)
		OK(cuDevicePrimaryCtxRetain(&ctxs[d], d));
	for (unsigned i = 0; i < BUFFERS / 2; i++)
		here[i] = make(0, i + 1);
	there = make(1, 0);
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&copy_bytes, module, "copy"));
	/* Copies need no leave. */
	OK(cuMemcpyDtoD_v2(there, here[0], BYTES));
	expect(there, 1);
	OK(cuMemcpy(there, here[1], BYTES));
	expect(there, 2);
	OK(cuMemcpyAsync(there, here[0], BYTES, NULL));
	expect(there, 1);
	OK(cuMemcpyPeer(there, ctxs[1], here[1], ctxs[0], BYTES));
	expect(there, 2);
	copy_all_ways(there, here);
	copy_boxes();
	if (argc > 1) {
		IS(cuCtxEnablePeerAccess(ctxs[0], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
		puts("apart");
		fflush(stdout);
		getchar();
		copy_all_ways(there, here);
		copy_boxes();
		puts("end");
		return 0;
	}
	OK(cuCtxEnablePeerAccess(ctxs[0], 0));
	IS(cuCtxEnablePeerAccess(ctxs[0], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	for (unsigned i = BUFFERS / 2; i < BUFFERS; i++)
		here[i] = make(0, i + 1);
	OK(cuCtxSetCurrent(ctxs[1]));
	puts("reached");
	fflush(stdout);
	getchar();
	for (unsigned i = 0; i < BUFFERS; i++) {
		OK(copy_by_kernel(there, here[i]));
		expect(there, i + 1);
	}
	OK(cuMemsetD32_v2(there, 9, BYTES / 4));
	OK(copy_by_kernel(here[0], there));
	OK(cuCtxSetCurrent(ctxs[0]));
	expect(here[0], 9);
	puts("end");
	return 0;
}
