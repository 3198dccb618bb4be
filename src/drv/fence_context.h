/*
 * What fences know of a context: its streams, where events are put into each, and its events, in
 * use or not. All of it, and the list that it is in, is for who has the turn of drv/gpu_fence.c.
 */
#pragma once

#include "abi/cuda.h"
#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct fence_context;

struct gpu_fence_event {
	CUevent event;
	struct fence_context *context; /* NULL: it is gone, and so is the event */
	LIST_ENTRY(gpu_fence_event) in_context;
	SLIST_ENTRY(gpu_fence_event) in_pool; /* of its context, while no fence has it */
	struct gpu_fence_event *next;         /* in its fence */
};

struct fence_stream {
	CUstream stream;
	LIST_ENTRY(fence_stream) link;
};

struct fence_context {
	CUcontext ctx;
	struct cuda_ord ord;
	uint64_t serial;
	bool is_primary;
	bool is_ending;  /* the driver may be at it */
	CUstream keeper; /* of ours, before 12.5: waits for what streams did that are gone */
	LIST_HEAD(, fence_stream) streams;   /* non-blocking ones, where events are put into each */
	LIST_HEAD(, gpu_fence_event) events; /* all of it */
	SLIST_HEAD(, gpu_fence_event) free_ones; /* of these */
	LIST_ENTRY(fence_context) link;
};

LIST_HEAD(fence_context_list, fence_context);

/* NULL: it is not there. */
struct fence_context *fence_context_find(const struct fence_context_list *contexts, CUcontext ctx);

/* One more. False: no memory. */
bool fence_context_add(struct fence_context_list *contexts, CUcontext ctx, struct cuda_ord ord,
		       uint64_t serial, bool is_primary);

/* One that is gone, with its events, of which fences may have some yet, and its streams. */
void fence_context_forget(struct fence_context *c);

/* One more stream. False: no memory. */
bool fence_context_add_stream(struct fence_context *c, CUstream stream);

/* The stream and its context; NULL: it is not there. Who takes it out frees it. */
struct fence_stream *fence_context_of_stream(const struct fence_context_list *contexts,
					     CUstream stream, struct fence_context **out_context);

/* An event of the context, which is current. NULL: *out_rc says why there is none. */
struct gpu_fence_event *fence_context_take_event(struct fence_context *c, int *out_rc);

/* Gives an event back to its context; it ends with one that is gone. */
void fence_context_give_event(struct gpu_fence_event *event);
