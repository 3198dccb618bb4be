#include "core/object_evict.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/sys.h"
#include "core/object_idle.h"
#include "core/others.h"
#include "core/quota.h"
#include "shm/residency.h"

#include <errno.h>

#define NAP_NS (2 * NSEC_PER_MSEC)
/* How long work that uses what is to go is waited for. */
#define BUSY_WAIT_NS (10 * NSEC_PER_SEC)
/* What a worker sends away in one round. */
#define ROUND_BYTES (UINT64_C(1) << 30)

/* 0 with *out_bytes, or as bo_evict(). */
static int evict(struct object_device *d, uint64_t bytes, uint64_t *out_bytes)
{
	struct bo_ctx ctx = { 0 };
	int held = sys_cancel_hold();
	int rc = bo_evict(&d->backing.bo, BO_VRAM, bytes, &ctx, out_bytes);

	sys_cancel_release(held);
	return rc;
}

/* What went. */
static uint64_t evict_own(struct object_device *d, uint64_t bytes)
{
	int64_t until_ns = clock_now_ns() + BUSY_WAIT_NS;
	uint64_t gone_bytes = 0;
	int rc;

	while ((rc = evict(d, bytes, &gone_bytes)) == -EBUSY && clock_now_ns() < until_ns &&
	       quota_has_region_now())
		clock_sleep_ns(NAP_NS);
	return rc == 0 ? gone_bytes : 0;
}

/* None without a region. */
static uint64_t on_card(const struct object_device *d)
{
	const struct backing_bounds *b = &d->backing.bounds;

	if (!quota_has_region_now())
		return 0;
	return __atomic_load_n(&b->own->residency[b->slot].card_bytes[d->dev.v], __ATOMIC_RELAXED);
}

/* What nobody uses goes first. What went, or less where others took some meanwhile. */
static uint64_t give_idle(struct object_device *d)
{
	uint64_t before_bytes = on_card(d), after_bytes;

	object_idle_reclaim(d, 0);
	after_bytes = on_card(d);
	return quota_has_region_now() ? bytes_beyond(before_bytes, after_bytes) : 0;
}

bool object_evict(struct dev dev, uint64_t bytes)
{
	struct object_device *d = object_device_of(dev);
	uint64_t gone_bytes;

	if (!d || !d->backing.bounds.may_spill || !quota_has_region_now())
		return false;
	gone_bytes = give_idle(d);
	if (gone_bytes < bytes)
		gone_bytes += evict_own(d, bytes - gone_bytes);
	if (gone_bytes < bytes && others_evict(&d->backing.bounds, dev, bytes - gone_bytes))
		return true;
	return gone_bytes > 0;
}

uint64_t object_evict_most(struct dev dev)
{
	struct object_device *d = object_device_of(dev);

	return d && d->backing.bounds.may_spill && quota_has_region_now() ?
		       residency_sum(d->backing.bounds.own, dev.v) :
		       0;
}

void object_evict_tick(struct object_device *d)
{
	const struct backing_bounds *b = &d->backing.bounds;
	uint64_t gone_bytes = 0, wanted_bytes;

	if (!b->may_spill || !others_evict_wanted(b, d->dev))
		return;
	others_evicted(b, d->dev, give_idle(d));
	wanted_bytes = others_evict_wanted(b, d->dev);
	if (wanted_bytes && evict(d, bytes_least(wanted_bytes, ROUND_BYTES), &gone_bytes) == 0)
		others_evicted(b, d->dev, gone_bytes);
}
