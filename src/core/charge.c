#include "core/charge.h"

#include "base/process.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

struct charge_state {
	const struct gpu_ops *ops; /* constant after charge_init() */
	/*
	 * Changes of this process's memory that have begun and that are over: equal, and equal again
	 * after a sample of the driver's figure, means that the sample fits what is tracked. Atomic.
	 */
	_Atomic uint64_t begun, over;
};
PROCESS_STATE(charge_state, state);

void charge_init(const struct gpu_ops *ops)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.ops = ops;
	track_init();
	handle_init();
}

void charge_begin(void)
{
	atomic_fetch_add(&state.s.begun, 1);
}

void charge_over(void)
{
	atomic_fetch_add(&state.s.over, 1);
}

/* Managed memory is counted in pages of the host's largest usual size. */
#define MANAGED_PAGE_BYTES UINT64_C(65536)

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
	return bytes > UINT64_MAX - to ? UINT64_MAX : (bytes + to - 1) / to * to;
}

/*
 * Reserves `bytes` more; when the limit says no, asks the card first whether the overhead that is
 * counted is still true, so that no refusal stands on a stale figure.
 */
static int reserve(struct charge *c, uint64_t bytes)
{
	int rc = quota_reserve(c->dev, QUOTA_DATA, bytes);

	if (rc == -EDQUOT && charge_reconcile(c->dev, QUOTA_MODULE) == 0)
		rc = quota_reserve(c->dev, QUOTA_DATA, bytes);
	if (rc == 0)
		c->bytes += bytes;
	return rc;
}

static int reserve_tracked(struct charge *c, uint64_t bytes)
{
	int rc;

	c->node = track_prepare();
	if (!c->node)
		return -ENOMEM;
	rc = reserve(c, bytes);
	if (rc < 0 && !c->is_managed && c->asked_bytes <= TRACK_SMALL_BYTES && track_has_block(c->dev))
		rc = 0; /* perhaps it fits into a block that is charged already */
	if (rc < 0) {
		track_discard(c->node);
		return rc;
	}
	charge_begin();
	return 0;
}

int charge_reserve_linear(struct charge *c, struct dev dev, const void *ctx, uint64_t bytes)
{
	*c = (struct charge){ .dev = dev, .ctx = ctx, .asked_bytes = bytes };
	return reserve_tracked(c, round_up(bytes, TRACK_BLOCK_BYTES));
}

int charge_reserve_managed(struct charge *c, struct dev dev, const void *ctx, uint64_t bytes)
{
	*c = (struct charge){ .dev = dev, .ctx = ctx, .asked_bytes = bytes, .is_managed = true };
	return reserve_tracked(c, round_up(bytes, MANAGED_PAGE_BYTES));
}

int charge_commit(struct charge *c, uint64_t addr, uint64_t bytes)
{
	struct track what = { .addr = addr,
			      .bytes = c->is_managed ? c->bytes : bytes,
			      .dev = c->dev,
			      .ctx = c->ctx,
			      .is_managed = c->is_managed };
	struct track_entered entered;
	int rc;

	/* Blocks come and go while we ask for more, so it may take another turn. */
	while (!track_enter(c->node, &what, c->bytes, &entered)) {
		rc = reserve(c, entered.new_bytes - c->bytes);
		if (rc < 0) {
			charge_cancel(c);
			return rc;
		}
	}
	quota_release(c->dev, QUOTA_DATA, c->bytes - entered.new_bytes);
	quota_release(c->dev, QUOTA_DATA, entered.stale_bytes);
	charge_over();
	return 0;
}

void charge_cancel(struct charge *c)
{
	quota_release(c->dev, QUOTA_DATA, c->bytes);
	track_discard(c->node);
	handle_discard(c->handle);
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
	quota_release(dev, QUOTA_DATA, track_end(node));
	charge_over();
}

void charge_put_back(struct track_node *node, struct dev dev)
{
	quota_release(dev, QUOTA_DATA, track_put_back(node));
	charge_over();
}

int charge_reserve_handle(struct charge *c, struct dev dev, uint64_t bytes)
{
	int rc;

	*c = (struct charge){ .dev = dev };
	c->handle = handle_prepare();
	if (!c->handle)
		return -ENOMEM;
	rc = reserve(c, round_up(bytes, TRACK_BLOCK_BYTES));
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
	charge_over();
}

void charge_freed_handle(struct handle_freed freed)
{
	if (freed.bytes == 0)
		return;
	track_physical_add(freed.dev, -(int64_t)freed.bytes);
	quota_release(freed.dev, QUOTA_DATA, freed.bytes);
}

void charge_freed_handles(const uint64_t freed_bytes[RATION_DEVICES])
{
	for (int d = 0; d < RATION_DEVICES; d++)
		charge_freed_handle((struct handle_freed){ { d }, freed_bytes[d] });
}

void charge_drop_context(const void *ctx, uint64_t mark)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };

	track_drop_context(ctx, mark, freed_bytes);
	for (int d = 0; d < RATION_DEVICES; d++)
		quota_release((struct dev){ d }, QUOTA_DATA, freed_bytes[d]);
}

/* The driver's figure, taken while nothing of this process was under way. */
static int sample(struct dev dev, uint64_t *out_driver_bytes, uint64_t *out_tracked_bytes)
{
	for (int tries = 0; tries < 3; tries++) {
		uint64_t before = atomic_load(&state.s.begun);
		int rc;

		if (before != atomic_load(&state.s.over))
			continue;
		rc = state.s.ops->process_bytes(quota_uuid(dev), out_driver_bytes);
		if (rc < 0)
			return rc;
		*out_tracked_bytes = track_physical(dev);
		if (atomic_load(&state.s.begun) == before)
			return 0;
	}
	return -EAGAIN;
}

int charge_reconcile(struct dev dev, enum quota_kind kind)
{
	uint64_t driver_bytes, tracked_bytes;
	int rc;

	if (!quota_counts_contexts())
		return 0;
	rc = sample(dev, &driver_bytes, &tracked_bytes);
	if (rc < 0)
		return rc;
	quota_set_overhead(dev, kind,
			   driver_bytes > tracked_bytes ? driver_bytes - tracked_bytes : 0);
	return 0;
}
