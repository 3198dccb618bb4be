#include "core/watch.h"

#include "base/clock.h"

/* A lazily loaded module is seen after this at the latest, on a card with less than a crowd. */
#define EVERY_NS (100 * NSEC_PER_MSEC)
enum { CROWD = 32, BUSY_CROWD = 8 };
/* What a call has begun may come a little later. */
enum { ROUNDS_AFTER = 2, ROUNDS_APART = 8 };

int64_t watch_every_ns(unsigned processes)
{
	return EVERY_NS * (1 + (int64_t)processes / CROWD);
}

int64_t watch_busy_every_ns(unsigned processes)
{
	return NSEC_PER_SEC * (1 + (int64_t)processes / BUSY_CROWD);
}

bool watch_is_due(struct watch *watch, uint64_t passes)
{
	watch->rounds = passes == watch->passes ? watch->rounds + 1 : 0;
	watch->passes = passes;
	return watch->rounds <= ROUNDS_AFTER || watch->rounds % ROUNDS_APART == 0;
}
