#include "core/bo_round.h"

#include "base/clock.h"
#include "core/bo_device.h"
#include "core/bo_reserve.h"
#include "core/bo_ticket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOON_NS (100 * NSEC_PER_MSEC)

void bo_round_begin(struct bo_round *round, struct bo_device *device, struct bo_ctx *ctx)
{
	*round = (struct bo_round){ .device = device, .ctx = ctx, .refused_room = BO_ROUND_OWN };
	round->refused = round->own;
}

/* With the mutex. */
static bool has_taken(const struct bo_round *round)
{
	for (unsigned place = 0; place < BO_PLACES; place++)
		if (round->taken_bytes[place])
			return true;
	return false;
}

void bo_round_end(struct bo_round *round)
{
	if (round->refused != round->own)
		free(round->refused);
}

int64_t bo_round_until(struct bo_round *round)
{
	if (round->ctx->no_wait)
		return 1;
	if (!round->until_ns)
		round->until_ns = clock_now_ns() + BO_WAIT_NS;
	return round->until_ns;
}

int64_t bo_round_until_soon(struct bo_round *round)
{
	int64_t until_ns = bo_round_until(round), soon_ns = clock_now_ns() + SOON_NS;

	return round->ctx->ticket || until_ns < soon_ns ? until_ns : soon_ns;
}

int bo_round_wait(struct bo_round *round, struct bo *bo)
{
	const struct bo_device *device = bo->device;
	uint64_t fence;

	bo_device_lock(bo->device);
	fence = bo->fence;
	bo_device_unlock(bo->device);
	if (!fence || device->ops->is_done(device->owner, fence))
		return 0;
	if (round->ctx->no_wait)
		return -EBUSY;
	return device->ops->wait(device->owner, fence, bo_round_until(round));
}

void bo_round_refuse(struct bo_round *round, const struct bo *bo)
{
	const struct bo **refused = round->refused;
	size_t bytes = round->refused_room * sizeof(struct bo *);

	if (round->refused_count == round->refused_room) {
		refused = malloc(2 * bytes);
		if (!refused) {
			round->is_over = true;
			return;
		}
		memcpy(refused, round->refused, bytes);
		if (round->refused != round->own)
			free(round->refused);
		round->refused = refused;
		round->refused_room *= 2;
	}
	refused[round->refused_count++] = bo;
}

bool bo_round_has_refused(const struct bo_round *round, const struct bo *bo)
{
	for (unsigned i = 0; i < round->refused_count; i++)
		if (round->refused[i] == bo)
			return true;
	return false;
}

void bo_round_take(struct bo_round *round, enum bo_place place, uint64_t bytes)
{
	bo_device_lock(round->device);
	if (!has_taken(round))
		TAILQ_INSERT_TAIL(&round->device->takers, round, in_takers);
	round->taken_bytes[place] += bytes;
	/* Who waits for pending memory has to see whose it is. */
	bo_device_wake(round->device);
	bo_device_unlock(round->device);
}

void bo_round_drop(struct bo_round *round, enum bo_place place, uint64_t bytes)
{
	bo_device_lock(round->device);
	if (bytes) {
		round->taken_bytes[place] -= bytes;
		if (!has_taken(round))
			TAILQ_REMOVE(&round->device->takers, round, in_takers);
	}
	bo_device_unlock(round->device);
}

/* With the mutex. */
static bool has_older_taker(const struct bo_round *round, enum bo_place place)
{
	const struct bo_ticket *ticket = round->ctx->ticket;
	const struct bo_round *taker;

	TAILQ_FOREACH(taker, &round->device->takers, in_takers)
		if (taker != round && taker->taken_bytes[place] &&
		    bo_ticket_is_older(taker->ctx->ticket, ticket))
			return true;
	return false;
}

/* True when memory there is pending for others, or nobody's and not given back. With the mutex. */
static bool may_come(const struct bo_round *round, enum bo_place place)
{
	const struct bo_device *device = round->device;
	const struct bo *bo;

	if (device->managers[place].pending_bytes > round->taken_bytes[place])
		return true;
	TAILQ_FOREACH(bo, &device->deleted, in_list)
		if (bo->place == place)
			return true;
	return false;
}

int bo_round_wait_for_others(struct bo_round *round, enum bo_place place, uint64_t gains)
{
	struct bo_device *device = round->device;
	struct bo_ticket *ticket = round->ctx->ticket;
	int64_t until_ns = bo_round_until(round), soon_ns = clock_now_ns() + SOON_NS;
	int rc = -EBUSY;

	bo_device_lock(device);
	if (device->gains != gains)
		rc = 0;
	else if (!may_come(round, place))
		rc = -ENOSPC;
	else if (ticket && !round->ctx->no_wait && has_older_taker(round, place))
		rc = -EDEADLK;
	else if (bo_reserve_wait(device, until_ns < soon_ns ? until_ns : soon_ns))
		rc = 0;
	/* Who has a ticket waits on; and asks again, in case that an end had failed. */
	else if (ticket && soon_ns < until_ns)
		rc = 0;
	bo_device_unlock(device);
	if (rc == -EDEADLK)
		bo_ticket_lose(ticket, NULL, false);
	return rc;
}
