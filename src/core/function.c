#include "core/function.h"

#include "base/process.h"
#include "core/context.h"
#include "core/gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { FIRST_LOG2 = 8 };

/* `handle` and `is_settled` are atomic and written under the mutex, as all of it. */
struct function {
	_Atomic(const void *) handle; /* NULL: never used */
	_Atomic bool is_settled;
	bool is_told, is_ended;
	enum function_kind kind;
	uint32_t thread_bytes; /* if it is told */
	const void *owner;
	const void *ctx; /* NULL: not known, or any */
	uint64_t mark;   /* context_mark() when that was told */
	/* Of a kernel: a context that has all for it; NULL: none is known. Atomic. */
	_Atomic(const void *) place;
};

/* A chain ends at a slot that was never used. At most half of the slots are. */
struct function_table {
	struct function_table *older; /* somebody may still look into it */
	unsigned log2;
	uint64_t used;
	struct function slot[];
};

struct function_state {
	/* Zero is an unlocked mutex; taken before core/context.h's. */
	pthread_mutex_t mutex;
	_Atomic(struct function_table *) table; /* written under mutex */
	_Atomic uint64_t unsettled;             /* written under mutex */
	_Atomic uint32_t most_bytes;            /* written under mutex */
};
PROCESS_STATE(function_state, state);

void function_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

static inline uint64_t first_of(const struct function_table *t, const void *handle)
{
	return (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> (64 - t->log2);
}

/* The handle's slot, or the free one at the end of its chain. */
static inline struct function *slot_of(struct function_table *t, const void *handle)
{
	uint64_t mask = (UINT64_C(1) << t->log2) - 1;

	for (uint64_t i = first_of(t, handle);; i = (i + 1) & mask) {
		const void *at = atomic_load_explicit(&t->slot[i].handle, memory_order_acquire);

		if (at == handle || !at)
			return &t->slot[i];
	}
}

static inline __attribute__((always_inline)) struct function *find(const void *handle)
{
	struct function_table *t = atomic_load_explicit(&state.s.table, memory_order_acquire);
	struct function *f = t ? slot_of(t, handle) : NULL;

	return f && atomic_load_explicit(&f->handle, memory_order_relaxed) == handle ? f : NULL;
}

bool function_is_settled(const void *handle)
{
	const struct function *f;

	if (!handle)
		return true;
	f = find(handle);
	return f && atomic_load_explicit(&f->is_settled, memory_order_relaxed);
}

bool function_has_place(const void *handle, const void *ctx)
{
	const struct function *f = handle && ctx ? find(handle) : NULL;

	return f && atomic_load_explicit(&f->place, memory_order_relaxed) == ctx;
}

void function_place(const void *handle, const void *ctx)
{
	struct function *f;

	pthread_mutex_lock(&state.s.mutex);
	f = find(handle);
	if (f && !f->is_ended && f->kind == FUNCTION_KERNEL)
		atomic_store_explicit(&f->place, ctx, memory_order_relaxed);
	pthread_mutex_unlock(&state.s.mutex);
}

bool function_any(void)
{
	return atomic_load_explicit(&state.s.unsettled, memory_order_relaxed) != 0;
}

/* mutex held. */
static void set_settled(struct function *f, bool is_settled)
{
	uint64_t n = atomic_load_explicit(&state.s.unsettled, memory_order_relaxed);
	bool was_settled = atomic_load_explicit(&f->is_settled, memory_order_relaxed);

	if (was_settled == is_settled)
		return;
	atomic_store_explicit(&f->is_settled, is_settled, memory_order_relaxed);
	n = is_settled ? n - 1 : n + 1;
	atomic_store_explicit(&state.s.unsettled, n, memory_order_relaxed);
	if (n == 0 || (n == 1 && !is_settled))
		gate_watch(GATE_FUNCTIONS, n != 0);
}

/* mutex held. */
static void copy(struct function_table *to, const struct function_table *from)
{
	for (uint64_t i = 0; i < UINT64_C(1) << from->log2; i++) {
		const struct function *f = &from->slot[i];
		const void *handle = atomic_load_explicit(&f->handle, memory_order_relaxed);
		struct function *at;

		if (!handle || f->is_ended)
			continue;
		at = slot_of(to, handle);
		at->is_told = f->is_told;
		at->kind = f->kind;
		at->thread_bytes = f->thread_bytes;
		at->owner = f->owner;
		at->ctx = f->ctx;
		at->mark = f->mark;
		atomic_store_explicit(&at->place,
				      atomic_load_explicit(&f->place, memory_order_relaxed),
				      memory_order_relaxed);
		atomic_store_explicit(&at->is_settled,
				      atomic_load_explicit(&f->is_settled, memory_order_relaxed),
				      memory_order_relaxed);
		atomic_store_explicit(&at->handle, handle, memory_order_relaxed);
		to->used++;
	}
}

/*
 * mutex held: a table with room for one more, or NULL. What was in the old one and lives is in
 * it.
 */
static struct function_table *with_room(void)
{
	struct function_table *old = atomic_load_explicit(&state.s.table, memory_order_relaxed);
	unsigned log2 = old ? old->log2 : FIRST_LOG2;
	struct function_table *t;

	if (old && old->used < UINT64_C(1) << (log2 - 1))
		return old;
	log2 += old != NULL;
	t = calloc(1, sizeof(*t) + (sizeof(struct function) << log2));
	if (!t)
		return NULL;
	t->log2 = log2;
	t->older = old;
	if (old)
		copy(t, old);
	atomic_store_explicit(&state.s.table, t, memory_order_release);
	return t;
}

/* mutex held: one whose end is known, in the handle's chain: its slot serves anew. */
static struct function *ended_slot(struct function_table *t, const void *handle)
{
	uint64_t mask = (UINT64_C(1) << t->log2) - 1;

	for (uint64_t i = first_of(t, handle);; i = (i + 1) & mask) {
		struct function *f = &t->slot[i];

		if (!atomic_load_explicit(&f->handle, memory_order_relaxed))
			return NULL;
		if (f->is_ended)
			return f;
	}
}

/* mutex held: the handle's entry, made if there is none; NULL without memory. */
static struct function *make(const void *handle)
{
	struct function *f = find(handle);
	struct function_table *t;

	if (f)
		return f;
	t = with_room();
	if (!t)
		return NULL;
	f = ended_slot(t, handle);
	if (!f) {
		f = slot_of(t, handle);
		t->used++;
	}
	f->is_ended = false;
	f->is_told = false;
	f->kind = FUNCTION_OF_CONTEXT;
	f->owner = f->ctx = NULL;
	atomic_store_explicit(&f->place, NULL, memory_order_relaxed);
	atomic_store_explicit(&f->is_settled, true, memory_order_relaxed);
	atomic_store_explicit(&f->handle, handle, memory_order_release);
	return f;
}

void function_enter(const void *handle, enum function_kind kind, const void *owner)
{
	struct function *f;

	if (!handle)
		return;
	pthread_mutex_lock(&state.s.mutex);
	f = make(handle);
	/* Handles are given again and again; what lives keeps what is known of it. */
	if (f && (f->is_ended || f->owner != owner || f->kind != kind || !f->is_told)) {
		f->is_ended = false;
		f->is_told = false;
		f->kind = kind;
		f->owner = owner;
		f->ctx = NULL;
		atomic_store_explicit(&f->place, NULL, memory_order_relaxed);
		set_settled(f, false);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void function_tell(const void *handle, const void *ctx, uint32_t thread_bytes, bool has_room)
{
	struct function *f;

	pthread_mutex_lock(&state.s.mutex);
	f = make(handle);
	if (f) {
		f->is_ended = false;
		f->is_told = true;
		f->thread_bytes = thread_bytes;
		f->ctx = f->kind == FUNCTION_OF_CONTEXT ? ctx : NULL;
		f->mark = f->ctx ? context_mark() : 0;
		if (thread_bytes > atomic_load_explicit(&state.s.most_bytes, memory_order_relaxed))
			atomic_store_explicit(&state.s.most_bytes, thread_bytes,
					      memory_order_relaxed);
		set_settled(f, has_room);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

bool function_thread_bytes(const void *handle, uint32_t *out_thread_bytes)
{
	const struct function *f;
	bool is_told;

	pthread_mutex_lock(&state.s.mutex);
	f = find(handle);
	is_told = f && f->is_told && !f->is_ended;
	if (is_told)
		*out_thread_bytes = f->thread_bytes;
	pthread_mutex_unlock(&state.s.mutex);
	return is_told;
}

enum function_kind function_kind(const void *handle)
{
	enum function_kind kind = FUNCTION_OF_CONTEXT;
	const struct function *f;

	pthread_mutex_lock(&state.s.mutex);
	f = find(handle);
	if (f)
		kind = f->kind;
	pthread_mutex_unlock(&state.s.mutex);
	return kind;
}

const void *function_owner(const void *handle)
{
	const void *owner = NULL;
	const struct function *f;

	pthread_mutex_lock(&state.s.mutex);
	f = find(handle);
	if (f && !f->is_ended)
		owner = f->owner;
	pthread_mutex_unlock(&state.s.mutex);
	return owner;
}

/* mutex held: calls `visit` for each entry that lives. */
static void each(void (*visit)(struct function *f, const void *arg), const void *arg)
{
	struct function_table *t = atomic_load_explicit(&state.s.table, memory_order_relaxed);

	for (uint64_t i = 0; t && i < UINT64_C(1) << t->log2; i++)
		if (atomic_load_explicit(&t->slot[i].handle, memory_order_relaxed) &&
		    !t->slot[i].is_ended)
			visit(&t->slot[i], arg);
}

struct room {
	const void *ctx;
	uint32_t thread_bytes, least_bytes;
};

static bool is_settled(const struct function *f)
{
	return atomic_load_explicit(&f->is_settled, memory_order_relaxed);
}

static bool is_of_library(const struct function *f)
{
	return f->kind == FUNCTION_KERNEL && f->owner;
}

static void settle(struct function *f, const void *arg)
{
	const struct room *room = arg;

	if (!f->is_told)
		return;
	atomic_store_explicit(&f->place, NULL, memory_order_relaxed);
	/* Whether the library is everywhere, its next launch finds out. */
	if (is_of_library(f))
		set_settled(f, is_settled(f) && f->thread_bytes <= room->least_bytes);
	else if (f->kind != FUNCTION_OF_CONTEXT)
		set_settled(f, f->thread_bytes <= room->least_bytes);
	else if (f->ctx == room->ctx)
		set_settled(f, f->thread_bytes <= room->thread_bytes);
}

void function_room(const void *ctx, uint32_t thread_bytes, uint32_t least_bytes)
{
	struct room room = { ctx, thread_bytes, least_bytes };

	pthread_mutex_lock(&state.s.mutex);
	each(settle, &room);
	pthread_mutex_unlock(&state.s.mutex);
}

static void unsettle(struct function *f, const void *arg)
{
	(void)arg;
	if (is_of_library(f))
		set_settled(f, false);
}

void function_context_came(void)
{
	pthread_mutex_lock(&state.s.mutex);
	each(unsettle, NULL);
	pthread_mutex_unlock(&state.s.mutex);
}

static void end_one(struct function *f)
{
	atomic_store_explicit(&f->place, NULL, memory_order_relaxed);
	set_settled(f, true);
	f->is_ended = true;
}

static void end_of_owner(struct function *f, const void *owner)
{
	if (f->owner == owner)
		end_one(f);
}

static void end_of_context(struct function *f, const void *arg)
{
	if (context_is_gone(arg, f->ctx, f->mark))
		end_one(f);
}

uint32_t function_most(void)
{
	return atomic_load_explicit(&state.s.most_bytes, memory_order_relaxed);
}

void function_end(const void *handle)
{
	struct function *f;

	pthread_mutex_lock(&state.s.mutex);
	f = find(handle);
	if (f)
		end_one(f);
	pthread_mutex_unlock(&state.s.mutex);
}

struct renamed {
	const void *was, *to;
};

static void rename_if_of(struct function *f, const void *arg)
{
	const struct renamed *renamed = arg;

	if (f->owner == renamed->was)
		f->owner = renamed->to;
}

void function_rename_owner(const void *was, const void *to)
{
	struct renamed renamed = { was, to };

	pthread_mutex_lock(&state.s.mutex);
	if (was)
		each(rename_if_of, &renamed);
	pthread_mutex_unlock(&state.s.mutex);
}

void function_end_owner(const void *owner)
{
	pthread_mutex_lock(&state.s.mutex);
	if (owner)
		each(end_of_owner, owner);
	pthread_mutex_unlock(&state.s.mutex);
}

void function_end_context(const void *ctx, uint64_t mark)
{
	struct context_gone gone = { ctx, mark };

	pthread_mutex_lock(&state.s.mutex);
	if (ctx)
		each(end_of_context, &gone);
	pthread_mutex_unlock(&state.s.mutex);
}
