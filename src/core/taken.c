#include "core/taken.h"

#include "base/bytes.h"
#include "base/process.h"
#include "core/quota.h"
#include "core/units.h"
#include "shm/region.h"
#include "shm/shared_pools.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct taken_pool {
	struct taken_pool *next;
	const void *pool;
	struct dev dev;
	struct units units;     /* another pool of the process may have the same addresses */
	uint64_t charged_bytes; /* of them here */
};

struct taken_state {
	struct ration_region *own; /* constant after taken_init() */
	unsigned slot;             /* likewise */
	_Atomic bool is_used;      /* something was ever taken; atomic */
	pthread_mutex_t mutex;     /* orders the rest; before the quota's */
	struct taken_pool *pools;
	uint64_t bytes, charged_bytes; /* of all pools */
	unsigned under_way;
	bool is_lost; /* there was no memory to enter something */
};
PROCESS_STATE(taken_state, state);

void taken_init(struct region *region, unsigned slot)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.own = region->own;
	state.s.slot = slot;
}

/* mutex held. */
static void show(void)
{
	bool is_known = !state.s.under_way && !state.s.is_lost;

	if (state.s.own && quota_has_region_now())
		shared_pools_set_taken(state.s.own, state.s.slot,
				       is_known ? state.s.bytes : UINT64_MAX);
}

void taken_hold(void)
{
	if (!atomic_load_explicit(&state.s.is_used, memory_order_relaxed))
		return;
	pthread_mutex_lock(&state.s.mutex);
	show();
	pthread_mutex_unlock(&state.s.mutex);
}

void taken_begin(void)
{
	pthread_mutex_lock(&state.s.mutex);
	atomic_store(&state.s.is_used, true);
	state.s.under_way++;
	show();
	pthread_mutex_unlock(&state.s.mutex);
}

void taken_over(void)
{
	pthread_mutex_lock(&state.s.mutex);
	state.s.under_way--;
	show();
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held. */
static struct taken_pool **find_pool(const void *pool)
{
	struct taken_pool **at = &state.s.pools;

	while (*at && (*at)->pool != pool)
		at = &(*at)->next;
	return at;
}

/* mutex held: 0, -EINVAL or -ENOMEM; *out_pool has it. */
static int enter(const void *pool, struct dev dev, uint64_t addr, uint64_t bytes,
		 struct taken_pool **out_pool)
{
	struct taken_pool **at = find_pool(pool);
	struct unit *units;
	int rc = units_prepare(addr, bytes, &units);

	if (rc < 0)
		return rc;
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at) {
			units_discard(units);
			return -ENOMEM;
		}
		**at = (struct taken_pool){ .pool = pool, .dev = dev };
	}
	state.s.bytes += units_enter(&(*at)->units, units);
	*out_pool = *at;
	return 0;
}

/* mutex held: what nobody of the tenant has given is charged. 0 or -EDQUOT. */
static int charge(struct taken_pool *p)
{
	uint64_t given_bytes = shared_pools_all_given(state.s.own);
	uint64_t bytes = bytes_beyond(state.s.bytes, bytes_sum(given_bytes, state.s.charged_bytes));
	int rc = 0;

	if (bytes == 0)
		return 0;
	rc = quota_take(p->dev, QUOTA_DATA, bytes);
	if (rc < 0)
		quota_charge(p->dev, QUOTA_DATA, bytes);
	p->charged_bytes += bytes;
	state.s.charged_bytes += bytes;
	return rc == -EDQUOT ? rc : 0;
}

int taken_enter(const void *pool, struct dev dev, uint64_t addr, uint64_t bytes)
{
	struct taken_pool *p;
	int rc;

	pthread_mutex_lock(&state.s.mutex);
	rc = enter(pool, dev, addr, bytes, &p);
	if (rc < 0)
		state.s.is_lost = true;
	else
		rc = charge(p);
	pthread_mutex_unlock(&state.s.mutex);
	return rc == -EDQUOT ? rc : 0;
}

void taken_pool_end(const void *pool)
{
	struct taken_pool **at, *gone;
	uint64_t live_bytes;

	if (!atomic_load_explicit(&state.s.is_used, memory_order_relaxed))
		return;
	pthread_mutex_lock(&state.s.mutex);
	at = find_pool(pool);
	gone = *at;
	if (gone) {
		*at = gone->next;
		state.s.bytes -= units_clear(&gone->units, &live_bytes);
		state.s.charged_bytes -= gone->charged_bytes;
		quota_release(gone->dev, QUOTA_DATA, gone->charged_bytes);
		show();
		free(gone);
	}
	pthread_mutex_unlock(&state.s.mutex);
}
