#include "core/local.h"

#include "base/bytes.h"
#include "base/process.h"
#include "core/charge.h"
#include "core/exec_local.h"
#include "core/function.h"
#include "core/leaving.h"
#include "core/library.h"
#include "core/promise.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* All of it: the state's mutex, while it is in the list. */
struct local_area {
	struct local_area *next;
	const void *ctx;
	struct dev dev;
	uint64_t threads;
	uint32_t has_bytes;     /* for each thread, that the driver has */
	uint32_t reserve_bytes; /* for each thread, that is reserved or there */
	unsigned growing;       /* calls under way that may let it grow */
	unsigned calls;         /* enum image_calls, that the driver has room for */
};

struct local_state {
	/* Zero is an unlocked mutex. Taken before core/charge.h's, function.h's and library.h's. */
	pthread_mutex_t mutex;
	struct local_area *first; /* mutex */
	_Atomic uint64_t epoch;   /* written under mutex */
};
PROCESS_STATE(local_state, state);

void local_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

uint64_t local_epoch(void)
{
	return atomic_load_explicit(&state.s.epoch, memory_order_acquire);
}

/* mutex held. What is acquired in local_epoch(). */
static void turn_epoch(void)
{
	atomic_fetch_add_explicit(&state.s.epoch, 1, memory_order_release);
}

/* What an area takes beyond what a new context has. */
static uint64_t cost(const struct local_area *area, uint32_t thread_bytes)
{
	uint64_t more = bytes_beyond(thread_bytes, LOCAL_STACK_BYTES);

	return bytes_round_up(bytes_product(more, area->threads), TRACK_BLOCK_BYTES);
}

/* mutex held: the link to the context's area; to NULL when there is none. */
static struct local_area **find(const void *ctx)
{
	struct local_area **link = &state.s.first;

	while (*link && (*link)->ctx != ctx)
		link = &(*link)->next;
	return link;
}

/* mutex held: what every context's threads have. */
static uint32_t least(void)
{
	uint32_t bytes = state.s.first ? UINT32_MAX : LOCAL_STACK_BYTES;

	for (struct local_area *a = state.s.first; a; a = a->next)
		bytes = a->has_bytes < bytes ? a->has_bytes : bytes;
	return bytes;
}

/* mutex held: functions settle, or do not any more. */
static void tell_functions(const struct local_area *area)
{
	function_room(area->ctx, area->has_bytes, least());
}

/* mutex held: the context's area; NULL without memory. */
static struct local_area *open_area(const void *ctx, struct dev dev)
{
	struct local_area **link = find(ctx), *area = *link;

	if (area)
		return area;
	area = calloc(1, sizeof(*area));
	if (!area)
		return NULL;
	*area = (struct local_area){ .next = state.s.first,
				     .ctx = ctx,
				     .dev = dev,
				     .has_bytes = LOCAL_STACK_BYTES,
				     .reserve_bytes = LOCAL_STACK_BYTES };
	state.s.first = area;
	turn_epoch();
	tell_functions(area);
	function_context_came();
	return area;
}

void local_open(const void *ctx, struct dev dev)
{
	struct local_area *stale;

	/* One of that handle ended unseen. */
	library_end_context(ctx, UINT64_MAX);
	pthread_mutex_lock(&state.s.mutex);
	stale = *find(ctx);
	if (stale)
		*find(ctx) = stale->next;
	free(stale);
	open_area(ctx, dev);
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held, so nobody is waited for. */
static int reserve(struct local_growth *g, struct local_area *area)
{
	uint32_t want = g->use.thread_bytes;
	uint64_t more;
	int rc = 0;

	area->threads = g->use.threads;
	g->bytes = cost(area, want) - cost(area, area->has_bytes);
	more = bytes_beyond(cost(area, want), cost(area, area->reserve_bytes));
	g->before_bytes = quota_overhead(g->use.dev);
	if (more)
		rc = charge_take_context(g->use.dev, more);
	else
		charge_begin();
	if (rc < 0)
		return rc;
	if (want > area->reserve_bytes)
		area->reserve_bytes = want;
	area->growing++;
	g->is_growing = true;
	return 0;
}

/* mutex held: the library's code is in every context, and there is one. */
static bool is_everywhere(const void *library)
{
	for (const struct local_area *a = state.s.first; a; a = a->next)
		if (!library_is_in(library, a->ctx, LIBRARY_CODE))
			return false;
	return state.s.first;
}

/* mutex held. */
static void tell_kernel(const void *kernel, const void *ctx, uint32_t thread_bytes)
{
	const void *library = function_owner(kernel);
	const struct local_area *area = *find(ctx);
	bool has_room = thread_bytes <= least() && (!library || is_everywhere(library));

	function_tell(kernel, NULL, thread_bytes, has_room);
	if (!has_room && area && thread_bytes <= area->has_bytes &&
	    library_is_in(library, ctx, LIBRARY_CODE))
		function_place(kernel, ctx);
}

/* mutex held. */
static void tell(const void *handle, const void *ctx, uint32_t thread_bytes)
{
	enum function_kind kind = function_kind(handle);
	const struct local_area *area = ctx ? *find(ctx) : NULL;
	uint32_t room = area ? area->has_bytes : LOCAL_STACK_BYTES;

	if (kind == FUNCTION_KERNEL) {
		tell_kernel(handle, ctx, thread_bytes);
		return;
	}
	if (!ctx || kind != FUNCTION_OF_CONTEXT)
		room = least();
	function_tell(handle, ctx, thread_bytes, thread_bytes <= room);
}

void local_tell(const void *handle, const void *ctx, uint32_t thread_bytes)
{
	pthread_mutex_lock(&state.s.mutex);
	tell(handle, ctx, thread_bytes);
	pthread_mutex_unlock(&state.s.mutex);
}

static int try_reserve(struct local_growth *growth, const struct local_use *use, const void *handle)
{
	struct local_area *area;
	int rc = 0;

	*growth = (struct local_growth){ .use = *use };
	pthread_mutex_lock(&state.s.mutex);
	area = open_area(use->ctx, use->dev);
	if (handle)
		tell(handle, use->ctx, use->thread_bytes);
	if (area && use->thread_bytes > area->has_bytes)
		rc = reserve(growth, area);
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}

int local_reserve(struct local_growth *growth, const struct local_use *use, const void *handle)
{
	int rc = try_reserve(growth, use, handle);

	if (rc != -EDQUOT)
		return rc;
	return LEAVING_TRY(use->dev, bytes_sum(growth->bytes, quota_kept(use->dev)),
			   try_reserve(growth, use, handle));
}

/*
 * mutex held: a call is over. Nothing is reserved beyond what there is once no other is under way;
 * what that was.
 */
static uint64_t over(struct local_area *area)
{
	uint64_t bytes;

	if (--area->growing > 0)
		return 0;
	bytes = cost(area, area->reserve_bytes) - cost(area, area->has_bytes);
	area->reserve_bytes = area->has_bytes;
	return bytes;
}

/* The call has let the area grow, or not. What is to be given back if the card cannot be asked. */
static uint64_t settle(const struct local_growth *g, bool has_grown)
{
	struct local_area *area;
	uint64_t bytes = 0;

	pthread_mutex_lock(&state.s.mutex);
	area = *find(g->use.ctx);
	/* Ended, or another's by now: its end has seen to it. */
	if (area && area->growing) {
		if (has_grown && g->use.thread_bytes > area->has_bytes) {
			area->has_bytes = g->use.thread_bytes;
			tell_functions(area);
		}
		bytes = over(area);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}

void local_finish(struct local_growth *growth, enum local_end end)
{
	struct dev dev = growth->use.dev;
	bool has_grown = end == LOCAL_GREW;
	uint64_t bytes, enough;
	int rc;

	if (!growth->is_growing)
		return;
	if (end == LOCAL_FAILED || end == LOCAL_GREW) {
		/* Before it is over: no look at the card has taken it off yet. */
		quota_release(dev, QUOTA_CONTEXT, settle(growth, has_grown));
		if (has_grown)
			promise_may_lack(dev, growth->bytes);
		charge_over();
		charge_reconcile(dev, QUOTA_CONTEXT);
		return;
	}
	promise_may_lack(dev, growth->bytes);
	charge_over();
	rc = charge_reconcile(dev, QUOTA_CONTEXT);
	/* Other things may have come or gone: most of it counts as all. */
	enough = end == LOCAL_WHOLLY ? growth->bytes : growth->bytes / 2 + 1;
	has_grown = rc == -ENOTSUP ||
		    (rc == 0 && quota_overhead(dev) >= bytes_sum(growth->before_bytes, enough));
	bytes = settle(growth, has_grown);
	if (rc == -ENOTSUP)
		quota_release(dev, QUOTA_CONTEXT, bytes);
}

/* The device's overhead with all that is to grow there. */
static uint64_t with_all(const struct local_growth *growths, unsigned count, struct dev dev)
{
	uint64_t before = UINT64_MAX, more = 0;

	for (unsigned i = 0; i < count; i++) {
		if (!growths[i].is_growing || growths[i].use.dev.v != dev.v)
			continue;
		if (growths[i].before_bytes < before)
			before = growths[i].before_bytes;
		more = bytes_sum(more, growths[i].bytes);
	}
	return bytes_sum(before, more);
}

/* Which of them has grown cannot be told: all have, or none counts as having more than before. */
static void finish_together(struct local_growth *growths, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (growths[i].is_growing)
			promise_may_lack(growths[i].use.dev, growths[i].bytes);
	for (unsigned i = 0; i < count; i++)
		if (growths[i].is_growing)
			charge_over();
	for (unsigned i = 0; i < count; i++) {
		struct local_growth *g = &growths[i];
		bool has_grown;
		uint64_t bytes;
		int rc;

		if (!g->is_growing)
			continue;
		rc = charge_reconcile(g->use.dev, QUOTA_CONTEXT);
		has_grown = rc == -ENOTSUP ||
			    (rc == 0 &&
			     quota_overhead(g->use.dev) >= with_all(growths, count, g->use.dev));
		bytes = settle(g, has_grown);
		if (rc == -ENOTSUP)
			quota_release(g->use.dev, QUOTA_CONTEXT, bytes);
	}
}

void local_finish_all(struct local_growth *growths, unsigned count, enum local_end end)
{
	unsigned growing = 0;

	for (unsigned i = 0; i < count; i++)
		growing += growths[i].is_growing;
	if (growing > 1 && end != LOCAL_FAILED) {
		finish_together(growths, count);
		return;
	}
	for (unsigned i = 0; i < count; i++)
		local_finish(&growths[i], end);
}

struct local_calls local_calls(const void *ctx)
{
	struct local_calls has = { .thread_bytes = LOCAL_STACK_BYTES };
	const struct local_area *area;

	pthread_mutex_lock(&state.s.mutex);
	area = *find(ctx);
	if (area)
		has = (struct local_calls){ area->calls, area->has_bytes };
	pthread_mutex_unlock(&state.s.mutex);
	return has;
}

void local_called(const void *ctx, struct dev dev, unsigned calls)
{
	struct local_area *area;

	pthread_mutex_lock(&state.s.mutex);
	area = open_area(ctx, dev);
	if (area)
		area->calls |= calls;
	pthread_mutex_unlock(&state.s.mutex);
}

void local_shrink(const struct local_use *use)
{
	struct local_area *area;

	pthread_mutex_lock(&state.s.mutex);
	area = *find(use->ctx);
	if (area && !area->growing && area->has_bytes > use->thread_bytes) {
		area->has_bytes = use->thread_bytes > LOCAL_STACK_BYTES ? use->thread_bytes :
									  LOCAL_STACK_BYTES;
		area->reserve_bytes = area->has_bytes;
		turn_epoch();
		tell_functions(area);
	}
	if (area)
		area->calls = 0;
	pthread_mutex_unlock(&state.s.mutex);
}

struct local_area *local_take(const void *ctx)
{
	struct local_area **link, *area;

	pthread_mutex_lock(&state.s.mutex);
	link = find(ctx);
	area = *link;
	if (area) {
		*link = area->next;
		turn_epoch();
	}
	pthread_mutex_unlock(&state.s.mutex);
	return area;
}

uint64_t local_end(struct local_area *area, uint64_t mark)
{
	uint64_t bytes;

	if (!area)
		return 0;
	function_end_context(area->ctx, mark);
	exec_local_end_context(area->ctx, mark);
	bytes = cost(area, area->reserve_bytes);
	pthread_mutex_lock(&state.s.mutex);
	function_room(area->ctx, 0, least());
	pthread_mutex_unlock(&state.s.mutex);
	free(area);
	return bytes;
}

void local_put_back(struct local_area *area)
{
	if (!area)
		return;
	pthread_mutex_lock(&state.s.mutex);
	if (*find(area->ctx)) {
		free(area);
	} else {
		/* What was under way has not found it; the next look at the card settles that. */
		area->growing = 0;
		area->reserve_bytes = area->has_bytes;
		area->next = state.s.first;
		state.s.first = area;
		turn_epoch();
	}
	pthread_mutex_unlock(&state.s.mutex);
}
