/* Events: order, times, what may not be asked of them. */
#include "check.h"

static CUfunction spin;

static void arguments(void)
{
	CUevent event, wild = (CUevent)&event;
	float ms;

	EXPECT(cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuEventCreate(&event, 0x100), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuEventQuery(wild), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventRecord(wild, NULL), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
	OK(cuEventCreate(&event, 0));
	OK(cuEventQuery(event));
	OK(cuEventSynchronize(event));
	EXPECT(cuEventElapsedTime(&ms, event, event), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventRecord(event, (CUstream)&event), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventRecordWithFlags(event, NULL, 8), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamWaitEvent(NULL, wild, 0), CUDA_ERROR_INVALID_HANDLE);
	OK(cuStreamWaitEvent(NULL, event, 0));
	OK(cuEventDestroy_v2(event));
	EXPECT(cuEventDestroy_v2(event), CUDA_ERROR_INVALID_HANDLE);
}

static void times(void)
{
	CUevent start, end, untimed;
	int flag = 0;
	float ms = 0;

	OK(cuEventCreate(&start, 0));
	OK(cuEventCreate(&end, 0));
	OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(start, NULL));
	check_spin(spin, NULL, 20);
	OK(cuEventRecord(untimed, NULL));
	OK(cuEventRecord(end, NULL));
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime(&ms, start, end));
	TRUE(ms >= 20.0f);
	OK(cuEventElapsedTime_v2(&ms, end, start));
	TRUE(ms <= -20.0f);
	EXPECT(cuEventElapsedTime(NULL, start, end), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuEventElapsedTime(&ms, start, untimed), CUDA_ERROR_INVALID_HANDLE);
	OK(cuLaunchHostFunc(NULL, check_hold, &flag));
	OK(cuEventRecord(end, NULL));
	EXPECT(cuEventQuery(end), CUDA_ERROR_NOT_READY);
	EXPECT(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY);
	check_let_go(&flag);
	OK(cuEventSynchronize(end));
	OK(cuEventQuery(end));
	OK(cuEventDestroy_v2(untimed));
	OK(cuEventDestroy_v2(end));
	OK(cuEventDestroy_v2(start));
}

/* A wait is for the record the event had when the wait was submitted. */
static void waits(void)
{
	CUstream first, second;
	CUevent event;
	int flag = 0, later = 0;

	OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuLaunchHostFunc(first, check_hold, &flag));
	OK(cuEventRecord(event, first));
	OK(cuStreamWaitEvent(second, event, 0));
	check_spin(spin, second, 0);
	EXPECT(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	OK(cuLaunchHostFunc(first, check_hold, &later));
	OK(cuEventRecord(event, first));
	check_let_go(&flag);
	OK(cuStreamSynchronize(second));
	EXPECT(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	check_let_go(&later);
	OK(cuEventSynchronize(event));
	OK(cuEventDestroy_v2(event));
	OK(cuStreamDestroy_v2(second));
	OK(cuStreamDestroy_v2(first));
}

/* One record for everything a context does. */
static void whole_context(CUcontext ctx)
{
	CUstream stream[3];
	int flag[3] = { 0, 0, 0 };
	CUevent event, start;
	float ms;

	OK(cuEventCreate(&event, 0));
	OK(cuEventCreate(&start, 0));
	OK(cuCtxRecordEvent(ctx, start));
	OK(cuEventQuery(start));
	for (int i = 0; i < 3; i++) {
		OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
		OK(cuLaunchHostFunc(stream[i], check_hold, &flag[i]));
	}
	OK(cuCtxRecordEvent(ctx, event));
	for (int i = 0; i < 3; i++) {
		EXPECT(cuEventQuery(event), CUDA_ERROR_NOT_READY);
		check_let_go(&flag[i]);
		OK(cuStreamSynchronize(stream[i]));
		OK(cuStreamDestroy_v2(stream[i]));
	}
	OK(cuEventSynchronize(event));
	OK(cuEventElapsedTime(&ms, start, event));
	TRUE(ms > 0);
	OK(cuEventDestroy_v2(start));
	OK(cuEventDestroy_v2(event));
}

/* Events belong to a context. */
static void across_contexts(CUcontext ctx)
{
	CUevent here, there;
	CUcontext other;
	float ms;

	OK(cuEventCreate(&here, 0));
	OK(cuEventRecord(here, NULL));
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuEventCreate(&there, 0));
	OK(cuEventRecord(there, NULL));
	OK(cuCtxSynchronize());
	EXPECT(cuEventElapsedTime(&ms, here, there), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventRecord(here, NULL), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuCtxRecordEvent(ctx, there), CUDA_ERROR_INVALID_HANDLE);
	OK(cuStreamWaitEvent(NULL, here, 0));
	OK(cuCtxSynchronize());
	OK(cuCtxDestroy_v2(other));
	EXPECT(cuEventQuery(there), CUDA_ERROR_INVALID_HANDLE);
	OK(cuEventDestroy_v2(here));
}

int main(void)
{
	CUcontext ctx = check_start("count=1,mem=1g");

	spin = check_kernel("spin");
	arguments();
	times();
	waits();
	whole_context(ctx);
	across_contexts(ctx);
	return check_end();
}
