#include "core/units.h"

#include "core/pool.h"

#include <errno.h>
#include <stdlib.h>

struct unit {
	struct hash_link link; /* by its number */
	struct unit *next;     /* of a chain */
	uint64_t pieces;       /* in it that have not ended */
};

void units_discard(struct unit *chain)
{
	while (chain) {
		struct unit *next = chain->next;

		free(chain);
		chain = next;
	}
}

int units_prepare(uint64_t addr, uint64_t bytes, struct unit **out)
{
	struct unit *chain = NULL, *unit;

	if (bytes == 0 || addr + bytes < addr)
		return -EINVAL;
	for (uint64_t i = addr / POOL_STEP_BYTES; i <= (addr + bytes - 1) / POOL_STEP_BYTES; i++) {
		unit = calloc(1, sizeof(*unit));
		if (!unit) {
			units_discard(chain);
			return -ENOMEM;
		}
		unit->link.key = i;
		unit->next = chain;
		chain = unit;
	}
	*out = chain;
	return 0;
}

static struct unit *find(const struct units *units, uint64_t number)
{
	return (struct unit *)hash_find(&units->units, number);
}

uint64_t units_enter(struct units *units, struct unit *chain)
{
	uint64_t bytes = 0;
	struct unit *next;

	for (; chain; chain = next) {
		struct unit *there = find(units, chain->link.key);

		next = chain->next;
		if (there) {
			there->pieces++;
			free(chain);
			continue;
		}
		chain->pieces = 1;
		hash_insert(&units->units, &chain->link);
		bytes += POOL_STEP_BYTES;
	}
	return bytes;
}

uint64_t units_leave(struct units *units, uint64_t addr, uint64_t bytes)
{
	uint64_t ended_bytes = 0;

	for (uint64_t i = addr / POOL_STEP_BYTES; i <= (addr + bytes - 1) / POOL_STEP_BYTES; i++) {
		struct unit *unit = find(units, i);

		if (unit && unit->pieces && --unit->pieces == 0)
			ended_bytes += POOL_STEP_BYTES;
	}
	return ended_bytes;
}

struct clear {
	struct hash *from;
	uint64_t bytes, live_bytes;
};

static void clear_one(struct hash_link *link, void *arg)
{
	struct unit *unit = (struct unit *)link;
	struct clear *clear = arg;

	clear->bytes += POOL_STEP_BYTES;
	clear->live_bytes += unit->pieces ? POOL_STEP_BYTES : 0;
	hash_remove(clear->from, link);
	free(unit);
}

uint64_t units_clear(struct units *units, uint64_t *out_live_bytes)
{
	struct clear clear = { .from = &units->units };

	hash_each(&units->units, clear_one, &clear);
	*out_live_bytes = clear.live_bytes;
	return clear.bytes;
}
