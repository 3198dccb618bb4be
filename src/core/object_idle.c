#include "core/object_idle.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "core/bo_device.h"
#include "core/charge.h"
#include "core/leaving.h"
#include "core/object.h"
#include "core/object_large.h"
#include "core/object_small.h"
#include "core/others.h"
#include "shm/residency.h"
#include "shm/wanted.h"

#include <errno.h>

/* How long a request waits for work that may still use what was freed before it. */
#define FREED_WAIT_NS (10 * NSEC_PER_SEC)
#define ENDING_NAP_NS (200 * NSEC_PER_USEC)
/* A spare that was not wanted for so long goes. */
#define SPARE_NS NSEC_PER_SEC
/* Of the limit, or the card: so much may be spare, or a gigabyte, but never more than the half. */
enum { SPARE_PART = 8 };
#define SPARE_LEAST_BYTES (UINT64_C(1) << 30)
/* None is kept while less than this part of the card is free. */
enum { CARD_PART = 16 };

uint64_t object_idle_ask(struct object_device *d)
{
	uint64_t done = d->ops->done(d->owner);

	pthread_mutex_lock(&d->mutex);
	if (done > d->known_done)
		d->known_done = done;
	done = d->known_done;
	pthread_mutex_unlock(&d->mutex);
	return done;
}

void object_idle_poll(struct object_device *d, uint64_t done)
{
	bool is_more;

	do {
		pthread_mutex_lock(&d->mutex);
		is_more = object_small_poll(d, done);
		pthread_mutex_unlock(&d->mutex);
	} while (is_more);
}

/* True when the work of all that was freed is done. */
static bool wait_for_freed(struct object_device *d, int64_t until_ns)
{
	uint64_t fence;

	pthread_mutex_lock(&d->mutex);
	fence = d->last_fence;
	pthread_mutex_unlock(&d->mutex);
	return !fence || d->ops->bo->wait(d->owner, fence, until_ns) == 0;
}

/*
 * Until other threads are done with what they have in hand: a reap of ours does not meet that. What
 * others use, as importers do, is not waited for.
 */
static void wait_for_ending(struct object_device *d, int64_t until_ns)
{
	backing_reap(&d->backing);
	while (backing_is_in_hand(&d->backing) && clock_now_ns() < until_ns) {
		clock_sleep_ns(ENDING_NAP_NS);
		backing_reap(&d->backing);
	}
}

/* Those freed before then go. */
static void drop_spares(struct object_device *d, int64_t before_ns)
{
	struct object_list going = TAILQ_HEAD_INITIALIZER(going);

	pthread_mutex_lock(&d->mutex);
	object_spare_drop(d, before_ns, &going);
	pthread_mutex_unlock(&d->mutex);
	object_large_close_all(&going);
}

bool object_idle_reclaim(struct object_device *d, int64_t wait_until_ns)
{
	uint64_t ended = atomic_load(&d->backing.ended);
	bool may_wait = wait_until_ns && wait_for_freed(d, wait_until_ns);

	object_idle_poll(d, object_idle_ask(d));
	object_small_shrink(d, 0);
	drop_spares(d, INT64_MAX);
	if (may_wait)
		wait_for_ending(d, wait_until_ns);
	else
		backing_reap(&d->backing);
	return atomic_load(&d->backing.ended) != ended;
}

bool object_idle_make_room(struct object_device *d, uint64_t bytes, int why, int *step)
{
	switch ((*step)++) {
	case 0:
		object_idle_reclaim(d, 0);
		return true;
	case 1:
		object_idle_reclaim(d, clock_now_ns() + FREED_WAIT_NS);
		return true;
	case 2:
		charge_ask_card(d->dev);
		return true;
	case 3:
		leaving_await_host(&d->backing.bounds, bytes);
		others_make_room(&d->backing.bounds, d->dev, bytes);
		if (why == -ENOMEM)
			others_give_card(d->dev, bytes);
		return true;
	default:
		return false;
	}
}

/* What may be spare: of what the process may have on the card. */
static uint64_t spare_bound(const struct object_device *d)
{
	const struct ration_region *own = d->backing.bounds.own;
	uint64_t resident_bytes = __atomic_load_n(&own->resident_bytes, __ATOMIC_RELAXED);
	uint64_t bytes = quota_limit(d->dev);

	if (!bytes)
		bytes = own->devices[d->dev.v].physical_bytes;
	if (resident_bytes && (!bytes || resident_bytes < bytes))
		bytes = resident_bytes;
	return bytes_least(bytes / 2, bytes / SPARE_PART > SPARE_LEAST_BYTES ? bytes / SPARE_PART :
									       SPARE_LEAST_BYTES);
}

/* Something of it has no room on the card. */
static bool has_far(struct object_device *d)
{
	return d->backing.bounds.may_spill && bo_device_used(&d->backing.bo, BO_GTT) > 0;
}

/*
 * Little is left on the card: others there, who may have no way to ask, are to find some. Until
 * there is twice as much. The worker's alone.
 */
static bool is_card_full(struct object_device *d, uint64_t spare_bytes, bool was_full)
{
	uint64_t size_bytes = d->backing.bounds.own->devices[d->dev.v].physical_bytes;
	uint64_t least_bytes = size_bytes / CARD_PART, free_bytes;

	if ((!spare_bytes && !was_full) || others_card_free(d->dev, &free_bytes) < 0)
		return false;
	if (was_full)
		least_bytes *= 2;
	return free_bytes < least_bytes || free_bytes < spare_bytes;
}

static void tick_spares(struct object_device *d)
{
	struct object_list going = TAILQ_HEAD_INITIALIZER(going);
	uint64_t bound_bytes = quota_is_over(d->dev) ? 0 : spare_bound(d);
	int64_t before_ns = clock_now_ns() - SPARE_NS;
	bool is_far = has_far(d), is_full;

	is_full = is_card_full(d, __atomic_load_n(&d->spares.bytes, __ATOMIC_RELAXED),
			       d->spares.off & SPARE_OFF_FULL);
	pthread_mutex_lock(&d->mutex);
	object_spare_set_off(d, SPARE_OFF_FULL, is_full, &going);
	object_spare_set_bound(d, bound_bytes, &going);
	object_spare_set_off(d, SPARE_OFF_FAR, is_far, &going);
	object_spare_drop(d, before_ns, &going);
	pthread_mutex_unlock(&d->mutex);
	object_large_close_all(&going);
}

/* Those whose work is done, for who needs their memory now. */
static bool give_spares(void *arg)
{
	struct object_device *d = arg;
	uint64_t ended = atomic_load(&d->backing.ended);

	if (!__atomic_load_n(&d->spares.bytes, __ATOMIC_RELAXED))
		return false;
	drop_spares(d, INT64_MAX);
	return atomic_load(&d->backing.ended) != ended;
}

void object_idle_init(struct object_device *d)
{
	d->backing.give_idle = give_spares;
	d->backing.idle_arg = d;
	/* None is kept before the first round of the worker: without one none would ever go. */
	object_spare_init(d);
}

void object_idle_set_off(struct object_device *d, enum object_spare_off why, bool is_off)
{
	struct object_list going = TAILQ_HEAD_INITIALIZER(going);

	pthread_mutex_lock(&d->mutex);
	object_spare_set_off(d, why, is_off, &going);
	pthread_mutex_unlock(&d->mutex);
	object_large_close_all(&going);
}

void object_idle_tick(struct object_device *d, const struct balance_round *round)
{
	uint64_t card_wanted = wanted_since();
	bool is_wanted = d->room_wanted != round->room_wanted || d->card_wanted != card_wanted;

	d->room_wanted = round->room_wanted;
	d->card_wanted = card_wanted;
	if (d->host_wanted != round->host_wanted)
		backing_trim(&d->backing);
	d->host_wanted = round->host_wanted;
	object_idle_poll(d, object_idle_ask(d));
	/* First: what is about to be gone from host memory is no reason any more. */
	backing_reap(&d->backing);
	object_small_tick(d);
	tick_spares(d);
	if (is_wanted)
		object_idle_reclaim(d, 0);
}
