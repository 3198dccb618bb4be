#include "hook/overhead.h"

#include "core/library.h"
#include "core/still.h"
#include "drv/gpu_cuda.h"

#include <errno.h>

static void begin(struct overhead *o, enum enter what)
{
	o->counts = what == ENTER_CHARGE;
	o->is_refused = what == ENTER_REFUSE;
	o->before_bytes = o->counts ? quota_overhead(o->dev) : 0;
}

void overhead_begin(struct overhead *o)
{
	const void *ctx;

	begin(o, enter_current(&o->dev, &ctx));
}

void overhead_begin_on(struct overhead *o, CUdevice ord)
{
	begin(o, enter_ordinal(ord, &o->dev));
}

int overhead_finish(struct overhead *o)
{
	if (!o->counts)
		return 0;
	o->doubt_bytes = still_reconcile(o->dev, QUOTA_MODULE);
	/*
	 * Nothing is refused to a call that took nothing, also under a limit shrunk below the use.
	 */
	return still_is_over(o->dev, o->doubt_bytes) &&
			       quota_overhead(o->dev) + o->doubt_bytes > o->before_bytes ?
		       -EDQUOT :
		       0;
}

bool overhead_fell(const struct overhead *o)
{
	return o->counts && quota_overhead(o->dev) < o->before_bytes;
}

CUresult overhead_refuse(struct overhead *o)
{
	uint64_t taken = quota_overhead(o->dev) + o->doubt_bytes - o->before_bytes;

	charge_reconcile(o->dev, QUOTA_MODULE);
	return enter_refused(-EDQUOT, o->dev, taken);
}

CUresult overhead_begin_library(struct overhead *o, CUlibrary library)
{
	const void *ctx;
	struct cuda_ord ord;

	overhead_begin(o);
	if (!o->counts || !library || !quota_counts_contexts() || !gpu_cuda_current(&ord, &ctx) ||
	    library_is_in(library, ctx) || !quota_is_over(o->dev))
		return CUDA_SUCCESS;
	charge_ask_card(o->dev);
	return quota_is_over(o->dev) ? enter_refused(-EDQUOT, o->dev, 0) : CUDA_SUCCESS;
}

CUresult overhead_finish_library(struct overhead *o, CUlibrary library, CUresult res)
{
	const void *ctx;
	struct cuda_ord ord;

	if (res != CUDA_SUCCESS)
		return res;
	if (o->counts && library && gpu_cuda_current(&ord, &ctx))
		library_enter(library, ctx);
	return overhead_finish(o) < 0 ? overhead_refuse(o) : res;
}
