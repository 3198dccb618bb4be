#include "hook/making.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/turn.h"
#include "base/units.h"
#include "core/context.h"
#include "core/learnt.h"
#include "core/local.h"
#include "core/still.h"
#include "drv/gpu_cuda.h"
#include "hook/own_row.h"
#include "hook/worker.h"

#include <errno.h>
#include <stdatomic.h>

/* More than a context was seen to cost on any card. */
#define UNSEEN_MOST_BYTES (UINT64_C(1) << 30)
#define UNSEEN_NAP_NS NSEC_PER_MSEC

/*
 * A context takes a tenth of a second; some cards are woken up first, and its memory may be waited
 * for (core/leaving.h).
 */
#define MAKER_WAIT_NS (10 * NSEC_PER_SEC)

enum { REFUSALS_SAID = 8 };

struct making_state {
	struct turn maker[RATION_DEVICES]; /* to make the primary context */
	/* Primary contexts begun on each device; atomic. */
	_Atomic unsigned primaries[RATION_DEVICES];
	/* The least that a context was seen to cost in this process, 0 = not known yet; atomic. */
	_Atomic uint64_t seen_bytes[RATION_DEVICES];
	_Atomic bool has_told[RATION_DEVICES]; /* the region what one costs; atomic */
	_Atomic int refusals;                  /* atomic */
};
PROCESS_STATE(making_state, state);

static CUresult too_small(struct dev dev, uint64_t context_bytes)
{
	char needs[16], left[16], limit[16];

	if (atomic_fetch_add(&state.s.refusals, 1) < REFUSALS_SAID)
		log_error("device %d (%.12s): a context needs %s and the limit leaves %s of %s",
			  dev.v, quota_uuid(dev),
			  units_format_size(context_bytes, needs, sizeof(needs)),
			  units_format_size(quota_left(dev), left, sizeof(left)),
			  units_format_size(quota_limit(dev), limit, sizeof(limit)));
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void making_over(struct making *m)
{
	if (!m->is_maker)
		return;
	turn_give(&state.s.maker[m->dev.v]);
	m->is_maker = false;
}

/*
 * What a context is likely to cost. What this process saw itself is believed; what the region says
 * may be another's mistake, so the smaller of the two counts.
 */
static uint64_t likely_bytes(struct dev dev)
{
	uint64_t seen = atomic_load(&state.s.seen_bytes[dev.v]);
	uint64_t told = learnt_context_bytes(dev);

	if (!quota_counts_contexts())
		return 0;
	return seen && (told == 0 || seen < told) ? seen : told;
}

/* What this process holds before: whoever changes it from here on is seen by making_finish(). */
static int look_before(struct making *m)
{
	int rc;

	m->mark = charge_mark();
	rc = still_reconcile_soon(m->dev, QUOTA_CONTEXT);
	m->before_bytes = quota_overhead(m->dev);
	/* Before its first context a process has no figure on the card, and holds nothing. */
	m->was_alone = m->mark.begun == m->mark.over &&
		       (rc == 0 || (rc == -ENOTSUP && m->before_bytes == 0));
	/*
	 * What is tracked and gone already (with a context that was reset) would lessen the cost.
	 */
	if (m->before_bytes == 0 && quota_held(m->dev, QUOTA_DATA) > 0)
		m->was_alone = false;
	return rc;
}

/*
 * True while the tenant has nothing on the device but what is in doubt, and so nobody who knows
 * what a context costs there.
 */
static bool is_first(struct dev dev)
{
	/* First: what comes back meanwhile counts twice, not never. */
	uint64_t doubted_bytes = quota_doubted(dev);

	return quota_counts_contexts() && quota_limit(dev) && quota_used(dev) <= doubted_bytes;
}

/* All that the limit leaves, for what takes more than that, if what is said of it is true. */
static void reserve_left(struct making *m)
{
	uint64_t left_bytes = quota_left(m->dev);

	look_before(m);
	if (charge_doubt_overhead(m->dev, QUOTA_CONTEXT, left_bytes) == 0)
		m->unseen_bytes = left_bytes;
	else
		charge_begin();
}

/*
 * The first context of the tenant on the device: it takes nobody knows how much. So it has that
 * much in doubt, and others wait for what is learnt from it, unless the limit has as much for them
 * too. Else what it costs is known by now, or it was not worth waiting for.
 */
static void reserve_unseen(struct making *m)
{
	int64_t end_ns = clock_now_ns() + MAKER_WAIT_NS;
	bool has_waited = false;

	while (m->expected_bytes == 0 && is_first(m->dev) && clock_now_ns() < end_ns) {
		uint64_t left_bytes = quota_left(m->dev);
		uint64_t bytes = bytes_least(left_bytes, UNSEEN_MOST_BYTES);

		if (bytes == UNSEEN_MOST_BYTES || (bytes && quota_doubted(m->dev) == 0)) {
			if (has_waited)
				look_before(m);
			if (charge_doubt_overhead(m->dev, QUOTA_CONTEXT, bytes) == 0) {
				m->unseen_bytes = bytes;
				return;
			}
		}
		clock_sleep_ns(UNSEEN_NAP_NS);
		has_waited = true;
		m->expected_bytes = likely_bytes(m->dev);
	}
	if (m->expected_bytes == 0)
		charge_begin();
}

/*
 * The context is made and counted by the card's figure, or (`rc`) could not be: where there is none
 * the reservation goes; where it cannot be had now it stands until the next look.
 */
static void end_unseen(struct making *m, int rc)
{
	if (m->unseen_bytes)
		quota_doubt_over(m->dev, QUOTA_CONTEXT, m->unseen_bytes,
				 rc == -ENOTSUP ? m->unseen_bytes : 0);
	if (m->unseen_bytes && rc == -EAGAIN)
		still_owe(m->dev);
	m->unseen_bytes = 0;
}

/* Reserves what a context is likely to cost. No refusal stands on a stale figure. */
static int reserve_bytes(struct making *m)
{
	int rc;

	if (m->expected_bytes == 0)
		reserve_unseen(m);
	if (m->expected_bytes == 0)
		return 0;
	rc = charge_reserve_context(m->dev, m->expected_bytes);
	if (rc != -EDQUOT)
		return rc;
	still_reconcile_refusing(m->dev, QUOTA_CONTEXT);
	if (look_before(m) == 0)
		rc = charge_reserve_context(m->dev, m->expected_bytes);
	/*
	 * Nor on what one other process learnt and may be wrong about: a tenant that holds nothing
	 * could never have a context again. The card then says what it really costs.
	 */
	if (rc == -EDQUOT && !atomic_load(&state.s.seen_bytes[m->dev.v]) &&
	    quota_used(m->dev) == 0 && learnt_context_least(m->dev) <= quota_limit(m->dev)) {
		m->is_doubted = true;
		reserve_left(m);
		rc = 0;
	}
	return rc;
}

static enum enter reserve(struct making *m, CUresult *out_res)
{
	look_before(m);
	m->expected_bytes = likely_bytes(m->dev);
	if (reserve_bytes(m) == -EDQUOT) {
		making_over(m);
		*out_res = too_small(m->dev, m->expected_bytes);
		return ENTER_REFUSE;
	}
	m->mark.looks = charge_mark().looks;
	return ENTER_CHARGE;
}

static enum enter enter(struct making *m, CUdevice ord, CUresult *out_res)
{
	enum enter what;

	*m = (struct making){ .is_maker = false };
	what = enter_ordinal(ord, &m->dev);
	if (what == ENTER_REFUSE)
		*out_res = enter_refusal();
	if (what == ENTER_CHARGE)
		process_wipe_on_fork(&state, sizeof(state));
	return what;
}

enum enter making_begin(struct making *m, CUdevice ord, CUresult *out_res)
{
	enum enter what = enter(m, ord, out_res);

	return what == ENTER_CHARGE ? reserve(m, out_res) : what;
}

enum enter making_begin_primary(struct making *m, CUdevice ord, CUresult *out_res)
{
	enum enter what = enter(m, ord, out_res);

	if (what != ENTER_CHARGE)
		return what;
	/* Two would reserve for one. */
	m->is_maker = turn_take(&state.s.maker[m->dev.v], MAKER_WAIT_NS);
	if (gpu_cuda_primary_active((struct cuda_ord){ ord })) {
		making_over(m);
		return ENTER_FORWARD;
	}
	what = reserve(m, out_res);
	/* Before the driver makes it: who sees it alive sees this too. */
	if (what == ENTER_CHARGE)
		atomic_fetch_add(&state.s.primaries[m->dev.v], 1);
	return what;
}

unsigned making_primaries(struct dev dev)
{
	return atomic_load(&state.s.primaries[dev.v]);
}

static uint64_t reserved_bytes(const struct making *m)
{
	return m->is_doubted ? 0 : m->expected_bytes;
}

void making_give_up(struct making *m)
{
	int rc;

	charge_over();
	/* Where the card can be asked, a look at it takes the reservation off. */
	rc = charge_reconcile(m->dev, QUOTA_CONTEXT);
	if (rc == -ENOTSUP)
		quota_release(m->dev, QUOTA_CONTEXT, reserved_bytes(m));
	end_unseen(m, rc);
	making_over(m);
}

/*
 * Of this process. Where it had nothing on the card before, and the card shows it by its own pid,
 * the figure is that of one context and of nothing else.
 */
static enum learnt_seer seer(const struct making *m, bool has_row_found)
{
	if (atomic_exchange(&state.s.has_told[m->dev.v], true))
		return LEARNT_AGAIN;
	return m->before_bytes == 0 && !has_row_found ? LEARNT_SURELY : LEARNT_ONCE;
}

/*
 * Keeps what one cost, if what the card gave meanwhile was its alone, and nothing ended that the
 * card took back. Modules that other threads load may be in it all the same, so the least that was
 * seen counts.
 */
static void learn(struct making *m, bool is_alone, bool has_row_found)
{
	_Atomic uint64_t *seen_bytes = &state.s.seen_bytes[m->dev.v];
	uint64_t seen = atomic_load(seen_bytes);

	if (m->cost_bytes == 0 || !is_alone)
		return;
	while (seen == 0 || m->cost_bytes < seen)
		if (atomic_compare_exchange_weak(seen_bytes, &seen, m->cost_bytes))
			break;
	learnt_note_context(m->dev, atomic_load(seen_bytes));
	learnt_saw_context(m->dev, m->cost_bytes, seer(m, has_row_found));
}

/* No other change of this process's memory has begun since it was looked at. */
static bool is_only_change(const struct making *m)
{
	return charge_mark().begun == m->mark.begun + 1;
}

int making_finish(struct making *m, const void *ctx)
{
	uint64_t limit = quota_limit(m->dev), now_bytes;
	struct context_cost stale;
	bool is_alone, has_row_found = false;
	int rc;

	is_alone = m->was_alone && is_only_change(m) && charge_mark().looks == m->mark.looks;
	charge_over();
	m->cost_bytes = m->expected_bytes;
	rc = still_reconcile_soon(m->dev, QUOTA_CONTEXT);
	if (rc < 0)
		end_unseen(m, rc);
	now_bytes = quota_overhead(m->dev);
	is_alone = is_alone && is_only_change(m);
	if (rc == -ENOTSUP && own_row_find(m->dev, ctx)) {
		has_row_found = true;
		rc = still_reconcile_soon(m->dev, QUOTA_CONTEXT);
		now_bytes = quota_overhead(m->dev);
	}
	if (rc == 0) {
		m->cost_bytes = now_bytes > m->before_bytes ? now_bytes - m->before_bytes : 0;
		learn(m, is_alone, has_row_found);
	}
	/* Who waited for it finds what was learnt. */
	end_unseen(m, rc);
	/* Without an answer of the card, the figure that was doubted stands. */
	if (rc < 0 ? m->is_doubted : limit && quota_used(m->dev) > limit)
		return -EDQUOT;
	local_open(ctx, m->dev);
	stale = context_enter(ctx, m->dev, m->cost_bytes);
	/* Who has no more than this may be suspended too, or has no row yet. */
	worker_start();
	if (rc == -ENOTSUP)
		quota_release(stale.dev, QUOTA_CONTEXT, stale.bytes);
	return 0;
}

CUresult making_refuse(struct making *m)
{
	charge_reconcile(m->dev, QUOTA_CONTEXT);
	return too_small(m->dev, m->cost_bytes);
}
