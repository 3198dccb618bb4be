/* Green contexts and the multiprocessors they are made of. */
#include "check.h"

enum { SMS = 132 };

static CUdevResource whole(void)
{
	CUdevResource all;

	OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	TRUE(all.type == CU_DEV_RESOURCE_TYPE_SM && all.sm.smCount == SMS);
	return all;
}

static void splitting(void)
{
	CUdevResource all = whole(), groups[32], rest, other;
	unsigned count = 32;

	EXPECT(cuDeviceGetDevResource(9, &rest, CU_DEV_RESOURCE_TYPE_SM),
	       CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGetDevResource(0, NULL, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetDevResource(0, &rest, CU_DEV_RESOURCE_TYPE_WORKQUEUE),
	       CUDA_ERROR_INVALID_RESOURCE_TYPE);
	OK(cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 0, 40));
	TRUE(count == 3);
	count = 2;
	OK(cuDevSmResourceSplitByCount(groups, &count, &all, &rest, 0, 37));
	TRUE(count == 2 && groups[0].sm.smCount == 40 && groups[1].sm.smCount == 40);
	TRUE(rest.type == CU_DEV_RESOURCE_TYPE_SM && rest.sm.smCount == SMS - 80);
	count = 32;
	OK(cuDevSmResourceSplitByCount(groups, &count, &all, &rest, 0, 0));
	TRUE(count == 16 && groups[15].sm.smCount == 8 && rest.sm.smCount == 4);
	count = 32;
	OK(cuDevSmResourceSplitByCount(groups, &count, &all, &rest, 1, 11));
	TRUE(count == 11 && groups[0].sm.smCount == 12 && rest.type == 0);
	count = 1;
	EXPECT(cuDevSmResourceSplitByCount(&other, &count, &groups[0], NULL, 0, 8),
	       CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	EXPECT(cuDevSmResourceSplitByCount(groups, &count, &all, NULL, 0, SMS + 1),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDevSmResourceSplitByCount(groups, &count, &all, NULL, 8, 8),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDevSmResourceSplitByCount(groups, NULL, &all, NULL, 0, 8),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDevSmResourceSplitByCount(groups, &count, NULL, NULL, 0, 8),
	       CUDA_ERROR_INVALID_VALUE);
	memset(&other, 0, sizeof(other));
	EXPECT(cuDevSmResourceSplitByCount(groups, &count, &other, NULL, 0, 0),
	       CUDA_ERROR_INVALID_RESOURCE_TYPE);
	count = 0;
	EXPECT(cuDevSmResourceSplitByCount(groups, &count, &all, NULL, 0, 8),
	       CUDA_ERROR_INVALID_VALUE);
}

static CUdevResourceDesc desc_of(unsigned sms)
{
	CUdevResource all = whole(), group;
	CUdevResourceDesc desc = NULL;
	unsigned count = 1;

	OK(cuDevSmResourceSplitByCount(&group, &count, &all, NULL, 0, sms));
	OK(cuDevResourceGenerateDesc(&desc, &group, 1));
	return desc;
}

static void descriptors(void)
{
	CUdevResource all = whole(), one[2], two[2];
	CUdevResourceDesc desc;
	unsigned count = 2;

	OK(cuDevSmResourceSplitByCount(one, &count, &all, NULL, 0, 8));
	OK(cuDevSmResourceSplitByCount(two, &count, &all, NULL, 0, 8));
	OK(cuDevResourceGenerateDesc(&desc, one, 2));
	OK(cuDevResourceGenerateDesc(&desc, &all, 1));
	EXPECT(cuDevResourceGenerateDesc(NULL, one, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDevResourceGenerateDesc(&desc, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDevResourceGenerateDesc(&desc, one, 0), CUDA_ERROR_INVALID_VALUE);
	one[1] = two[1];
	EXPECT(cuDevResourceGenerateDesc(&desc, one, 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	one[1] = one[0];
	one[1].type = CU_DEV_RESOURCE_TYPE_INVALID;
	EXPECT(cuDevResourceGenerateDesc(&desc, one, 2), CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

/* One costs memory, and holds the primary context. */
static void cost(void)
{
	CUdevResourceDesc desc = desc_of(16);
	unsigned flags = 0;
	CUcontext primary, view;
	CUgreenCtx green, same;
	CUdevResource got;
	uint64_t start;
	int active = 1;

	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	TRUE(!active);
	EXPECT(cuGreenCtxCreate(NULL, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGreenCtxCreate(&green, NULL, 0, CU_GREEN_CTX_DEFAULT_STREAM),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGreenCtxCreate(&green, desc, 1, CU_GREEN_CTX_DEFAULT_STREAM),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGreenCtxCreate(&green, desc, 9, CU_GREEN_CTX_DEFAULT_STREAM),
	       CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuGreenCtxCreate(&green, desc, 0, 6), CUDA_ERROR_INVALID_VALUE);
	OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	TRUE(active);
	OK(cuGreenCtxDestroy(green));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	TRUE(!active);
	EXPECT(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	EXPECT(cuGreenCtxDestroy((CUgreenCtx)&flags), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuCtxSetCurrent(primary));
	start = check_free_bytes();
	OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	TRUE(check_free_bytes() == start - 6 * MIB);
	OK(cuGreenCtxCreate(&same, desc, 0, CU_GREEN_CTX_NONE));
	TRUE(check_free_bytes() == start - 12 * MIB);
	OK(cuGreenCtxDestroy(same));
	OK(cuCtxFromGreenCtx(&view, green));
	TRUE(view != primary);
	OK(cuGreenCtxGetDevResource(green, &got, CU_DEV_RESOURCE_TYPE_SM));
	TRUE(got.sm.smCount == 16);
	OK(cuCtxGetDevResource(view, &got, CU_DEV_RESOURCE_TYPE_SM));
	TRUE(got.sm.smCount == 16);
	OK(cuCtxGetDevResource(primary, &got, CU_DEV_RESOURCE_TYPE_SM));
	TRUE(got.sm.smCount == SMS);
	EXPECT(cuCtxDestroy_v2(view), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuGreenCtxDestroy(green));
	TRUE(check_free_bytes() == start);
	EXPECT(cuCtxSetCurrent(view), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

/* Current, its view works like the primary context, with streams of its own. */
static void use(void)
{
	CUcontext primary, view, current, of_stream;
	CUfunction spin, empty;
	CUstream inside, made, outside;
	CUgreenCtx green, got;
	unsigned long long id = 0;
	CUdevResource resource;
	CUdeviceptr address;
	unsigned word = 0;

	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuCtxSetCurrent(primary));
	spin = check_kernel("spin");
	empty = check_kernel("empty");
	OK(cuStreamCreate(&outside, CU_STREAM_NON_BLOCKING));
	OK(cuGreenCtxCreate(&green, desc_of(16), 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuGreenCtxGetId(green, &id));
	TRUE(id != 0);
	EXPECT(cuGreenCtxStreamCreate(&made, green, CU_STREAM_DEFAULT, 0),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuGreenCtxStreamCreate(&made, green, CU_STREAM_NON_BLOCKING, -9));
	OK(cuCtxFromGreenCtx(&view, green));
	OK(cuCtxSetCurrent(view));
	OK(cuCtxGetCurrent(&current));
	TRUE(current == view);
	OK(cuStreamCreate(&inside, CU_STREAM_NON_BLOCKING));
	OK(cuStreamGetGreenCtx(inside, &got));
	TRUE(got == green);
	OK(cuStreamGetGreenCtx(made, &got));
	TRUE(got == green);
	OK(cuStreamGetGreenCtx(NULL, &got));
	TRUE(got == green);
	OK(cuStreamGetGreenCtx(outside, &got));
	TRUE(got == NULL);
	OK(cuStreamGetCtx(made, &of_stream));
	TRUE(of_stream == view);
	OK(cuStreamGetCtx_v2(made, &of_stream, &got));
	TRUE(of_stream == primary && got == green);
	OK(cuStreamGetDevResource(made, &resource, CU_DEV_RESOURCE_TYPE_SM));
	TRUE(resource.sm.smCount == 16);
	EXPECT(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_HANDLE);
	OK(cuMemAlloc_v2(&address, 4));
	OK(cuMemsetD32_v2(address, 77, 1));
	check_spin(spin, made, 1);
	check_spin(spin, NULL, 1);
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(&word, address, 4));
	TRUE(word == 77);
	OK(cuLaunchCooperativeKernel(empty, 32, 1, 1, 1024, 1, 1, 0, made, NULL));
	EXPECT(cuLaunchCooperativeKernel(empty, 33, 1, 1, 1024, 1, 1, 0, made, NULL),
	       CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	OK(cuLaunchCooperativeKernel(empty, 33, 1, 1, 1024, 1, 1, 0, outside, NULL));
	OK(cuStreamSynchronize(outside));
	OK(cuGreenCtxDestroy(green));
	OK(cuCtxGetCurrent(&current));
	TRUE(current == NULL);
	EXPECT(cuStreamQuery(made), CUDA_ERROR_STREAM_DETACHED);
	EXPECT(check_launch(empty, inside, NULL), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuStreamDestroy_v2(made));
	OK(cuStreamDestroy_v2(inside));
	OK(cuCtxSetCurrent(primary));
	OK(cuMemFree_v2(address));
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

/* Events of the primary context, of the green one's streams alone. */
static void events(void)
{
	CUstream inside, outside, waiting;
	CUgreenCtx green, other;
	CUcontext primary;
	CUfunction empty;
	CUevent event;
	int flag = 0;

	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuCtxSetCurrent(primary));
	empty = check_kernel("empty");
	OK(cuStreamCreate(&outside, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuGreenCtxCreate(&green, desc_of(16), 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuGreenCtxCreate(&other, desc_of(16), 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuGreenCtxStreamCreate(&inside, green, CU_STREAM_NON_BLOCKING, 0));
	OK(cuGreenCtxStreamCreate(&waiting, other, CU_STREAM_NON_BLOCKING, 0));
	OK(cuLaunchHostFunc(outside, check_hold, &flag));
	OK(cuGreenCtxRecordEvent(green, event));
	OK(cuEventSynchronize(event));
	check_let_go(&flag);
	OK(cuStreamSynchronize(outside));
	flag = 0;
	OK(cuLaunchHostFunc(inside, check_hold, &flag));
	OK(cuGreenCtxRecordEvent(green, event));
	EXPECT(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	OK(cuGreenCtxWaitEvent(other, event));
	OK(check_launch(empty, waiting, NULL));
	EXPECT(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
	OK(cuStreamQuery(outside));
	check_let_go(&flag);
	OK(cuStreamSynchronize(waiting));
	OK(cuEventQuery(event));
	OK(cuStreamBeginCapture_v2(inside, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuGreenCtxRecordEvent(other, event));
	EXPECT(cuGreenCtxRecordEvent(green, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	EXPECT(cuStreamEndCapture(inside, &(CUgraph){ 0 }), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuGreenCtxDestroy(green));
	OK(cuGreenCtxDestroy(other));
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

/* A reset of the primary context ends its green ones; what they cost comes back. */
static void reset(void)
{
	CUcontext primary, view;
	CUdeviceptr address;
	CUgreenCtx green;
	uint64_t start;

	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuCtxSetCurrent(primary));
	start = check_free_bytes();
	OK(cuGreenCtxCreate(&green, desc_of(16), 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuCtxFromGreenCtx(&view, green));
	OK(cuCtxSetCurrent(view));
	OK(cuDevicePrimaryCtxReset_v2(0));
	EXPECT(cuMemAlloc_v2(&address, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	EXPECT(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuCtxSetCurrent(primary));
	TRUE(check_free_bytes() == start);
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

static void no_room(void)
{
	CUdevResourceDesc desc = desc_of(8);
	CUcontext primary;
	CUdeviceptr all;
	CUgreenCtx green;

	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuCtxSetCurrent(primary));
	OK(cuMemAlloc_v2(&all, check_free_bytes() - 4 * MIB));
	EXPECT(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM),
	       CUDA_ERROR_OUT_OF_MEMORY);
	TRUE(check_free_bytes() == 4 * MIB);
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

int main(void)
{
	check_machine("count=2,mem=1g,context=64m,sms=132");
	OK(cuInit(0));
	splitting();
	descriptors();
	cost();
	use();
	events();
	reset();
	no_room();
	return check_end();
}
