#include "core/given.h"

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

struct given_piece {
	struct hash_link link; /* by its address */
	struct unit *units;    /* until it is entered */
	uint64_t bytes;
	struct given_pool *of;
};

struct given_pool {
	struct given_pool *next;
	const void *pool;
	struct dev dev;
	struct units units;
	uint64_t ended_bytes; /* of units that the pool has not been seen to let go of */
};

struct given_state {
	struct ration_region *own; /* constant after given_init() */
	unsigned slot;             /* likewise */
	_Atomic bool is_used;      /* something was ever given; atomic */
	pthread_mutex_t mutex;     /* orders the rest */
	struct hash pieces;        /* that have not ended */
	struct given_pool *pools;  /* one of them (NULL) is of pieces whose pool is not known */
	uint64_t unit_bytes;       /* of all units */
	/* Of destroyed pools and such pieces, as given_pool has it; what stays charged. */
	uint64_t ended_bytes[RATION_DEVICES], kept_bytes[RATION_DEVICES];
};
PROCESS_STATE(given_state, state);

void given_init(struct region *region, unsigned slot)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.own = region->own;
	state.s.slot = slot;
}

static bool is_used(void)
{
	return atomic_load_explicit(&state.s.is_used, memory_order_relaxed);
}

static bool has_region(void)
{
	return state.s.own && quota_has_region_now();
}

/* mutex held. */
static void show(void)
{
	uint64_t bytes = state.s.unit_bytes;

	for (int d = 0; d < RATION_DEVICES; d++)
		bytes += state.s.kept_bytes[d];
	if (has_region())
		shared_pools_set_given(state.s.own, state.s.slot, bytes);
}

void given_hold(void)
{
	if (!is_used())
		return;
	pthread_mutex_lock(&state.s.mutex);
	show();
	pthread_mutex_unlock(&state.s.mutex);
}

struct given_piece *given_prepare(uint64_t addr, uint64_t bytes)
{
	struct given_piece *piece = calloc(1, sizeof(*piece));

	if (piece && units_prepare(addr, bytes, &piece->units) < 0) {
		free(piece);
		piece = NULL;
	}
	if (piece) {
		piece->link.key = addr;
		piece->bytes = bytes;
	}
	return piece;
}

/* mutex held. */
static struct given_pool **find_pool(const void *pool)
{
	struct given_pool **at = &state.s.pools;

	while (*at && (*at)->pool != pool)
		at = &(*at)->next;
	return at;
}

/* mutex held. NULL without memory for it. */
static struct given_pool *enter_pool(const void *pool, struct dev dev)
{
	struct given_pool **at = find_pool(pool);

	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (*at)
			**at = (struct given_pool){ .pool = pool, .dev = dev };
	}
	return *at;
}

static void discard(struct given_piece *piece)
{
	units_discard(piece->units);
	free(piece);
}

int given_enter(struct given_piece *piece, const void *pool, struct dev dev)
{
	int rc = 0;

	pthread_mutex_lock(&state.s.mutex);
	atomic_store(&state.s.is_used, true);
	if (!hash_find(&state.s.pieces, piece->link.key)) {
		piece->of = enter_pool(pool, dev);
		rc = piece->of ? 1 : -ENOMEM;
	}
	if (rc > 0) {
		state.s.unit_bytes += units_enter(&piece->of->units, piece->units);
		piece->units = NULL;
		hash_insert(&state.s.pieces, &piece->link);
		show();
	}
	pthread_mutex_unlock(&state.s.mutex);
	if (rc <= 0)
		discard(piece);
	return rc;
}

/* mutex held: takes the piece out; *out_bytes: of units that no piece is left in. */
static struct given_pool *leave(uint64_t addr, uint64_t *out_bytes)
{
	struct given_piece *piece = (struct given_piece *)hash_find(&state.s.pieces, addr);
	struct given_pool *of = NULL;

	if (piece) {
		of = piece->of;
		hash_remove(&state.s.pieces, &piece->link);
		*out_bytes = units_leave(&of->units, addr, piece->bytes);
		free(piece);
	}
	return of;
}

/* Its units stay in: others of it may have been given in another thread's call. */
void given_undo(uint64_t addr)
{
	uint64_t bytes;

	pthread_mutex_lock(&state.s.mutex);
	leave(addr, &bytes);
	pthread_mutex_unlock(&state.s.mutex);
}

void given_freed(uint64_t addr)
{
	struct given_pool *of;
	uint64_t bytes;

	if (!is_used())
		return;
	pthread_mutex_lock(&state.s.mutex);
	of = leave(addr, &bytes);
	if (of && of->pool)
		of->ended_bytes += bytes;
	else if (of)
		state.s.ended_bytes[of->dev.v] += bytes;
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held: what may be held at most. */
static uint64_t bound_bytes(void)
{
	/* Who cannot see the others takes it that they have all. */
	return has_region() ? bytes_sum(state.s.unit_bytes, shared_pools_all_taken(state.s.own)) :
			      UINT64_MAX;
}

/* mutex held: takes so much off what has ended there, at most; returns how much. */
static uint64_t take(uint64_t *ended, uint64_t bytes)
{
	bytes = bytes_least(bytes, *ended);
	*ended -= bytes;
	return bytes;
}

uint64_t given_keep(const void *pool, struct dev dev, uint64_t bytes)
{
	uint64_t *kept = &state.s.kept_bytes[dev.v], of_pool = 0;
	struct given_pool *p;

	if (!is_used())
		return 0;
	pthread_mutex_lock(&state.s.mutex);
	p = pool ? *find_pool(pool) : NULL;
	if (p)
		of_pool = take(&p->ended_bytes, bytes);
	bytes = of_pool + take(&state.s.ended_bytes[dev.v], bytes - of_pool);
	if (bytes) {
		bytes = bytes_least(bytes, bytes_beyond(bound_bytes(), *kept));
		*kept += bytes;
		show();
	}
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}

static void drop_piece(struct hash_link *link, void *of)
{
	if (((const struct given_piece *)link)->of != of)
		return;
	hash_remove(&state.s.pieces, link);
	free(link);
}

void given_pool_end(const void *pool)
{
	struct given_pool **at, *gone;
	uint64_t live_bytes;

	if (!is_used() || !pool)
		return;
	pthread_mutex_lock(&state.s.mutex);
	at = find_pool(pool);
	gone = *at;
	if (gone) {
		*at = gone->next;
		hash_each(&state.s.pieces, drop_piece, gone);
		state.s.unit_bytes -= units_clear(&gone->units, &live_bytes);
		state.s.ended_bytes[gone->dev.v] += gone->ended_bytes + live_bytes;
		show();
		free(gone);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

uint64_t given_settle(struct dev dev)
{
	uint64_t *kept = &state.s.kept_bytes[dev.v], bytes = 0;

	if (!is_used())
		return 0;
	pthread_mutex_lock(&state.s.mutex);
	if (*kept)
		bytes = bytes_beyond(*kept, bound_bytes());
	*kept -= bytes;
	if (bytes)
		show();
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}
