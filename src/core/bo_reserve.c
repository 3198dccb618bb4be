#include "core/bo_reserve.h"

#include "base/clock.h"
#include "base/sys.h"
#include "core/bo_device.h"
#include "core/bo_ticket.h"

#include <errno.h>

static bool is_older(const struct bo_ticket *a, const struct bo_ticket *b)
{
	return a && (!b || a->age < b->age);
}

/* True when it is free for `ticket`: nobody older waits for it. */
static bool is_free(const struct bo *bo, const struct bo_ticket *ticket)
{
	return !bo->is_reserved && (bo->heir == ticket || !is_older(bo->heir, ticket));
}

static void take(struct bo *bo, struct bo_ticket *ticket)
{
	bo->is_reserved = true;
	bo->holder = ticket;
	if (bo->heir == ticket)
		bo->heir = NULL;
	if (ticket)
		ticket->held++;
}

bool bo_reserve_try(struct bo *bo, struct bo_ticket *ticket)
{
	if (!is_free(bo, ticket))
		return false;
	take(bo, ticket);
	return true;
}

void bo_reserve_end(struct bo *bo)
{
	if (bo->holder)
		bo->holder->held--;
	bo->is_reserved = false;
	bo->holder = NULL;
	__atomic_add_fetch(&bo->device->ended, 1, __ATOMIC_RELAXED);
	if (bo->device->waiters)
		sys_futex_wake_all(&bo->device->ended);
}

bool bo_reserve_wait(struct bo_device *device, int64_t until_ns)
{
	unsigned ended = __atomic_load_n(&device->ended, __ATOMIC_RELAXED);
	int64_t wait_ns = until_ns - clock_now_ns();

	if (wait_ns <= 0)
		return false;
	device->waiters++;
	bo_device_unlock(device);
	sys_futex_wait(&device->ended, ended, wait_ns);
	bo_device_lock(device);
	device->waiters--;
	return __atomic_load_n(&device->ended, __ATOMIC_RELAXED) != ended;
}

/*
 * True when waiting could close a circle: it has something, and an older one has this or gets it.
 */
static bool must_back_off(const struct bo *bo, const struct bo_ticket *ticket)
{
	if (!ticket || !ticket->held)
		return false;
	return (bo->is_reserved && is_older(bo->holder, ticket)) || is_older(bo->heir, ticket);
}

/* With the mutex. */
static int reserve(struct bo *bo, struct bo_ticket *ticket, int64_t until_ns)
{
	int rc = 0;

	while (rc == 0 && !bo_reserve_try(bo, ticket)) {
		if (is_older(ticket, bo->heir))
			bo->heir = ticket;
		if (must_back_off(bo, ticket))
			rc = -EDEADLK;
		else if (until_ns <= clock_now_ns())
			rc = -EBUSY;
		else
			bo_reserve_wait(bo->device, until_ns);
	}
	/* Others may have waited for us to take it. */
	if (rc < 0 && ticket && bo->heir == ticket) {
		bo->heir = NULL;
		__atomic_add_fetch(&bo->device->ended, 1, __ATOMIC_RELAXED);
		sys_futex_wake_all(&bo->device->ended);
	}
	return rc;
}

int bo_reserve_until(struct bo *bo, struct bo_ticket *ticket, int64_t until_ns)
{
	int rc;

	bo_device_lock(bo->device);
	if (ticket && bo->is_reserved && bo->holder == ticket)
		rc = -EALREADY;
	else
		rc = reserve(bo, ticket, until_ns);
	bo_device_unlock(bo->device);
	return rc;
}

int bo_reserve(struct bo *bo, struct bo_ctx *ctx)
{
	struct bo_ticket *ticket = ctx ? ctx->ticket : NULL;
	bool may_wait = !ctx || !ctx->no_wait;
	int rc;

	rc = bo_reserve_until(bo, ticket, may_wait ? clock_now_ns() + BO_WAIT_NS : 0);
	if (rc == -EDEADLK && !may_wait)
		rc = -EBUSY;
	if (rc == -EDEADLK)
		bo_ticket_lose(ticket, bo, false);
	return rc;
}

void bo_unreserve(struct bo *bo)
{
	struct bo_device *device = bo->device;

	bo_device_lock(device);
	bo_reserve_end(bo);
	bo_device_unlock(device);
}
