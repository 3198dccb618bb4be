/*
 * Captures are counted from before they begin until they have ended, whatever the driver says of
 * their end: while one may be under way, nothing of ours goes into a stream unasked.
 */
#include "drv/capture.h"
#include "hook/enter.h"
#include "hook/metering.h"

#include "member.h"
#include "model_driver.h"

/* The driver's one stream. */
static CUstreamCaptureStatus status;
static CUresult end_res;
static bool does_end;

static CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
	(void)stream;
	(void)mode;
	if (status != CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_ERROR_ILLEGAL_STATE;
	status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return CUDA_SUCCESS;
}

static CUresult end_capture(CUstream stream, CUgraph *out_graph)
{
	(void)stream;
	*out_graph = NULL;
	if (status == CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (does_end)
		status = CU_STREAM_CAPTURE_STATUS_NONE;
	return end_res;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *out_status)
{
	(void)stream;
	*out_status = status;
	return CUDA_SUCCESS;
}

static const CUstream stream = (CUstream)0x1000;

static void begin(void)
{
	model_start(UINT64_C(256) << 20);
	model_join(scratch_path("region"), "100m");
	real.cuStreamBeginCapture_v2 = begin_capture;
	real.cuStreamEndCapture = end_capture;
	real.cuStreamIsCapturing = is_capturing;
	CHECK(hook_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	CHECK_EQ(capture_count, 1);
	CHECK(hook_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
	      CUDA_ERROR_ILLEGAL_STATE);
	CHECK_EQ(capture_count, 1);
}

static void try_end(CUresult res, bool ends, unsigned left)
{
	CUgraph graph;

	end_res = res;
	does_end = ends;
	CHECK(hook_cuStreamEndCapture(stream, &graph) == res);
	CHECK_EQ(capture_count, left);
}

static void a_capture_that_succeeds(void)
{
	begin();
	try_end(CUDA_SUCCESS, true, 0);
}

static void a_capture_that_was_invalidated(void)
{
	begin();
	status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	try_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, true, 0);
}

/* Work of another stream was not joined: there is no graph, and no capture any more. */
static void a_capture_that_was_not_joined(void)
{
	begin();
	try_end(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, true, 0);
}

/* From another thread: it goes on. */
static void an_end_that_is_none(void)
{
	CUgraph graph;

	begin();
	try_end(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, false, 1);
	try_end(CUDA_SUCCESS, true, 0);
	metering_begin_capture(NULL);
	CHECK(hook_cuStreamEndCapture(stream, &graph) == CUDA_ERROR_ILLEGAL_STATE);
	CHECK_EQ(capture_count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(a_capture_that_succeeds),
		fresh_test(a_capture_that_was_invalidated),
		fresh_test(a_capture_that_was_not_joined),
		fresh_test(an_end_that_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
