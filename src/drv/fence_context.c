#include "drv/fence_context.h"

#include "drv/real.h"
#include "drv/status.h"

#include <errno.h>
#include <stdlib.h>

struct fence_context *fence_context_find(const struct fence_context_list *contexts, CUcontext ctx)
{
	struct fence_context *c;

	LIST_FOREACH(c, contexts, link)
		if (c->ctx == ctx)
			return c;
	return NULL;
}

void fence_context_forget(struct fence_context *c)
{
	struct gpu_fence_event *event, *next_event;
	struct fence_stream *s, *next_stream;

	for (event = LIST_FIRST(&c->events); event; event = next_event) {
		next_event = LIST_NEXT(event, in_context);
		event->context = NULL;
	}
	while ((event = SLIST_FIRST(&c->free_ones))) {
		SLIST_REMOVE_HEAD(&c->free_ones, in_pool);
		free(event);
	}
	for (s = LIST_FIRST(&c->streams); s; s = next_stream) {
		next_stream = LIST_NEXT(s, link);
		free(s);
	}
	LIST_REMOVE(c, link);
	free(c);
}

bool fence_context_add(struct fence_context_list *contexts, CUcontext ctx, struct cuda_ord ord,
		       uint64_t serial, bool is_primary)
{
	struct fence_context *c = calloc(1, sizeof(*c));

	if (!c)
		return false;
	c->ctx = ctx;
	c->ord = ord;
	c->serial = serial;
	c->is_primary = is_primary;
	LIST_INIT(&c->streams);
	LIST_INIT(&c->events);
	SLIST_INIT(&c->free_ones);
	LIST_INSERT_HEAD(contexts, c, link);
	return true;
}

bool fence_context_add_stream(struct fence_context *c, CUstream stream)
{
	struct fence_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return false;
	s->stream = stream;
	LIST_INSERT_HEAD(&c->streams, s, link);
	return true;
}

void fence_context_give_event(struct gpu_fence_event *event)
{
	if (event->context)
		SLIST_INSERT_HEAD(&event->context->free_ones, event, in_pool);
	else
		free(event);
}

struct gpu_fence_event *fence_context_take_event(struct fence_context *c, int *out_rc)
{
	struct gpu_fence_event *event = SLIST_FIRST(&c->free_ones);

	if (event) {
		SLIST_REMOVE_HEAD(&c->free_ones, in_pool);
		return event;
	}
	event = calloc(1, sizeof(*event));
	if (!event) {
		*out_rc = -ENOMEM;
		return NULL;
	}
	*out_rc = status_errno(real.cuEventCreate(&event->event, CU_EVENT_DISABLE_TIMING));
	if (*out_rc < 0) {
		free(event);
		return NULL;
	}
	event->context = c;
	LIST_INSERT_HEAD(&c->events, event, in_context);
	return event;
}

struct fence_stream *fence_context_of_stream(const struct fence_context_list *contexts,
					     CUstream stream, struct fence_context **out_context)
{
	struct fence_context *c;
	struct fence_stream *s;

	LIST_FOREACH(c, contexts, link)
		LIST_FOREACH(s, &c->streams, link)
			if (s->stream == stream) {
				*out_context = c;
				return s;
			}
	return NULL;
}
