#include "core/charge.h"

#include "base/bytes.h"
#include "base/process.h"
#include "core/context.h"
#include "core/exec_local.h"
#include "core/function.h"
#include "core/graph.h"
#include "core/green.h"
#include "core/handed.h"
#include "core/hole.h"
#include "core/leaving.h"
#include "core/library.h"
#include "core/local.h"
#include "core/lodger.h"
#include "core/module.h"
#include "core/others.h"
#include "core/piece.h"
#include "core/pool.h"
#include "core/promise.h"
#include "core/small.h"
#include "core/still.h"
#include "core/suspect.h"
#include "core/untold.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct charge_state {
	const struct gpu_ops *ops; /* constant after charge_init() */
	/*
	 * Changes of this process's memory that have begun and that are over: equal, and equal
	 * again after a sample of the driver's figure, means that the sample fits what is tracked.
	 * Samples are numbered as they begin. Atomic.
	 */
	_Atomic uint64_t begun, over, samples;
	/*
	 * Orders what is done with samples, and reservations that a sample must not undo; zero is
	 * an unlocked mutex. Taken before the quota's; never held across a driver call.
	 */
	pthread_mutex_t mutex;
	/* mutex */
	uint64_t used_sample[RATION_DEVICES];
	/* In the overhead until the next look: charge_keep(). */
	uint64_t kept_bytes[RATION_DEVICES];
	_Atomic bool is_blind[RATION_DEVICES]; /* the last look could not be had; atomic */
	/* Reconciling put off: its kind + 1 per device, and whether there is any. Atomic. */
	_Atomic int put_off[RATION_DEVICES];
	_Atomic bool has_put_off;
};
PROCESS_STATE(charge_state, state);

void charge_init(const struct gpu_ops *ops)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.ops = ops;
	still_init();
	suspect_init();
	track_init();
	handle_init();
	context_init();
	pool_init();
	piece_init();
	hole_init();
	graph_init();
	function_init();
	exec_local_init();
	library_init();
	module_init();
	local_init();
	green_init();
	small_init();
	untold_init();
	promise_init();
	lodger_init();
}

void charge_begin(void)
{
	still_yield();
	atomic_fetch_add(&state.s.begun, 1);
}

static bool is_under_way(void)
{
	return atomic_load(&state.s.begun) != atomic_load(&state.s.over);
}

void charge_over(void)
{
	atomic_fetch_add(&state.s.over, 1);
	lent_claim_all();
	if (!atomic_load(&state.s.has_put_off) || is_under_way())
		return;
	atomic_store(&state.s.has_put_off, false);
	for (int d = 0; d < RATION_DEVICES; d++) {
		int kind = atomic_exchange(&state.s.put_off[d], 0);

		if (kind)
			charge_reconcile((struct dev){ d }, (enum quota_kind)(kind - 1));
	}
}

static void put_off(struct dev dev, enum quota_kind kind)
{
	atomic_store(&state.s.put_off[dev.v], (int)kind + 1);
	atomic_store(&state.s.has_put_off, true);
}

void charge_look_later(struct dev dev)
{
	put_off(dev, QUOTA_MODULE);
}

bool charge_may_look(struct dev dev)
{
	return quota_counts_contexts() && !atomic_load(&state.s.is_blind[dev.v]);
}

/*
 * Allocations hold that no more, in a change that is under way: what lodgers may hold of it goes on
 * as overhead until a look at the card. Who is alone looks when something is refused or shown, and
 * now and then; others could be refused for it meanwhile. Where the card cannot be asked, what a
 * module needs is charged for itself.
 */
static void release(struct dev dev, struct track_gone gone)
{
	uint64_t stay_bytes = 0;

	if (gone.shared_bytes && lodger_any(dev) && charge_may_look(dev)) {
		pthread_mutex_lock(&state.s.mutex);
		stay_bytes = lodger_stay(dev, gone.shared_bytes);
		quota_move(dev, QUOTA_DATA, QUOTA_MODULE, stay_bytes);
		pthread_mutex_unlock(&state.s.mutex);
	}
	if (stay_bytes && !quota_is_alone(dev))
		charge_look_later(dev);
	quota_release(dev, QUOTA_DATA, handed_keep(dev, gone.bytes - stay_bytes));
}

/*
 * An address that the driver freed while it was unknown here. Its allocation may be in the books by
 * now, or is about to be: whoever comes second asks the driver.
 */
static void end_if_freed(uint64_t addr)
{
	uint64_t number = track_number(addr);
	struct track_gone gone;
	struct dev dev;

	if (!number || !state.s.ops->is_freed || !state.s.ops->is_freed(addr))
		return;
	gone = track_end_unseen(addr, number, &dev);
	if (gone.bytes)
		release(dev, gone);
}

void charge_freed_unknown(uint64_t addr)
{
	charge_begin();
	if (addr) {
		suspect_note(addr);
		end_if_freed(addr);
	}
	for (int d = 0; d < RATION_DEVICES; d++)
		if (quota_held((struct dev){ d }, QUOTA_CONTEXT))
			charge_look_later((struct dev){ d });
	charge_over();
}

bool charge_ask_card(struct dev dev)
{
	bool has_given = state.s.ops->reclaim && state.s.ops->reclaim(dev);

	has_given |= others_give(dev, UINT64_MAX);
	has_given |= handed_await(dev);
	return still_reconcile_refusing(dev, QUOTA_MODULE) == 0 || has_given;
}

/* What is tracked, with the pools' own figures as they are now: they fall inside other calls. */
static uint64_t tracked(struct dev dev)
{
	if (state.s.ops->refresh)
		state.s.ops->refresh(dev);
	return bytes_beyond(track_physical(dev), handle_unseen(dev));
}

/* The driver's figure beside what is tracked. */
struct look {
	uint64_t number;
	uint64_t begun; /* changes begun when it was taken */
	uint64_t driver_bytes, tracked_bytes;
};

/*
 * Looks at the card while nothing of this process is under way but `under_way` changes of the
 * calling thread, and no pool changed. 0, -EAGAIN, or what the driver's figure said.
 */
static int look(struct dev dev, unsigned under_way, struct look *out)
{
	for (int tries = 0; tries < 3; tries++) {
		int rc;

		out->number = atomic_fetch_add(&state.s.samples, 1) + 1;
		out->begun = atomic_load(&state.s.begun);
		if (out->begun - atomic_load(&state.s.over) != under_way)
			continue;
		out->tracked_bytes = tracked(dev);
		rc = state.s.ops->process_bytes(quota_uuid(dev), &out->driver_bytes);
		if (rc < 0)
			return rc;
		if (tracked(dev) == out->tracked_bytes && atomic_load(&state.s.begun) == out->begun)
			return 0;
	}
	return -EAGAIN;
}

/*
 * Reserves `bytes`; when the limit says no, asks the card first, so that no refusal stands on a
 * stale figure.
 */
static int reserve(struct charge *c, uint64_t bytes)
{
	static int (*const ways[])(struct dev, enum quota_kind, uint64_t) = {
		[CHARGE_MAY_WAIT] = quota_reserve,
		[CHARGE_AT_ONCE] = quota_take,
		[CHARGE_IS_THERE] = quota_charge,
	};
	int (*fn)(struct dev, enum quota_kind, uint64_t) = ways[c->wait];
	int rc = bytes ? fn(c->dev, QUOTA_DATA, bytes) : 0;

	if (rc == -EDQUOT && !c->is_small)
		small_settle(c->dev);
	if (rc == -EDQUOT && (charge_ask_card(c->dev) || !c->is_small))
		rc = fn(c->dev, QUOTA_DATA, bytes);
	if (rc == 0)
		c->bytes = bytes;
	return rc;
}

/* The charge is over: `kept_bytes` of what is reserved stay charged. */
static void end(struct charge *c, uint64_t kept_bytes)
{
	if (c->is_hoping)
		small_over(c->dev, kept_bytes);
	else
		quota_release(c->dev, QUOTA_DATA, c->bytes - kept_bytes);
}

static int reserve_tracked(struct charge *c, uint64_t bytes)
{
	int rc;

	c->node = track_prepare();
	if (!c->node)
		return -ENOMEM;
	if (c->is_small)
		small_note(c->dev);
	rc = reserve(c, bytes);
	if (rc == -EDQUOT && c->is_small && small_hope(c->dev, c->is_object) == 0) {
		c->is_hoping = true;
		c->bytes = TRACK_BLOCK_BYTES;
		rc = 0;
	}
	if (rc < 0) {
		track_discard(c->node);
		return rc;
	}
	charge_begin();
	return 0;
}

int charge_reserve_linear(struct charge *c, struct dev dev, const void *ctx, uint64_t bytes)
{
	*c = (struct charge){ .dev = dev, .ctx = ctx, .is_small = bytes <= TRACK_SMALL_BYTES };
	return reserve_tracked(c, bytes_round_up(bytes, TRACK_BLOCK_BYTES));
}

int charge_reserve_managed(struct charge *c, struct dev dev, const void *ctx, uint64_t bytes,
			   enum charge_wait wait)
{
	*c = (struct charge){ .dev = dev, .ctx = ctx, .is_managed = true, .wait = wait };
	return reserve_tracked(c, bytes_round_up(bytes, CHARGE_MANAGED_PAGE_BYTES));
}

/* The driver gave more than is reserved: `bytes` in all. */
static int take_more(struct charge *c, uint64_t bytes)
{
	int rc = quota_reserve(c->dev, QUOTA_DATA, bytes - c->bytes);

	if (rc == 0)
		c->bytes = bytes;
	return rc;
}

int charge_commit(struct charge *c, uint64_t addr, uint64_t bytes)
{
	struct track what = { .addr = addr,
			      .bytes = c->is_managed ? c->bytes : bytes,
			      .dev = c->dev,
			      .ctx = c->ctx,
			      .is_managed = c->is_managed,
			      .is_object = c->is_object,
			      .is_small = c->is_small };
	uint64_t allowed_bytes = c->is_hoping ? 0 : c->bytes;
	struct track_entered entered;

	/* Blocks come and go while we ask for more, so it may take another turn. */
	while (!track_enter(c->node, &what, allowed_bytes, &entered)) {
		if (c->is_hoping ?
			    !small_may_stay(c->dev, c->bytes) || entered.new_bytes > c->bytes :
			    take_more(c, entered.new_bytes) < 0)
			return -EDQUOT;
		allowed_bytes = c->bytes;
	}
	end(c, entered.new_bytes);
	if (c->is_small)
		small_note(c->dev);
	if (entered.stale.bytes) {
		release(c->dev, entered.stale);
		charge_look_later(c->dev);
	}
	if (suspect_is(addr))
		end_if_freed(addr);
	charge_over();
	return 0;
}

int charge_reserve_object(struct charge *c, struct dev dev, const void *ctx, uint64_t bytes)
{
	struct look before;
	int rc;

	*c = (struct charge){ .dev = dev,
			      .ctx = ctx,
			      .is_object = true,
			      .is_small = bytes && bytes <= TRACK_SMALL_BYTES };
	rc = reserve_tracked(c, bytes_round_up(bytes, TRACK_BLOCK_BYTES));
	if (rc < 0)
		return rc;
	c->has_before = look(dev, 1, &before) == 0;
	c->before_begun = before.begun;
	c->before_driver_bytes = before.driver_bytes;
	c->before_tracked_bytes = before.tracked_bytes;
	return 0;
}

int charge_commit_object(struct charge *c, const void *handle)
{
	struct dev dev = c->dev;
	struct look after;
	int rc;

	if (c->has_before && look(c->dev, 1, &after) == 0 && after.begun == c->before_begun &&
	    after.tracked_bytes == c->before_tracked_bytes)
		return charge_commit(c, (uint64_t)(uintptr_t)handle,
				     bytes_beyond(after.driver_bytes, c->before_driver_bytes));
	rc = charge_commit(c, (uint64_t)(uintptr_t)handle, c->bytes);
	if (rc < 0)
		return rc;
	/* What it is more than the estimate counts as overhead. */
	return still_is_over(dev, still_reconcile(dev, QUOTA_MODULE)) ? -EOVERFLOW : 0;
}

void charge_cancel(struct charge *c)
{
	track_discard(c->node);
	handle_discard(c->handle);
	end(c, 0);
	charge_over();
}

struct track_node *charge_take(uint64_t addr, struct dev *out_dev)
{
	struct track_node *node;
	struct track what;

	charge_begin();
	node = track_take(addr, &what);
	if (node)
		*out_dev = what.dev;
	else
		charge_over();
	return node;
}

void charge_end(struct track_node *node, struct dev dev)
{
	if (track_is_weightless(node))
		charge_look_later(dev);
	release(dev, track_end(node));
	small_settle(dev);
	charge_over();
}

void charge_put_back(struct track_node *node, struct dev dev)
{
	uint64_t addr = track_address(node);
	struct track_gone stale = track_put_back(node);

	if (stale.bytes) {
		release(dev, stale);
		charge_look_later(dev);
	}
	/* Perhaps it failed because another thread, or the end of a context, was first. */
	end_if_freed(addr);
	charge_over();
}

int charge_reserve_handle(struct charge *c, struct dev dev, uint64_t bytes)
{
	int rc;

	*c = (struct charge){ .dev = dev };
	c->handle = handle_prepare();
	if (!c->handle)
		return -ENOMEM;
	rc = reserve(c, bytes_round_up(bytes, TRACK_BLOCK_BYTES));
	if (rc < 0) {
		handle_discard(c->handle);
		return rc;
	}
	charge_begin();
	return 0;
}

void charge_commit_handle(struct charge *c, uint64_t handle)
{
	struct handle_freed stale;

	handle_enter(c->handle, handle, c->dev, c->bytes, &stale);
	track_physical_add(c->dev, (int64_t)c->bytes);
	charge_freed_handle(stale);
	if (stale.bytes)
		charge_look_later(stale.dev);
	charge_over();
}

void charge_keep(struct handle_freed freed)
{
	pthread_mutex_lock(&state.s.mutex);
	quota_move(freed.dev, QUOTA_DATA, QUOTA_MODULE, freed.bytes);
	state.s.kept_bytes[freed.dev.v] += freed.bytes;
	pthread_mutex_unlock(&state.s.mutex);
	still_owe(freed.dev);
	charge_look_later(freed.dev);
}

static void give_up_kept(struct dev dev)
{
	pthread_mutex_lock(&state.s.mutex);
	quota_release(dev, QUOTA_MODULE, state.s.kept_bytes[dev.v] + lodger_settle(dev));
	state.s.kept_bytes[dev.v] = 0;
	pthread_mutex_unlock(&state.s.mutex);
}

struct charge_mark charge_mark(void)
{
	return (struct charge_mark){ atomic_load(&state.s.samples), atomic_load(&state.s.begun),
				     atomic_load(&state.s.over) };
}

/* Reserves with no look at the card that counts, from before it to charge_over(). */
static int begin_overhead(struct dev dev, enum quota_kind kind, uint64_t bytes,
			  int (*fn)(struct dev, enum quota_kind, uint64_t))
{
	int rc;

	charge_begin();
	pthread_mutex_lock(&state.s.mutex);
	rc = fn(dev, kind, bytes);
	pthread_mutex_unlock(&state.s.mutex);
	if (rc < 0)
		charge_over();
	return rc;
}

int charge_take_context(struct dev dev, uint64_t bytes)
{
	return begin_overhead(dev, QUOTA_CONTEXT, bytes, quota_take);
}

int charge_doubt_overhead(struct dev dev, enum quota_kind kind, uint64_t bytes)
{
	return DOUBT_TRY(dev, bytes, begin_overhead(dev, kind, bytes, quota_doubt));
}

/*
 * mutex held: what the card holds is charged, as what is tracked or as overhead. Destroyed pools
 * give back by and by, and no call says so: what is less than it was is theirs first.
 */
static void apply(struct dev dev, enum quota_kind kind, const struct look *card)
{
	uint64_t own_bytes = bytes_beyond(quota_overhead(dev), promise_bytes(dev));
	uint64_t less = bytes_beyond(card->tracked_bytes + own_bytes, card->driver_bytes);
	uint64_t given_bytes = less ? pool_release_orphans(dev, less) : 0;
	uint64_t now_bytes = bytes_beyond(card->driver_bytes, card->tracked_bytes - given_bytes);

	quota_set_overhead(dev, kind,
			   now_bytes + promise_look(dev, quota_overhead(dev), now_bytes));
	state.s.kept_bytes[dev.v] = 0;
	lodger_settle(dev);
}

static int reconcile(struct dev dev, enum quota_kind kind)
{
	struct look card;
	int rc = look(dev, 0, &card);

	if (rc != -EAGAIN)
		atomic_store(&state.s.is_blind[dev.v], rc < 0);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&state.s.mutex);
	if (atomic_load(&state.s.begun) != card.begun ||
	    bytes_beyond(track_physical(dev), handle_unseen(dev)) != card.tracked_bytes) {
		/* What was reserved since must not be taken off, nor what is gone once more. */
		rc = -EAGAIN;
	} else if (card.number > state.s.used_sample[dev.v]) {
		/* One that began later has seen all that this one should, and perhaps more. */
		state.s.used_sample[dev.v] = card.number;
		apply(dev, kind, &card);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}

/*
 * While changes are under way the overhead cannot be told exactly, but the least that it must be:
 * the driver's figure less all data that may be in it: reserved before it was taken or meanwhile.
 * With that charged, what is charged is not less than the card's.
 */
static void raise(struct dev dev, enum quota_kind kind)
{
	uint64_t number = atomic_fetch_add(&state.s.samples, 1) + 1, driver_bytes, managed_bytes;
	uint64_t most_bytes;
	struct quota_data before, after;

	tracked(dev);
	before = quota_data(dev);
	/* After it: of what is entered since, the reservation is in `after`. */
	managed_bytes = track_managed(dev) + handle_unseen(dev);
	if (state.s.ops->process_bytes(quota_uuid(dev), &driver_bytes) < 0)
		return;
	after = quota_data(dev);
	most_bytes = bytes_beyond(before.held_bytes, managed_bytes) + after.taken_bytes -
		     before.taken_bytes;
	pthread_mutex_lock(&state.s.mutex);
	if (number > state.s.used_sample[dev.v])
		quota_raise_overhead(dev, kind, bytes_beyond(driver_bytes, most_bytes));
	pthread_mutex_unlock(&state.s.mutex);
}

int charge_reconcile(struct dev dev, enum quota_kind kind)
{
	int rc;

	if (!quota_counts_contexts())
		return 0;
	rc = reconcile(dev, kind);
	if (rc == -ENOTSUP)
		give_up_kept(dev);
	if (rc != -EAGAIN)
		return rc;
	put_off(dev, kind);
	/* What was under way may have ended before it could see that. */
	if (!is_under_way())
		rc = reconcile(dev, kind);
	if (rc == -EAGAIN)
		raise(dev, kind);
	return rc;
}

uint64_t charge_doubt(struct dev dev)
{
	uint64_t tracked_bytes = tracked(dev), driver_bytes;

	if (state.s.ops->process_bytes(quota_uuid(dev), &driver_bytes) < 0)
		return 0;
	return bytes_beyond(driver_bytes, tracked_bytes + quota_overhead(dev));
}

int charge_watch(struct dev dev)
{
	int rc;

	small_settle(dev);
	handed_settle(dev);
	rc = quota_counts_contexts() ? reconcile(dev, QUOTA_MODULE) : 0;
	if (rc == -EAGAIN)
		raise(dev, QUOTA_MODULE);
	return rc;
}
