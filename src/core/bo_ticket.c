#include "core/bo_ticket.h"

#include <stddef.h>

static uint64_t last_age; /* atomic */

void bo_ticket_begin(struct bo_ticket *ticket)
{
	*ticket = (struct bo_ticket){
		.age = __atomic_add_fetch(&last_age, 1, __ATOMIC_RELAXED),
	};
}

void bo_ticket_end(struct bo_ticket *ticket)
{
	bo_ticket_lose(ticket, NULL, false);
}

void bo_ticket_lose(struct bo_ticket *ticket, struct bo *bo, bool is_victim)
{
	struct bo *before = ticket->lost;

	ticket->lost = bo ? bo_get(bo) : NULL;
	ticket->is_victim = is_victim;
	if (before)
		bo_put(before);
}
