#include "core/green.h"

#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/queue.h>

struct green {
	/* the mutex */
	const void *ctx, *primary;
	LIST_ENTRY(green) link;
};

LIST_HEAD(green_list, green);

struct green_state {
	pthread_mutex_t mutex; /* zero is an unlocked one */
	/* mutex */
	struct green_list list;
	_Atomic unsigned count; /* in the list; atomic */
};
PROCESS_STATE(green_state, state);

void green_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

/* mutex. */
static struct green *find(const void *ctx)
{
	struct green *g;

	LIST_FOREACH(g, &state.s.list, link)
		if (g->ctx == ctx)
			return g;
	return NULL;
}

bool green_enter(const void *ctx, const void *primary)
{
	struct green *fresh = calloc(1, sizeof(*fresh)), *g;

	pthread_mutex_lock(&state.s.mutex);
	/* One that went unseen, with its primary context, has left its handle to another. */
	g = find(ctx);
	if (!g && fresh) {
		g = fresh;
		fresh = NULL;
		g->ctx = ctx;
		LIST_INSERT_HEAD(&state.s.list, g, link);
		atomic_fetch_add(&state.s.count, 1);
	}
	if (g)
		g->primary = primary;
	pthread_mutex_unlock(&state.s.mutex);
	free(fresh);
	return g != NULL;
}

void green_leave(const void *ctx)
{
	struct green *g;

	pthread_mutex_lock(&state.s.mutex);
	g = find(ctx);
	if (g) {
		LIST_REMOVE(g, link);
		atomic_fetch_sub(&state.s.count, 1);
	}
	pthread_mutex_unlock(&state.s.mutex);
	free(g);
}

const void *green_owner(const void *ctx)
{
	struct green *g;

	if (atomic_load_explicit(&state.s.count, memory_order_relaxed) == 0)
		return ctx;
	pthread_mutex_lock(&state.s.mutex);
	g = find(ctx);
	if (g)
		ctx = g->primary;
	pthread_mutex_unlock(&state.s.mutex);
	return ctx;
}
