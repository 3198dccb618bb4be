/*
 * Executable graphs whose threads need more local memory than a context has to begin with: which
 * contexts their nodes name, and with which current context and stream they were launched already.
 *
 * Thread safe: one mutex. Fork children begin with nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Contexts that the nodes of one graph may name. */
enum { EXEC_LOCAL_PLACES = 16 };

/* A context that nodes name, and the most that a thread of their kernels needs. */
struct exec_local_place {
	const void *ctx;
	uint32_t thread_bytes;
	uint64_t mark; /* context_mark() when it was added last */
};

/* What the kernels of a graph need. */
struct exec_local_need {
	uint32_t most_bytes; /* for a thread, of any of them */
	bool is_less;        /* it may be less: it was changed, or that was tried */
	uint64_t change;     /* which change made it so; of exec_local_find() */
	unsigned count;
	struct exec_local_place at[EXEC_LOCAL_PLACES];
};

/* A launch: what was current, the context of the stream, and, before it, local_epoch() and need. */
struct exec_local_run {
	const void *current, *stream_ctx;
	uint64_t epoch, change;
};

void exec_local_init(void);

/* One more kernel, of that context. False when it is of one context too many. */
bool exec_local_add(struct exec_local_need *need, const void *ctx, uint32_t thread_bytes);

/* A graph that is about to be made; NULL without memory. It is entered or freed. */
struct exec_local;
struct exec_local *exec_local_new(void);
void exec_local_free(struct exec_local *local);

/* It was made, and needs that. What stood under its handle is void. */
void exec_local_enter(const void *exec, struct exec_local *local,
		      const struct exec_local_need *need);

/*
 * About to be changed: it may need that too, or less than before. 0, -ENOMEM, or -ENOSPC when it
 * would name too many contexts.
 */
int exec_local_raise(const void *exec, const struct exec_local_need *more);

/*
 * What was about to be changed is: a part needs so much now; or all of it does this, and nothing
 * else.
 */
void exec_local_changed(const void *exec, uint32_t thread_bytes);
void exec_local_set(const void *exec, const struct exec_local_need *need);

/* What is known of it; false when nothing is. */
bool exec_local_find(const void *exec, struct exec_local_need *out_need);

/* Such a launch went well; and whether the last one did since which nothing has changed. */
void exec_local_launched(const void *exec, const struct exec_local_run *run);
bool exec_local_has_run(const void *exec, const struct exec_local_run *run);

/*
 * It is destroyed; or a context ended, so that nothing is taken there any more by what had come by
 * `mark` (context_mark() before it went).
 */
void exec_local_end(const void *exec);
void exec_local_end_context(const void *ctx, uint64_t mark);
