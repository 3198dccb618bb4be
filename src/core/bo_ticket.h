/*
 * The right of one thread to have many objects: who began earlier goes first. Who asks for an
 * object that an older ticket has gives back what it has and begins again, with the same ticket,
 * which grows older by that. So of all threads one gets on, and each is that one in the end.
 */
#pragma once

#include "core/bo.h"

/* Of one thread. */
struct bo_ticket {
	uint64_t age;    /* constant; the smaller is the older */
	unsigned held;   /* reservations that it has; its thread alone */
	struct bo *lost; /* what it could not have last, with a reference; NULL: all was had */
	bool is_victim;  /* that was to be moved away for another, not to be had */
};

void bo_ticket_begin(struct bo_ticket *ticket);

/* It has nothing reserved any more. */
void bo_ticket_end(struct bo_ticket *ticket);

/* Remembers what could not be had. */
void bo_ticket_lose(struct bo_ticket *ticket, struct bo *bo, bool is_victim);
