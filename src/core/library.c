#include "core/library.h"

#include "base/hash.h"
#include "base/process.h"
#include "core/context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * The link is first, so that what is found is known by it. With no context: what the library takes
 * in each.
 */
struct library_place {
	struct hash_link link; /* by both */
	const void *library, *ctx;
	struct library_need need;
	struct dev dev;
	/* Parts of it, from LIBRARY_DATA on: that were let in, and that are there; not fewer. */
	unsigned in, there;
	uint64_t mark; /* context_mark() when it came */
};

struct library_state {
	/* Orders the rest; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct hash places;
	/* Of them, in contexts of each device; written under mutex, atomic. */
	_Atomic unsigned used[RATION_DEVICES];
};
PROCESS_STATE(library_state, state);

void library_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

static uint64_t key_of(const void *library, const void *ctx)
{
	uint64_t other = (uint64_t)(uintptr_t)ctx;

	return (uint64_t)(uintptr_t)library ^ (other << 32 | other >> 32);
}

/* mutex held: what has their key, which may be others: what has no place is asked for each time. */
static struct library_place *find(const void *library, const void *ctx)
{
	return (struct library_place *)hash_find(&state.s.places, key_of(library, ctx));
}

/*
 * mutex held: the place, made if there is none; NULL without memory, or for another's key. Without
 * a context `dev` means nothing.
 */
static struct library_place *make(const void *library, const void *ctx, struct dev dev)
{
	struct library_place *place = find(library, ctx);

	if (place)
		return place->library == library && place->ctx == ctx ? place : NULL;
	place = calloc(1, sizeof(*place));
	if (!place)
		return NULL;
	place->library = library;
	place->ctx = ctx;
	place->dev = dev;
	place->mark = context_mark();
	place->link.key = key_of(library, ctx);
	hash_insert(&state.s.places, &place->link);
	if (ctx)
		atomic_fetch_add(&state.s.used[dev.v], 1);
	return place;
}

static unsigned larger(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

/* The first `in` parts were let in, the first `there` are there. */
static void enter(const void *library, const void *ctx, struct dev dev, unsigned in, unsigned there)
{
	struct library_place *place;

	pthread_mutex_lock(&state.s.mutex);
	place = make(library, ctx, dev);
	if (place) {
		place->in = larger(place->in, in);
		place->there = larger(place->there, there);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void library_enter(const void *library, const void *ctx, struct dev dev, enum library_part part)
{
	enter(library, ctx, dev, part + 1u, part + 1u);
}

void library_refuse(const void *library, const void *ctx, struct dev dev, enum library_part part)
{
	enter(library, ctx, dev, 0, part + 1u);
}

void library_note(const void *library, struct library_need need)
{
	struct library_place *place;

	pthread_mutex_lock(&state.s.mutex);
	place = make(library, NULL, (struct dev){ 0 });
	if (place)
		place->need = need;
	pthread_mutex_unlock(&state.s.mutex);
}

bool library_any(struct dev dev)
{
	return atomic_load(&state.s.used[dev.v]) > 0;
}

struct library_need library_need(const void *library)
{
	struct library_need need = { 0 };
	const struct library_place *place;

	pthread_mutex_lock(&state.s.mutex);
	place = find(library, NULL);
	if (place && place->library == library && !place->ctx)
		need = place->need;
	pthread_mutex_unlock(&state.s.mutex);
	return need;
}

/* The place's numbers of parts; zeros without one. */
static struct library_place look(const void *library, const void *ctx)
{
	struct library_place copy = { 0 };
	const struct library_place *place;

	pthread_mutex_lock(&state.s.mutex);
	place = find(library, ctx);
	if (place && place->library == library && place->ctx == ctx)
		copy = *place;
	pthread_mutex_unlock(&state.s.mutex);
	return copy;
}

bool library_is_in(const void *library, const void *ctx, enum library_part part)
{
	return look(library, ctx).in > part;
}

bool library_is_there(const void *library, const void *ctx, enum library_part part)
{
	return look(library, ctx).there > part;
}

static void drop(struct library_place *place)
{
	if (place->ctx)
		atomic_fetch_sub(&state.s.used[place->dev.v], 1);
	hash_remove(&state.s.places, &place->link);
	free(place);
}

struct taking {
	const void *library;
	struct hash_link *taken;
};

static void take_if_of(struct hash_link *link, void *arg)
{
	const struct library_place *place = (const struct library_place *)link;
	struct taking *taking = arg;

	if (place->library != taking->library)
		return;
	if (place->ctx)
		atomic_fetch_sub(&state.s.used[place->dev.v], 1);
	hash_take(&state.s.places, link, &taking->taken);
}

struct library_place *library_take(const void *library)
{
	struct taking taking = { library, NULL };

	pthread_mutex_lock(&state.s.mutex);
	hash_each(&state.s.places, take_if_of, &taking);
	pthread_mutex_unlock(&state.s.mutex);
	return (struct library_place *)taking.taken;
}

/* mutex held: with what came there meanwhile. */
static void put_back(struct hash_link *link)
{
	struct library_place *place = (struct library_place *)link;
	struct library_place *seen = find(place->library, place->ctx);

	/* Another's with that key goes: it is asked for again. */
	if (seen && seen->library == place->library && seen->ctx == place->ctx) {
		place->in = larger(place->in, seen->in);
		place->there = larger(place->there, seen->there);
	}
	if (seen)
		drop(seen);
	hash_insert(&state.s.places, &place->link);
	if (place->ctx)
		atomic_fetch_add(&state.s.used[place->dev.v], 1);
}

static void drop_taken(struct hash_link *link)
{
	free(link);
}

void library_over(struct library_place *taken, bool is_gone)
{
	pthread_mutex_lock(&state.s.mutex);
	hash_each_taken(taken ? &taken->link : NULL, is_gone ? drop_taken : put_back);
	pthread_mutex_unlock(&state.s.mutex);
}

static void drop_if_in(struct hash_link *link, void *arg)
{
	struct library_place *place = (struct library_place *)link;

	if (context_is_gone(arg, place->ctx, place->mark))
		drop(place);
}

void library_end_context(const void *ctx, uint64_t mark)
{
	struct context_gone gone = { ctx, mark };

	pthread_mutex_lock(&state.s.mutex);
	if (ctx)
		hash_each(&state.s.places, drop_if_in, &gone);
	pthread_mutex_unlock(&state.s.mutex);
}
