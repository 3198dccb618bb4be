#include "core/lodger.h"

#include "base/bytes.h"
#include "base/process.h"
#include "core/context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* What one counts at most: more than any card has, and sums of it cannot overflow. */
#define MOST_BYTES (UINT64_C(1) << 44)

struct lodger {
	struct lodger *next;
	const void *owner, *ctx;
	struct dev dev;
	uint64_t bytes;
	uint64_t mark; /* context_mark() when it came */
};

struct lodger_state {
	/* Orders the rest; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct lodger *first;
	/* Of those that are there, taken ones too, and what stays; written under mutex, atomic. */
	_Atomic uint64_t may_bytes[RATION_DEVICES], stay_bytes[RATION_DEVICES];
};
PROCESS_STATE(lodger_state, state);

void lodger_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

/* mutex held. */
static struct lodger *find(const void *owner, const void *ctx)
{
	struct lodger *l = state.s.first;

	while (l && (l->owner != owner || l->ctx != ctx))
		l = l->next;
	return l;
}

/* mutex held. */
static void insert(struct lodger *l)
{
	l->next = state.s.first;
	state.s.first = l;
}

void lodger_enter(const void *owner, const void *ctx, struct dev dev, uint64_t bytes)
{
	struct lodger *l, *old;

	bytes = bytes_least(bytes, MOST_BYTES);
	if (!bytes)
		return;
	l = malloc(sizeof(*l));
	pthread_mutex_lock(&state.s.mutex);
	old = find(owner, ctx);
	if (old) {
		/* Of a context that has that handle now, perhaps. */
		old->mark = context_mark();
		free(l);
	} else {
		/* Without memory for it, it is there for good. */
		atomic_fetch_add(&state.s.may_bytes[dev.v], bytes);
		if (l) {
			*l = (struct lodger){
				.owner = owner, .ctx = ctx, .dev = dev, .bytes = bytes
			};
			l->mark = context_mark();
			insert(l);
		}
	}
	pthread_mutex_unlock(&state.s.mutex);
}

bool lodger_any(struct dev dev)
{
	return atomic_load(&state.s.may_bytes[dev.v]) > 0;
}

/* mutex held: those of the owner, or in the context by then, whichever is given, taken out. */
static struct lodger *take(const void *owner, const void *ctx, uint64_t mark)
{
	struct lodger **at = &state.s.first, *l, *taken = NULL;

	while ((l = *at)) {
		if (owner ? l->owner != owner : l->ctx != ctx || l->mark > mark) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		l->next = taken;
		taken = l;
	}
	return taken;
}

/* mutex held. */
static void end(struct lodger *taken, bool is_gone)
{
	struct lodger *l;

	while ((l = taken)) {
		taken = l->next;
		if (!is_gone) {
			insert(l);
			continue;
		}
		atomic_fetch_sub(&state.s.may_bytes[l->dev.v], l->bytes);
		free(l);
	}
}

struct lodger *lodger_take(const void *owner)
{
	struct lodger *taken;

	if (!owner)
		return NULL;
	pthread_mutex_lock(&state.s.mutex);
	taken = take(owner, NULL, 0);
	pthread_mutex_unlock(&state.s.mutex);
	return taken;
}

void lodger_over(struct lodger *taken, bool is_gone)
{
	if (!taken)
		return;
	pthread_mutex_lock(&state.s.mutex);
	end(taken, is_gone);
	pthread_mutex_unlock(&state.s.mutex);
}

void lodger_end_context(const void *ctx, uint64_t mark)
{
	pthread_mutex_lock(&state.s.mutex);
	end(take(NULL, ctx, mark), true);
	pthread_mutex_unlock(&state.s.mutex);
}

uint64_t lodger_stay(struct dev dev, uint64_t bytes)
{
	uint64_t stay_bytes;

	pthread_mutex_lock(&state.s.mutex);
	stay_bytes = atomic_load(&state.s.stay_bytes[dev.v]);
	bytes = bytes_least(bytes,
			    bytes_beyond(atomic_load(&state.s.may_bytes[dev.v]), stay_bytes));
	atomic_store(&state.s.stay_bytes[dev.v], stay_bytes + bytes);
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}

bool lodger_stays(struct dev dev)
{
	return atomic_load(&state.s.stay_bytes[dev.v]) > 0;
}

uint64_t lodger_settle(struct dev dev)
{
	uint64_t bytes;

	if (!lodger_stays(dev))
		return 0;
	pthread_mutex_lock(&state.s.mutex);
	bytes = atomic_exchange(&state.s.stay_bytes[dev.v], 0);
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}
