#include "hook/overhead.h"

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
	uint64_t limit;

	if (!o->counts)
		return 0;
	charge_reconcile(o->dev, QUOTA_MODULE);
	limit = quota_limit(o->dev);
	/*
	 * Nothing is refused to a call that took nothing, also under a limit shrunk below the use.
	 */
	return limit && quota_used(o->dev) > limit && quota_overhead(o->dev) > o->before_bytes ?
		       -EDQUOT :
		       0;
}

bool overhead_fell(const struct overhead *o)
{
	return o->counts && quota_overhead(o->dev) < o->before_bytes;
}

CUresult overhead_refuse(struct overhead *o)
{
	uint64_t taken = quota_overhead(o->dev) - o->before_bytes;

	charge_reconcile(o->dev, QUOTA_MODULE);
	return enter_refused(-EDQUOT, o->dev, taken);
}
