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
struct place {
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
static struct place *find(const void *library, const void *ctx)
{
	return (struct place *)hash_find(&state.s.places, key_of(library, ctx));
}

/*
 * mutex held: the place, made if there is none; NULL without memory, or for another's key. Without
 * a context `dev` means nothing.
 */
static struct place *make(const void *library, const void *ctx, struct dev dev)
{
	struct place *place = find(library, ctx);

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
	struct place *place;

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
	struct place *place;

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
	const struct place *place;

	pthread_mutex_lock(&state.s.mutex);
	place = find(library, NULL);
	if (place && place->library == library && !place->ctx)
		need = place->need;
	pthread_mutex_unlock(&state.s.mutex);
	return need;
}

/* The place's numbers of parts; zeros without one. */
static struct place look(const void *library, const void *ctx)
{
	struct place copy = { 0 };
	const struct place *place;

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

static void drop(struct place *place)
{
	if (place->ctx)
		atomic_fetch_sub(&state.s.used[place->dev.v], 1);
	hash_remove(&state.s.places, &place->link);
	free(place);
}

static void drop_if_of(struct hash_link *link, void *arg)
{
	if (((struct place *)link)->library == arg)
		drop((struct place *)link);
}

void library_end(const void *library)
{
	pthread_mutex_lock(&state.s.mutex);
	hash_each(&state.s.places, drop_if_of, (void *)(uintptr_t)library);
	pthread_mutex_unlock(&state.s.mutex);
}

struct gone {
	const void *ctx;
	uint64_t mark;
};

static void drop_if_in(struct hash_link *link, void *arg)
{
	struct place *place = (struct place *)link;
	const struct gone *gone = arg;

	if (place->ctx == gone->ctx && place->mark <= gone->mark)
		drop(place);
}

void library_end_context(const void *ctx, uint64_t mark)
{
	struct gone gone = { ctx, mark };

	pthread_mutex_lock(&state.s.mutex);
	if (ctx)
		hash_each(&state.s.places, drop_if_in, &gone);
	pthread_mutex_unlock(&state.s.mutex);
}
