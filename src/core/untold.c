#include "core/untold.h"

#include "base/process.h"
#include "core/context.h"

#include <pthread.h>
#include <stdlib.h>

struct entry {
	struct entry *next;
	const void *owner, *ctx;
	struct dev dev;
	uint64_t bytes;
	uint64_t mark; /* context_mark() when it came */
	bool is_managed;
};

struct untold_state {
	/* Orders the rest; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct entry *first;
};
PROCESS_STATE(untold_state, state);

void untold_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

static void add(const struct entry *entry)
{
	struct entry *e = entry->bytes ? malloc(sizeof(*e)) : NULL;

	if (!e)
		return;
	*e = *entry;
	e->mark = context_mark();
	pthread_mutex_lock(&state.s.mutex);
	e->next = state.s.first;
	state.s.first = e;
	pthread_mutex_unlock(&state.s.mutex);
}

void untold_add(const void *owner, const void *ctx, struct dev dev, uint64_t bytes)
{
	add(&(struct entry){ .owner = owner, .ctx = ctx, .dev = dev, .bytes = bytes });
}

void untold_add_managed(const void *owner, const void *ctx, struct dev dev, uint64_t bytes)
{
	add(&(struct entry){
		.owner = owner, .ctx = ctx, .dev = dev, .bytes = bytes, .is_managed = true });
}

bool untold_has_managed(const void *owner)
{
	bool has = false;

	pthread_mutex_lock(&state.s.mutex);
	for (const struct entry *e = state.s.first; e && !has; e = e->next)
		has = e->owner == owner && e->is_managed;
	pthread_mutex_unlock(&state.s.mutex);
	return has;
}

void untold_rename(const void *was, const void *to)
{
	if (!was)
		return;
	pthread_mutex_lock(&state.s.mutex);
	for (struct entry *e = state.s.first; e; e = e->next)
		if (e->owner == was)
			e->owner = to;
	pthread_mutex_unlock(&state.s.mutex);
}

/* Those of the owner, or that had come to the context by then, whichever is given. */
static void take(const void *owner, const void *ctx, uint64_t mark,
		 struct untold_bytes *inout_bytes)
{
	struct entry **at = &state.s.first, *e;

	pthread_mutex_lock(&state.s.mutex);
	while ((e = *at)) {
		if ((owner && e->owner == owner) || (ctx && e->ctx == ctx && e->mark <= mark)) {
			(e->is_managed ? inout_bytes->managed :
					 inout_bytes->module)[e->dev.v] += e->bytes;
			*at = e->next;
			free(e);
		} else {
			at = &e->next;
		}
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void untold_take(const void *owner, struct untold_bytes *inout_bytes)
{
	take(owner, NULL, 0, inout_bytes);
}

void untold_take_context(const void *ctx, uint64_t mark, struct untold_bytes *inout_bytes)
{
	take(NULL, ctx, mark, inout_bytes);
}
