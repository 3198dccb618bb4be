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
	o->reserved_bytes = 0;
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

/*
 * Any look at the card takes it off again, so it may be gone before the call has taken what it was
 * for; what that took counts as without it.
 */
CUresult overhead_reserve(struct overhead *o, uint64_t bytes)
{
	int rc;

	/* Less may do with room in blocks that are there. */
	if (!o->counts || !quota_counts_contexts() || bytes <= TRACK_BLOCK_BYTES)
		return CUDA_SUCCESS;
	rc = quota_reserve(o->dev, QUOTA_MODULE, bytes);
	if (rc == -EDQUOT && charge_ask_card(o->dev))
		rc = quota_reserve(o->dev, QUOTA_MODULE, bytes);
	if (rc < 0)
		return enter_refused(rc, o->dev, bytes);
	o->reserved_bytes = bytes;
	return CUDA_SUCCESS;
}

/* Where the card cannot be asked, no look takes it off. */
void overhead_cancel(struct overhead *o)
{
	if (o->reserved_bytes && charge_reconcile(o->dev, QUOTA_MODULE) == -ENOTSUP)
		quota_release(o->dev, QUOTA_MODULE, o->reserved_bytes);
	o->reserved_bytes = 0;
}

int overhead_finish(struct overhead *o)
{
	if (!o->counts)
		return 0;
	o->doubt_bytes = still_reconcile(o->dev, QUOTA_MODULE);
	overhead_cancel(o);
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
	    library_is_in(library, ctx))
		return CUDA_SUCCESS;
	if (quota_is_over(o->dev))
		charge_ask_card(o->dev);
	if (quota_is_over(o->dev))
		return enter_refused(-EDQUOT, o->dev, 0);
	return overhead_reserve(o, library_bytes(library));
}

CUresult overhead_finish_library(struct overhead *o, CUlibrary library, CUresult res)
{
	const void *ctx;
	struct cuda_ord ord;

	if (res != CUDA_SUCCESS) {
		overhead_cancel(o);
		return res;
	}
	if (o->counts && library && gpu_cuda_current(&ord, &ctx))
		library_enter(library, ctx);
	return overhead_finish(o) < 0 ? overhead_refuse(o) : res;
}
