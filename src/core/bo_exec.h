/*
 * Having many objects at once, for who may be in the way of others who want the same:
 *
 *	bo_exec_begin(&exec, false);
 *	do {
 *		rc = bo_exec_reserve_all(&exec, objects, count);
 *		if (rc == 0)
 *			rc = bo_validate_all(objects, count, placement, &exec.ctx);
 *	} while (bo_exec_again(&exec, &rc));
 *	...
 *	bo_exec_end(&exec);
 *
 * Whoever began first gets all it wants; the others begin again (bo_ticket.h).
 */
#pragma once

#include "core/bo.h"
#include "core/bo_ticket.h"

enum { BO_EXEC_OWN = 16 };

/* Of one thread. Not to be copied. */
struct bo_exec {
	struct bo_ctx ctx; /* for bo_validate() and others: has the ticket */
	struct bo_ticket ticket;
	int64_t begin_ns;    /* BO_WAIT_NS later there is no other attempt */
	struct bo **objects; /* reserved, with a reference to each */
	unsigned count, room;
	struct bo *own[BO_EXEC_OWN];
};

void bo_exec_begin(struct bo_exec *exec, bool no_wait);

/*
 * Has an object as well, until the end or until an attempt failed. 0, also when it has it already;
 * -EDEADLK: the attempt is over, bo_exec_again() follows; -EBUSY, -ENOMEM. The caller's reference
 * is not touched.
 */
int bo_exec_reserve(struct bo_exec *exec, struct bo *bo);

/* Several of them, up to the first error. */
int bo_exec_reserve_all(struct bo_exec *exec, struct bo *const *objects, unsigned count);

/* Gives one back before the end. Nothing to do when it has it not. */
void bo_exec_unreserve(struct bo_exec *exec, struct bo *bo);

/*
 * True after -EDEADLK: all was given back, who was in the way was waited for, and everything is
 * done again from the first object. Then *rc is 0, else what it was; -EBUSY when BO_WAIT_NS is
 * over.
 */
bool bo_exec_again(struct bo_exec *exec, int *rc);

/* Gives all back: used in the order in which they were had. */
void bo_exec_end(struct bo_exec *exec);
