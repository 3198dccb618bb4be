#include "shm/heir.h"

#include "base/bytes.h"
#include "base/process.h"
#include "shm/exported.h"
#include "shm/residency.h"
#include "shm/shared_pools.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A dead exporter, as this process has seen it; all zero: none. */
struct dead {
	uint64_t until; /* the number of the round whose end it waits for */
	uint64_t start_ticks;
	uint32_t pid, lifeline;
	/* What descriptors held before that round: it is in the figure of nobody who looks. */
	uint64_t keep_bytes[RATION_DEVICES];
};

/* In a round all that import look; who dies in the midst of one waits for the next too. */
struct heir_state {
	pthread_mutex_t mutex; /* zero is an unlocked one; orders the rest */
	uint64_t round;        /* those that have ended */
	bool is_under_way;
	uint32_t seen[HAMI_SLOTS]; /* looks of each importer when it began; 0: none */
	struct dead of[HAMI_SLOTS];
};
PROCESS_STATE(heir_state, state);

static uint64_t bit_of(unsigned slot)
{
	return UINT64_C(1) << slot % 64;
}

static bool has_exported(const struct ration_region *own, unsigned slot)
{
	return __atomic_load_n(&own->exporters[slot / 64], __ATOMIC_SEQ_CST) & bit_of(slot);
}

void heir_note_export(struct ration_region *own, unsigned slot)
{
	if (!has_exported(own, slot))
		__atomic_fetch_or(&own->exporters[slot / 64], bit_of(slot), __ATOMIC_SEQ_CST);
}

void heir_clear(struct ration_region *own, unsigned slot)
{
	shared_pools_clear(own, slot);
	if (has_exported(own, slot))
		__atomic_fetch_and(&own->exporters[slot / 64], ~bit_of(slot), __ATOMIC_SEQ_CST);
}

static bool is_taken(const struct ration_region *own, unsigned slot)
{
	return __atomic_load_n(&own->hint[slot], __ATOMIC_RELAXED);
}

/* mutex held. */
static bool have_all_looked(const struct ration_region *own)
{
	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		if (state.s.seen[i] && is_taken(own, i) &&
		    !residency_has_looked(own, i, state.s.seen[i]))
			return false;
	return true;
}

/* mutex held. */
static void begin_round(const struct ration_region *own)
{
	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		state.s.seen[i] = is_taken(own, i) ? residency_import_looks(own, i) : 0;
	state.s.is_under_way = true;
}

/* mutex held. */
static void end_round_if_over(const struct ration_region *own)
{
	if (!state.s.is_under_way || !have_all_looked(own))
		return;
	state.s.round++;
	state.s.is_under_way = false;
}

/*
 * Of the dead owner's pools the living may hold what he gave, at most what they have had of any,
 * and nobody can say of which device.
 */
static bool add_given(const struct ration_region *own, unsigned slot,
		      uint64_t bytes[RATION_DEVICES])
{
	uint64_t most = shared_pools_given(own, slot) ? shared_pools_all_taken(own) : 0;
	bool is_any = false;

	for (int d = 0; most && d < RATION_DEVICES; d++) {
		if (!__atomic_load_n(&own->slots[slot].used_bytes[d], __ATOMIC_RELAXED))
			continue;
		bytes[d] = bytes_sum(bytes[d], most);
		is_any = true;
	}
	return is_any;
}

int heir_keeps(const struct ration_region *own, unsigned slot, uint64_t out_bytes[RATION_DEVICES])
{
	struct exported *all;
	unsigned count;
	int rc;

	memset(out_bytes, 0, RATION_DEVICES * sizeof(*out_bytes));
	if (!has_exported(own, slot))
		return 0;
	rc = exported_read(exported_owner(&own->slots[slot], slot), &all, &count);
	/* Where the list can never be read, nothing is followed (core/lent.h). */
	if (rc < 0)
		return exported_is_unreadable(rc) ? add_given(own, slot, out_bytes) : rc;
	for (unsigned i = 0; i < count; i++)
		out_bytes[all[i].dev] = bytes_sum(out_bytes[all[i].dev], all[i].bytes);
	free(all);
	return add_given(own, slot, out_bytes) || count > 0;
}

static bool is_of(const struct dead *d, const struct ration_slot *s)
{
	return d->until && d->start_ticks == s->start_ticks && d->lifeline == s->lifeline &&
	       d->pid == s->pid;
}

/* mutex held: what the dead owner of the slot waits for; NULL where that cannot be said now. */
static struct dead *note(const struct ration_region *own, unsigned slot)
{
	const struct ration_slot *s = &own->slots[slot];
	struct dead *d = &state.s.of[slot];
	uint64_t keep_bytes[RATION_DEVICES];

	if (is_of(d, s))
		return d;
	if (heir_keeps(own, slot, keep_bytes) < 0)
		return NULL;
	*d = (struct dead){ .until = state.s.round + (state.s.is_under_way ? 2 : 1),
			    .start_ticks = s->start_ticks,
			    .pid = s->pid,
			    .lifeline = s->lifeline };
	memcpy(d->keep_bytes, keep_bytes, sizeof(keep_bytes));
	return d;
}

/* mutex held. */
static bool have_looked(const struct ration_region *own, unsigned slot, uint64_t *out_keep_bytes)
{
	struct dead *d;

	end_round_if_over(own);
	d = note(own, slot);
	if (!d)
		return false;
	if (d->until > state.s.round && !state.s.is_under_way) {
		begin_round(own);
		/* Where nobody imports it is over at once. */
		end_round_if_over(own);
	}
	if (d->until > state.s.round)
		return false;
	memcpy(out_keep_bytes, d->keep_bytes, sizeof(d->keep_bytes));
	*d = (struct dead){ .until = 0 };
	return true;
}

bool heir_have_looked(struct ration_region *own, unsigned slot,
		      uint64_t out_keep_bytes[RATION_DEVICES])
{
	bool is_over;

	/* The dead hold nothing of others'; two that had each other's would wait for ever. */
	__atomic_store_n(&own->residency[slot].import_looks, 0, __ATOMIC_SEQ_CST);
	shared_pools_set_taken(own, slot, 0);
	if (!has_exported(own, slot)) {
		memset(out_keep_bytes, 0, RATION_DEVICES * sizeof(*out_keep_bytes));
		return true;
	}
	/* Before the lock: a child forked while it is held must find it free. */
	process_wipe_on_fork(&state, sizeof(state));
	pthread_mutex_lock(&state.s.mutex);
	is_over = have_looked(own, slot, out_keep_bytes);
	pthread_mutex_unlock(&state.s.mutex);
	return is_over;
}
