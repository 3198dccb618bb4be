#include "hook/enter.h"

#include "base/log.h"
#include "base/process.h"
#include "base/units.h"
#include "core/green.h"
#include "drv/gpu_cuda.h"
#include "hook/worker.h"

#include <errno.h>
#include <stdatomic.h>

enum { REFUSALS_SAID = 8 };

struct enter_state {
	/* 1: this process's context there was looked for; atomic. */
	_Atomic char has_looked[RATION_DEVICES];
	_Atomic int refusals; /* atomic */
};
PROCESS_STATE(enter_state, state);

CUresult enter_missing(void)
{
	return real_find(REAL_CUDA) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult enter_refusal(void)
{
	return status_cuda(init_error());
}

enum enter enter_ordinal(CUdevice ord, struct dev *out_dev)
{
	/*
	 * Before cuInit there are no devices to enter, and the driver refuses the call by itself.
	 */
	if (!init_is_member() && !gpu_cuda_ready())
		return ENTER_FORWARD;
	switch (init_member()) {
	case INIT_PASS:
		return ENTER_FORWARD;
	case INIT_MEMBER:
		return device_by_ordinal((struct cuda_ord){ ord }, out_dev) ? ENTER_CHARGE :
									      ENTER_FORWARD;
	default:
		return ENTER_REFUSE;
	}
}

/* A context that was made by a way we do not see (a private table) is found at the first use. */
static void look_for_context(struct dev dev)
{
	if (atomic_load_explicit(&state.s.has_looked[dev.v], memory_order_relaxed))
		return;
	process_wipe_on_fork(&state, sizeof(state));
	atomic_store_explicit(&state.s.has_looked[dev.v], 1, memory_order_relaxed);
	if (quota_held(dev, QUOTA_CONTEXT) == 0)
		charge_reconcile(dev, QUOTA_CONTEXT);
	worker_start();
}

void enter_use(struct dev dev)
{
	look_for_context(dev);
}

void enter_forget_context(struct dev dev)
{
	atomic_store_explicit(&state.s.has_looked[dev.v], 0, memory_order_relaxed);
}

enum enter enter_current(struct dev *out_dev, const void **out_ctx)
{
	enum enter what;
	struct cuda_ord ord;

	if (!gpu_cuda_current(&ord, out_ctx))
		return ENTER_FORWARD;
	what = enter_ordinal(ord.v, out_dev);
	if (what == ENTER_CHARGE)
		look_for_context(*out_dev);
	*out_ctx = green_owner(*out_ctx);
	return what;
}

bool enter_may_say(void)
{
	return atomic_fetch_add(&state.s.refusals, 1) < REFUSALS_SAID;
}

CUresult enter_refused(int rc, struct dev dev, uint64_t bytes)
{
	char asked[16], used[16], limit[16];

	if (rc == -EDQUOT && enter_may_say())
		log_warn("device %d (%.12s): %s refused: %s of %s are in use", dev.v,
			 quota_uuid(dev), units_format_size(bytes, asked, sizeof(asked)),
			 units_format_size(quota_used(dev), used, sizeof(used)),
			 units_format_size(quota_limit(dev), limit, sizeof(limit)));
	return status_cuda(rc);
}

/* No card has so much. */
#define NEVER_BYTES ((size_t)1 << 62)

CUresult enter_would_allow(void)
{
	CUresult res = CUDA_SUCCESS;
	CUdeviceptr addr;

	if (real.cuMemAlloc_v2)
		res = real.cuMemAlloc_v2(&addr, NEVER_BYTES);
	return res == CUDA_ERROR_OUT_OF_MEMORY || res == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS :
										    res;
}

CUresult enter_refused_now(int rc, struct dev dev, uint64_t bytes)
{
	CUresult res = rc == -EDQUOT ? enter_would_allow() : CUDA_SUCCESS;

	return res == CUDA_SUCCESS ? enter_refused(rc, dev, bytes) : res;
}
