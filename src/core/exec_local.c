#include "core/exec_local.h"

#include "base/process.h"
#include "base/tree.h"
#include "core/context.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* All of it: the state's mutex, while it is in the tree. */
struct exec_local {
	RB_ENTRY(exec_local) entry;
	const void *exec;
	struct exec_local_need need;
	struct exec_local_run run; /* the last that went well */
	bool has_run;
};

RB_HEAD(exec_local_tree, exec_local);

struct exec_local_state {
	pthread_mutex_t mutex; /* zero is an unlocked mutex; taken before core/context.h's */
	struct exec_local_tree tree;
	uint64_t changes; /* mutex: of all of them */
};
PROCESS_STATE(exec_local_state, state);

static int compare(const struct exec_local *a, const struct exec_local *b)
{
	return (uintptr_t)a->exec < (uintptr_t)b->exec ? -1 :
							 (uintptr_t)a->exec > (uintptr_t)b->exec;
}

RB_GENERATE_STATIC(exec_local_tree, exec_local, entry, compare)

void exec_local_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

bool exec_local_add(struct exec_local_need *need, const void *ctx, uint32_t thread_bytes)
{
	unsigned i = 0;

	while (i < need->count && need->at[i].ctx != ctx)
		i++;
	if (i == EXEC_LOCAL_PLACES)
		return false;
	if (i == need->count)
		need->at[need->count++] = (struct exec_local_place){ .ctx = ctx };
	need->at[i].mark = context_mark();
	if (thread_bytes > need->at[i].thread_bytes)
		need->at[i].thread_bytes = thread_bytes;
	if (thread_bytes > need->most_bytes)
		need->most_bytes = thread_bytes;
	return true;
}

struct exec_local *exec_local_new(void)
{
	return calloc(1, sizeof(struct exec_local));
}

void exec_local_free(struct exec_local *local)
{
	free(local);
}

/* mutex held. */
static struct exec_local *find(const void *exec)
{
	struct exec_local key = { .exec = exec };

	return RB_FIND(exec_local_tree, &state.s.tree, &key);
}

/* mutex held. */
static void end(struct exec_local *local)
{
	if (!local)
		return;
	RB_REMOVE(exec_local_tree, &state.s.tree, local);
	free(local);
}

/* mutex held. */
static void insert(const void *exec, struct exec_local *local, const struct exec_local_need *need)
{
	*local = (struct exec_local){ .exec = exec, .need = *need };
	local->need.change = ++state.s.changes;
	RB_INSERT(exec_local_tree, &state.s.tree, local);
}

void exec_local_enter(const void *exec, struct exec_local *local,
		      const struct exec_local_need *need)
{
	pthread_mutex_lock(&state.s.mutex);
	end(find(exec));
	insert(exec, local, need);
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held: nothing of it is changed when it fails. */
static int raise_need(struct exec_local *local, const struct exec_local_need *more)
{
	struct exec_local_need need = local->need;

	for (unsigned i = 0; i < more->count; i++)
		if (!exec_local_add(&need, more->at[i].ctx, more->at[i].thread_bytes))
			return -ENOSPC;
	need.change = ++state.s.changes;
	local->need = need;
	return 0;
}

int exec_local_raise(const void *exec, const struct exec_local_need *more)
{
	struct exec_local *local;
	int rc = 0;

	pthread_mutex_lock(&state.s.mutex);
	local = find(exec);
	if (local) {
		rc = raise_need(local, more);
	} else if (more->most_bytes) {
		local = exec_local_new();
		if (local)
			insert(exec, local, more);
		else
			rc = -ENOMEM;
	}
	if (local)
		local->need.is_less = true;
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}

void exec_local_changed(const void *exec, uint32_t thread_bytes)
{
	struct exec_local *local;

	pthread_mutex_lock(&state.s.mutex);
	local = find(exec);
	if (local) {
		local->need.is_less &= thread_bytes < local->need.most_bytes;
		local->need.change = ++state.s.changes;
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void exec_local_set(const void *exec, const struct exec_local_need *need)
{
	struct exec_local *local;

	pthread_mutex_lock(&state.s.mutex);
	local = find(exec);
	if (local && need->most_bytes) {
		local->need = *need;
		local->need.change = ++state.s.changes;
	} else {
		end(local);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

bool exec_local_find(const void *exec, struct exec_local_need *out_need)
{
	const struct exec_local *local;

	pthread_mutex_lock(&state.s.mutex);
	local = find(exec);
	if (local)
		*out_need = local->need;
	pthread_mutex_unlock(&state.s.mutex);
	return local;
}

void exec_local_launched(const void *exec, const struct exec_local_run *run)
{
	struct exec_local *local;

	pthread_mutex_lock(&state.s.mutex);
	local = find(exec);
	if (local) {
		local->run = *run;
		local->has_run = true;
	}
	pthread_mutex_unlock(&state.s.mutex);
}

bool exec_local_has_run(const void *exec, const struct exec_local_run *run)
{
	const struct exec_local *local;
	bool has_run;

	pthread_mutex_lock(&state.s.mutex);
	local = find(exec);
	has_run = local && local->has_run && local->run.current == run->current &&
		  local->run.stream_ctx == run->stream_ctx && local->run.epoch == run->epoch &&
		  local->run.change == local->need.change;
	pthread_mutex_unlock(&state.s.mutex);
	return has_run;
}

void exec_local_end(const void *exec)
{
	pthread_mutex_lock(&state.s.mutex);
	end(find(exec));
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held. */
static void forget(struct exec_local_need *need, const void *ctx, uint64_t mark)
{
	for (unsigned i = 0; i < need->count; i++) {
		if (need->at[i].ctx != ctx || need->at[i].mark > mark)
			continue;
		need->at[i] = need->at[--need->count];
		return;
	}
}

void exec_local_end_context(const void *ctx, uint64_t mark)
{
	struct exec_local *local;

	pthread_mutex_lock(&state.s.mutex);
	RB_FOREACH(local, exec_local_tree, &state.s.tree)
		forget(&local->need, ctx, mark);
	pthread_mutex_unlock(&state.s.mutex);
}
