#include "drv/gpu_probe.h"

#include "drv/capture.h"
#include "failing_driver.h"
#include "sim_gpu.h"

#include <errno.h>

static const struct cuda_ord ord0 = { 0 };

static void start(void)
{
	sim_gpu_start("mem=64m,context=8m");
	failing_start();
	failing_none();
}

static void host_memory_keeps_what_is_written(void)
{
	uint64_t free_bytes;

	start();
	free_bytes = sim_gpu_free_bytes();
	CHECK_EQ(gpu_probe_host(ord0), 0);
	CHECK_EQ(sim_gpu_free_bytes(), free_bytes);
}

/* Whatever fails once is no proof that memory is not right, and nothing is left behind. */
static void each_step_may_fail(void)
{
	unsigned calls;

	start();
	CHECK_EQ(gpu_probe_host(ord0), 0);
	calls = failing.calls;
	CHECK(calls > 6);
	/* The last two take away what was there. */
	for (unsigned n = 1; n <= calls - 2; n++) {
		int rc;

		failing_from(n, n, CUDA_ERROR_UNKNOWN);
		rc = gpu_probe_host(ord0);
		CHECK(rc == 0 || rc == -EAGAIN);
		failing_none();
		CHECK_EQ(gpu_probe_host(ord0), 0);
	}
}

static CUresult refuse(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	(void)to;
	(void)from;
	(void)bytes;
	(void)stream;
	return CUDA_ERROR_UNKNOWN;
}

static void copies_that_fail_are_not_right(void)
{
	start();
	real.cuMemcpyDtoDAsync_v2 = NULL;
	CHECK_EQ(gpu_probe_host(ord0), -EAGAIN);
	real.cuMemcpyDtoDAsync_v2 = refuse;
	CHECK_EQ(gpu_probe_host(ord0), -EIO);
}

/* Copies that change bytes. */
static CUresult change(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	CUresult res = cuMemcpyDtoDAsync_v2(to, from, bytes, stream);

	return res == CUDA_SUCCESS ? cuMemsetD8Async(to + bytes - 1, 1, 1, stream) : res;
}

static void bytes_that_change_are_seen(void)
{
	start();
	real.cuMemcpyDtoDAsync_v2 = change;
	CHECK_EQ(gpu_probe_host(ord0), -EIO);
}

static void it_waits_for_a_better_moment(void)
{
	start();
	capture_begin();
	CHECK_EQ(gpu_probe_host(ord0), -EAGAIN);
	CHECK_EQ(failing.calls, 0);
	capture_end();
	SIM_OK(cuCtxSetCurrent(NULL));
	CHECK_EQ(gpu_probe_host(ord0), -EAGAIN);
	CHECK_EQ(failing.calls, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(host_memory_keeps_what_is_written),
		fresh_test(each_step_may_fail),
		fresh_test(copies_that_fail_are_not_right),
		fresh_test(bytes_that_change_are_seen),
		fresh_test(it_waits_for_a_better_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
