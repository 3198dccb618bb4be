#include "core/library.h"

#include "base/hash.h"
#include "base/process.h"

#include <pthread.h>
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
	enum library_part part; /* the most that was asked for */
};

struct library_state {
	/* Orders the rest; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct hash places;
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

/* mutex held. Two that have the same key count as one: the second is asked for all the same. */
static struct place *find(const void *library, const void *ctx)
{
	return (struct place *)hash_find(&state.s.places, key_of(library, ctx));
}

static void enter(const void *library, const void *ctx, struct library_need need,
		  enum library_part part)
{
	struct place *place;

	pthread_mutex_lock(&state.s.mutex);
	place = find(library, ctx);
	if (!place) {
		place = calloc(1, sizeof(*place));
		if (place) {
			place->library = library;
			place->ctx = ctx;
			place->link.key = key_of(library, ctx);
			hash_insert(&state.s.places, &place->link);
		}
	}
	if (place && place->library == library && place->ctx == ctx) {
		place->need = need;
		if (part > place->part)
			place->part = part;
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void library_enter(const void *library, const void *ctx, enum library_part part)
{
	enter(library, ctx, (struct library_need){ 0 }, part);
}

void library_note(const void *library, const void *image, uint64_t bytes)
{
	enter(library, NULL, (struct library_need){ bytes ? NULL : image, bytes }, LIBRARY_DATA);
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

bool library_is_in(const void *library, const void *ctx, enum library_part part)
{
	const struct place *place;
	bool is_in;

	pthread_mutex_lock(&state.s.mutex);
	place = find(library, ctx);
	is_in = place && place->part >= part;
	pthread_mutex_unlock(&state.s.mutex);
	return is_in;
}

static void drop_if_of(struct hash_link *link, void *arg)
{
	if (((struct place *)link)->library != arg)
		return;
	hash_remove(&state.s.places, link);
	free(link);
}

void library_end(const void *library)
{
	pthread_mutex_lock(&state.s.mutex);
	hash_each(&state.s.places, drop_if_of, (void *)(uintptr_t)library);
	pthread_mutex_unlock(&state.s.mutex);
}

static void drop_if_in(struct hash_link *link, void *arg)
{
	if (((struct place *)link)->ctx != arg)
		return;
	hash_remove(&state.s.places, link);
	free(link);
}

void library_end_context(const void *ctx)
{
	pthread_mutex_lock(&state.s.mutex);
	if (ctx)
		hash_each(&state.s.places, drop_if_in, (void *)(uintptr_t)ctx);
	pthread_mutex_unlock(&state.s.mutex);
}
