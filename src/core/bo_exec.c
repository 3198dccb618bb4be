#include "core/bo_exec.h"

#include "base/clock.h"
#include "core/bo_reserve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void bo_exec_begin(struct bo_exec *exec, bool no_wait)
{
	exec->ctx = (struct bo_ctx){ .ticket = &exec->ticket, .no_wait = no_wait };
	exec->begin_ns = clock_now_ns();
	exec->objects = exec->own;
	exec->count = 0;
	exec->room = BO_EXEC_OWN;
	bo_ticket_begin(&exec->ticket);
}

/* True when another fits: makes room. */
static bool has_room(struct bo_exec *exec)
{
	size_t bytes = exec->room * sizeof(struct bo *);
	struct bo **objects;

	if (exec->count < exec->room)
		return true;
	objects = malloc(2 * bytes);
	if (!objects)
		return false;
	memcpy(objects, exec->objects, bytes);
	if (exec->objects != exec->own)
		free(exec->objects);
	exec->objects = objects;
	exec->room *= 2;
	return true;
}

int bo_exec_reserve(struct bo_exec *exec, struct bo *bo)
{
	int rc;

	if (!has_room(exec))
		return -ENOMEM;
	rc = bo_reserve(bo, &exec->ctx);
	if (rc == 0)
		exec->objects[exec->count++] = bo_get(bo);
	return rc == -EALREADY ? 0 : rc;
}

int bo_exec_reserve_all(struct bo_exec *exec, struct bo *const *objects, unsigned count)
{
	int rc = 0;

	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = bo_exec_reserve(exec, objects[i]);
	return rc;
}

static void give_back(struct bo *bo)
{
	bo_unreserve(bo);
	bo_put(bo);
}

void bo_exec_unreserve(struct bo_exec *exec, struct bo *bo)
{
	for (unsigned i = 0; i < exec->count; i++) {
		if (exec->objects[i] != bo)
			continue;
		memmove(&exec->objects[i], &exec->objects[i + 1],
			(exec->count - i - 1) * sizeof(struct bo *));
		exec->count--;
		give_back(bo);
		return;
	}
}

static void give_all_back(struct bo_exec *exec)
{
	for (unsigned i = 0; i < exec->count; i++)
		give_back(exec->objects[i]);
	exec->count = 0;
}

/*
 * Waits for who was in the way, and keeps it if it was to be had. With nothing else reserved, so
 * that nobody is waited for in a circle.
 */
static int have_lost(struct bo_exec *exec)
{
	struct bo *bo = exec->ticket.lost;
	int rc = bo_reserve_until(bo, &exec->ticket, exec->begin_ns + BO_WAIT_NS);

	if (rc < 0)
		return rc;
	if (exec->ticket.is_victim)
		bo_reserve_drop(bo);
	else
		exec->objects[exec->count++] = bo_get(bo);
	return 0;
}

bool bo_exec_again(struct bo_exec *exec, int *rc)
{
	int64_t now_ns;

	if (*rc != -EDEADLK)
		return false;
	give_all_back(exec);
	*rc = -EBUSY;
	now_ns = clock_now_ns();
	if (now_ns >= exec->begin_ns + BO_WAIT_NS)
		return false;
	if (exec->ticket.lost) {
		*rc = have_lost(exec);
		bo_ticket_lose(&exec->ticket, NULL, false);
	} else {
		/* It is memory that somebody else has pending. */
		*rc = 0;
		clock_sleep_ns(clock_nap_ns(now_ns - exec->begin_ns));
	}
	return *rc == 0;
}

void bo_exec_end(struct bo_exec *exec)
{
	give_all_back(exec);
	bo_ticket_end(&exec->ticket);
	if (exec->objects != exec->own)
		free(exec->objects);
}
