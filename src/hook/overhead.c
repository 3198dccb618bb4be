#include "hook/overhead.h"

#include "base/bytes.h"
#include "core/green.h"
#include "core/leaving.h"
#include "core/lodger.h"
#include "core/promise.h"
#include "core/small.h"
#include "core/still.h"
#include "core/untold.h"
#include "drv/gpu_cuda.h"
#include "hook/loading.h"

#include <errno.h>

static void begin(struct overhead *o, enum enter what)
{
	o->counts = what == ENTER_CHARGE;
	o->is_refused = what == ENTER_REFUSE;
	o->before_bytes = o->counts ? quota_overhead(o->dev) : 0;
	o->reserved_bytes = o->untold_bytes = o->managed_bytes = 0;
	o->is_library = false;
	o->calls = (struct system_calls){ .ctx = NULL };
}

void overhead_expect(struct overhead *o, unsigned calls)
{
	if (o->counts && quota_counts_contexts())
		o->calls = system_calls_of(calls);
}

bool overhead_came(const struct overhead *o, const void *owner)
{
	return system_calls_came(&o->calls, owner);
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

void overhead_expect_managed(struct overhead *o, uint64_t bytes, bool is_library)
{
	if (!o->counts)
		return;
	o->managed_bytes = bytes;
	o->is_library = is_library;
}

CUresult overhead_reserve_managed(struct overhead *o)
{
	uint64_t bytes = o->managed_bytes;
	int rc = bytes ? quota_reserve(o->dev, QUOTA_DATA, bytes) : 0;

	if (rc == -EDQUOT) {
		charge_ask_card(o->dev);
		rc = quota_reserve(o->dev, QUOTA_DATA, bytes);
	}
	if (rc == 0)
		return CUDA_SUCCESS;
	o->managed_bytes = 0;
	return enter_refused(rc, o->dev, bytes);
}

static void drop_managed(struct overhead *o)
{
	quota_release(o->dev, QUOTA_DATA, o->managed_bytes);
	o->managed_bytes = 0;
}

/* Of the rest, which a look tells. */
static CUresult reserve(struct overhead *o, uint64_t bytes)
{
	int rc;

	if (!quota_counts_contexts())
		return CUDA_SUCCESS;
	/* What nobody knows is refused by a limit only. */
	if (bytes == UINT64_MAX && !quota_limit(o->dev))
		bytes = 0;
	bytes = bytes_sum(bytes, o->calls.bytes);
	bytes = bytes_round_up(bytes ? bytes : 1, TRACK_BLOCK_BYTES);
	rc = charge_doubt_overhead(o->dev, QUOTA_MODULE, bytes);
	if (rc == -EDQUOT) {
		leaving_await(o->dev, bytes);
		charge_ask_card(o->dev);
		rc = charge_doubt_overhead(o->dev, QUOTA_MODULE, bytes);
	}
	if (rc < 0)
		return enter_refused(rc, o->dev, bytes);
	o->reserved_bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult overhead_reserve(struct overhead *o, uint64_t bytes)
{
	CUresult res = o->counts ? overhead_reserve_managed(o) : CUDA_SUCCESS;

	if (!o->counts || res != CUDA_SUCCESS)
		return res;
	res = reserve(o, bytes);
	if (res != CUDA_SUCCESS)
		drop_managed(o);
	return res;
}

/*
 * The call is over, and the card was looked at since: that took off what was reserved, but where it
 * cannot be asked: there it stays, untold. Where others were in its way, the reservation stays
 * until the next look: then false.
 */
static bool end_reserved(struct overhead *o)
{
	int rc;

	if (!o->reserved_bytes)
		return false;
	rc = charge_reconcile(o->dev, QUOTA_MODULE);
	if (rc == -ENOTSUP)
		o->untold_bytes = o->reserved_bytes;
	quota_doubt_over(o->dev, QUOTA_MODULE, o->reserved_bytes, 0);
	o->reserved_bytes = 0;
	if (rc == -EAGAIN)
		still_owe(o->dev);
	return rc != -EAGAIN;
}

void overhead_cancel(struct overhead *o)
{
	if (o->reserved_bytes)
		charge_over();
	end_reserved(o);
	overhead_drop(o);
}

void overhead_drop(struct overhead *o)
{
	quota_release(o->dev, QUOTA_MODULE, o->untold_bytes);
	o->untold_bytes = 0;
	drop_managed(o);
}

/* What is for system calls is the context's, and stays when the owner goes. */
void overhead_keep(struct overhead *o, const void *owner, const void *ctx)
{
	uint64_t lasting_bytes = bytes_least(o->calls.bytes, o->untold_bytes);

	if (lasting_bytes) {
		untold_add(NULL, o->calls.ctx, o->dev, lasting_bytes);
		promise_keep(o->calls.ctx);
	}
	untold_add(owner, ctx, o->dev, o->untold_bytes - lasting_bytes);
	untold_add_managed(owner, o->is_library ? NULL : ctx, o->dev, o->managed_bytes);
	o->untold_bytes = o->managed_bytes = 0;
}

void overhead_give_back(const struct untold_bytes *bytes)
{
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct dev dev = { d };

		if (bytes->module[d] && charge_reconcile(dev, QUOTA_MODULE) == -ENOTSUP)
			quota_release(dev, QUOTA_MODULE, bytes->module[d]);
		quota_release(dev, QUOTA_DATA, bytes->managed[d]);
	}
}

void overhead_lodge(const struct overhead *o, const void *owner, uint64_t shared_bytes)
{
	const void *ctx;
	struct cuda_ord ord;

	if (o->counts && gpu_cuda_current(&ord, &ctx))
		lodger_enter(owner, green_owner(ctx), o->dev, shared_bytes);
}

int overhead_finish(struct overhead *o)
{
	bool took_kept;

	if (!o->counts)
		return 0;
	if (o->reserved_bytes)
		charge_over();
	o->doubt_bytes = still_reconcile(o->dev, QUOTA_MODULE);
	/* The block that is kept back (core/small.h), as far as it is known what was taken. */
	took_kept = end_reserved(o) && !small_may_stay(o->dev, 0);
	/*
	 * Nothing is refused to a call that took nothing, also under a limit shrunk below the use.
	 */
	return (still_is_over(o->dev, o->doubt_bytes) || took_kept) &&
			       quota_overhead(o->dev) + o->doubt_bytes > o->before_bytes ?
		       -EDQUOT :
		       0;
}

uint64_t overhead_taken(const struct overhead *o)
{
	return bytes_beyond(quota_overhead(o->dev), o->before_bytes);
}

bool overhead_fell(const struct overhead *o)
{
	return o->counts && quota_overhead(o->dev) < o->before_bytes;
}

CUresult overhead_refuse(struct overhead *o)
{
	uint64_t taken = quota_overhead(o->dev) + o->doubt_bytes - o->before_bytes;

	overhead_drop(o);
	charge_reconcile(o->dev, QUOTA_MODULE);
	return enter_refused(-EDQUOT, o->dev, taken);
}

CUresult overhead_reserve_lasting(struct overhead *o, uint64_t bytes)
{
	if (quota_is_over(o->dev))
		charge_ask_card(o->dev);
	if (quota_is_over(o->dev))
		return enter_refused(-EDQUOT, o->dev, 0);
	return overhead_reserve(o, bytes);
}

CUresult overhead_finish_lasting(struct overhead *o)
{
	if (o->counts)
		small_note_code(o->dev);
	return overhead_finish(o) < 0 && still_is_over(o->dev, o->doubt_bytes) ?
		       overhead_refuse(o) :
		       CUDA_SUCCESS;
}

struct library_need overhead_library_need(const struct loading *loading)
{
	return (struct library_need){ .bytes = loading->bytes,
				      .code_bytes = loading->later_bytes,
				      .managed_bytes = loading->managed_bytes,
				      .shared_bytes = loading->shared_bytes,
				      .calls = loading->calls };
}

static struct library_need find_need(CUlibrary library)
{
	struct library_need need = library_need(library);
	struct loading loading;

	if (!need.image)
		return need;
	loading = loading_read(need.image, LOADING_ANYWHERE);
	need = overhead_library_need(&loading);
	library_note(library, need);
	return need;
}

/* What that part of the library takes of the context beyond what is there; found when needed. */
static uint64_t bytes_of(struct overhead *o, CUlibrary library, const void *ctx,
			 enum library_part part)
{
	struct library_need need = find_need(library);
	uint64_t bytes = 0;

	/* Where they are there, that is nothing; but a heap that found no room then. */
	overhead_expect(o, need.calls);
	if (need.managed_bytes && !untold_has_managed(library))
		overhead_expect_managed(o, need.managed_bytes, true);
	if (!library_is_there(library, ctx, LIBRARY_DATA))
		bytes = need.bytes;
	if (part == LIBRARY_CODE && !loading_is_eager() &&
	    !library_is_there(library, ctx, LIBRARY_CODE))
		bytes = bytes_sum(bytes, bytes_round_up(need.code_bytes ? need.code_bytes : 1,
							TRACK_BLOCK_BYTES));
	return bytes;
}

CUresult overhead_begin_library(struct overhead *o, CUlibrary library, enum library_part part)
{
	const void *ctx;
	struct cuda_ord ord;
	uint64_t bytes;

	overhead_begin(o);
	if (!o->counts || !library || !gpu_cuda_current(&ord, &ctx) ||
	    library_is_in(library, ctx, part))
		return CUDA_SUCCESS;
	bytes = bytes_of(o, library, ctx, part);
	return quota_counts_contexts() ? overhead_reserve_lasting(o, bytes) :
					 overhead_reserve_managed(o);
}

CUresult overhead_finish_library(struct overhead *o, CUlibrary library, enum library_part part,
				 CUresult res)
{
	const void *ctx;
	struct cuda_ord ord;
	bool came;

	if (res != CUDA_SUCCESS) {
		overhead_cancel(o);
		return res;
	}
	if (library)
		overhead_lodge(o, library, library_need(library).shared_bytes);
	came = overhead_came(o, library);
	res = overhead_finish_lasting(o);
	/* No call takes the library out again: what is awaited for it is asked for each time. */
	if (res == CUDA_SUCCESS && !came)
		res = enter_refused(-EDQUOT, o->dev, o->calls.heap_bytes);
	if (loading_is_eager())
		part = LIBRARY_CODE;
	if (!o->counts || !gpu_cuda_current(&ord, &ctx))
		return res;
	overhead_keep(o, library, ctx);
	if (!library)
		return res;
	if (res == CUDA_SUCCESS)
		library_enter(library, ctx, o->dev, part);
	else
		library_refuse(library, ctx, o->dev, part);
	return res;
}
