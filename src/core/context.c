#include "core/context.h"

#include "base/process.h"

#include <pthread.h>
#include <stdlib.h>

struct context {
	struct context *next;
	const void *ctx;
	struct context_cost cost;
	uint64_t users;
	uint64_t seq;
};

struct context_state {
	/* Orders all of it; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct context *first;
	uint64_t seq; /* of the one entered last */
};
PROCESS_STATE(context_state, state);

void context_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

/* mutex held: the link to the context; to NULL when it is unknown. */
static struct context **find(const void *ctx)
{
	struct context **link = &state.s.first;

	while (*link && (*link)->ctx != ctx)
		link = &(*link)->next;
	return link;
}

/* mutex held. */
static struct context *unlink_at(struct context **link)
{
	struct context *context = *link;

	if (context)
		*link = context->next;
	return context;
}

/* mutex held. */
static void link_first(struct context *context)
{
	context->next = state.s.first;
	state.s.first = context;
}

struct context_cost context_end(struct context *context)
{
	struct context_cost cost = { .bytes = 0 };

	if (context)
		cost = context->cost;
	free(context);
	return cost;
}

struct context_cost context_enter(const void *ctx, struct dev dev, uint64_t bytes)
{
	struct context *context = calloc(1, sizeof(*context)), *stale;

	pthread_mutex_lock(&state.s.mutex);
	stale = unlink_at(find(ctx));
	if (context) {
		*context = (struct context){ .ctx = ctx, .cost = { dev, bytes }, .users = 1 };
		context->seq = ++state.s.seq;
		link_first(context);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return context_end(stale);
}

bool context_any(struct dev dev)
{
	const struct context *context;

	pthread_mutex_lock(&state.s.mutex);
	for (context = state.s.first; context && context->cost.dev.v != dev.v;)
		context = context->next;
	pthread_mutex_unlock(&state.s.mutex);
	return context != NULL;
}

void context_attach(const void *ctx)
{
	struct context *context;

	pthread_mutex_lock(&state.s.mutex);
	context = *find(ctx);
	if (context)
		context->users++;
	pthread_mutex_unlock(&state.s.mutex);
}

bool context_detach(const void *ctx, struct context **out_context)
{
	struct context **link;
	bool is_last;

	pthread_mutex_lock(&state.s.mutex);
	link = find(ctx);
	is_last = *link && --(*link)->users == 0;
	*out_context = is_last ? unlink_at(link) : NULL;
	pthread_mutex_unlock(&state.s.mutex);
	return is_last;
}

uint64_t context_mark(void)
{
	uint64_t mark;

	pthread_mutex_lock(&state.s.mutex);
	mark = state.s.seq;
	pthread_mutex_unlock(&state.s.mutex);
	return mark;
}

struct context *context_take(const void *ctx, uint64_t mark)
{
	struct context **link, *context = NULL;

	pthread_mutex_lock(&state.s.mutex);
	link = find(ctx);
	if (*link && (*link)->seq <= mark)
		context = unlink_at(link);
	pthread_mutex_unlock(&state.s.mutex);
	return context;
}

struct context_cost context_put_back(struct context *context)
{
	struct context *stale = NULL;

	if (!context)
		return (struct context_cost){ .bytes = 0 };
	pthread_mutex_lock(&state.s.mutex);
	if (context->users == 0)
		context->users = 1;
	if (*find(context->ctx))
		stale = context;
	else
		link_first(context);
	pthread_mutex_unlock(&state.s.mutex);
	return context_end(stale);
}
