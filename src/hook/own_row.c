#include "hook/own_row.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/charge.h"
#include "core/gate.h"
#include "drv/real.h"
#include "drv/relaxed.h"
#include "drv/sample_nvml.h"

/* What is held of the device at the moment; on the stack of who searches. */
struct held {
	struct dev dev;
	uint64_t bytes;
	CUdeviceptr addr;
};

static bool take(void *arg, uint64_t bytes)
{
	struct held *held = arg;

	if (quota_reserve(held->dev, QUOTA_DATA, bytes) < 0)
		return false;
	charge_begin();
	if (GATE_CALL(real.cuMemAlloc_v2(&held->addr, bytes)) == CUDA_SUCCESS) {
		held->bytes = bytes;
		return true;
	}
	quota_release(held->dev, QUOTA_DATA, bytes);
	charge_over();
	return false;
}

/* What the driver keeps stays charged. */
static bool give(void *arg)
{
	struct held *held = arg;
	bool is_given = GATE_CALL(real.cuMemFree_v2(held->addr)) == CUDA_SUCCESS;

	if (is_given)
		quota_release(held->dev, QUOTA_DATA, held->bytes);
	charge_over();
	return is_given;
}

bool own_row_find(struct dev dev, const void *ctx)
{
	struct held held = { .dev = dev };
	struct fingerprint fingerprint = { .take = take, .give = give, .arg = &held };
	struct relaxed relaxed;
	CUcontext popped;
	unsigned pid;

	if (!quota_counts_contexts() || !real.cuMemAlloc_v2 || !real.cuMemFree_v2 ||
	    !real.cuCtxPushCurrent_v2 || !real.cuCtxPopCurrent_v2 ||
	    real.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)ctx) != CUDA_SUCCESS)
		return false;
	/* Two processes that begin at once have other addresses and other times. */
	fingerprint.seed = (uint64_t)clock_now_ns() ^ (uint64_t)(uintptr_t)&held << 20;
	relaxed = relaxed_begin();
	pid = sample_nvml_find_own(quota_uuid(dev), &fingerprint);
	relaxed_end(relaxed);
	real.cuCtxPopCurrent_v2(&popped);
	if (!pid)
		return false;
	log_info("NVML lists this process under the pid %u", pid);
	quota_name_host_pid(pid);
	return true;
}
