#include "core/promise.h"

#include "base/bytes.h"
#include "base/process.h"
#include "core/track.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* For whom it is awaited. */
struct owner {
	struct owner *next;
	const void *owner, *ctx;
};

struct place {
	struct place *next;
	const void *ctx;
	struct dev dev;
	uint64_t bytes; /* awaited; 0: it is there */
	uint64_t number;
	bool is_away; /* renamed: the context is about to end */
};

struct promise_state {
	/* Orders the rest; zero is an unlocked mutex. Innermost. */
	pthread_mutex_t mutex;
	struct owner *owners;
	struct place *places;
	uint64_t numbers;
	uint64_t lack_bytes[RATION_DEVICES];
};
PROCESS_STATE(promise_state, state);

void promise_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

/* mutex held: the link to the context's; to NULL when there is none. */
static struct place **find(const void *ctx)
{
	struct place **at = &state.s.places;

	while (*at && (*at)->ctx != ctx)
		at = &(*at)->next;
	return at;
}

bool promise_is_wanted(const void *ctx)
{
	bool is_wanted;

	pthread_mutex_lock(&state.s.mutex);
	is_wanted = !*find(ctx);
	pthread_mutex_unlock(&state.s.mutex);
	return is_wanted;
}

/* mutex held: takes what it uses of the two. 0 or -ENODATA. */
static int make(struct owner **o, struct place **made)
{
	struct place *p = *find((*made)->ctx);

	if (!p && !(*made)->bytes)
		return -ENODATA;
	if (!p) {
		p = *made;
		p->number = ++state.s.numbers;
		p->next = state.s.places;
		state.s.places = p;
		*made = NULL;
	}
	if (p->bytes) {
		(*o)->next = state.s.owners;
		state.s.owners = *o;
		*o = NULL;
	}
	return 0;
}

int promise_make(const void *ctx, struct dev dev, const void *owner, uint64_t bytes)
{
	struct owner *o = malloc(sizeof(*o));
	struct place *made = malloc(sizeof(*made));
	int rc = o && made ? 0 : -ENOMEM;

	if (rc == 0) {
		*o = (struct owner){ .owner = owner, .ctx = ctx };
		*made = (struct place){ .ctx = ctx, .dev = dev, .bytes = bytes };
		pthread_mutex_lock(&state.s.mutex);
		rc = make(&o, &made);
		pthread_mutex_unlock(&state.s.mutex);
	}
	free(o);
	free(made);
	return rc;
}

/* mutex held: the owners' entries, or those of the context, whichever is given. */
static void drop_owners(const void *owner, const void *ctx)
{
	struct owner **at = &state.s.owners, *o;

	while ((o = *at)) {
		if (o->owner != owner && o->ctx != ctx) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		free(o);
	}
}

/* mutex held. */
static void come(struct place *p)
{
	p->bytes = 0;
	drop_owners(NULL, p->ctx);
}

void promise_keep(const void *ctx)
{
	struct place *p;

	pthread_mutex_lock(&state.s.mutex);
	p = *find(ctx);
	if (p)
		come(p);
	pthread_mutex_unlock(&state.s.mutex);
}

bool promise_next(struct dev dev, uint64_t after, struct promise *out)
{
	const struct place *next = NULL;

	pthread_mutex_lock(&state.s.mutex);
	for (const struct place *p = state.s.places; p; p = p->next)
		if (p->dev.v == dev.v && p->bytes && !p->is_away && p->number > after &&
		    (!next || p->number < next->number))
			next = p;
	if (next)
		*out = (struct promise){ next->ctx, next->number };
	pthread_mutex_unlock(&state.s.mutex);
	return next;
}

void promise_come(uint64_t number)
{
	struct place *p;

	pthread_mutex_lock(&state.s.mutex);
	for (p = state.s.places; p && p->number != number;)
		p = p->next;
	if (p)
		come(p);
	pthread_mutex_unlock(&state.s.mutex);
}

void promise_change(const void *ctx, uint64_t bytes)
{
	struct place *p;

	pthread_mutex_lock(&state.s.mutex);
	p = *find(ctx);
	if (p && p->bytes && bytes)
		p->bytes = bytes;
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held. */
static bool is_awaited_by_any(const void *ctx)
{
	for (const struct owner *o = state.s.owners; o; o = o->next)
		if (o->ctx == ctx)
			return true;
	return false;
}

/* mutex held. */
static void drop_place(struct place **at)
{
	struct place *p = *at;

	*at = p->next;
	free(p);
}

/* mutex held: what was awaited in the context by its own name meanwhile is the same. */
static void rename_place(const void *was, const void *to)
{
	struct place *p = *find(was), **other = find(to);

	if (!p)
		return;
	p->ctx = to;
	/* There and back. */
	p->is_away = !p->is_away;
	if (!*other)
		return;
	/* Where it was there it is. */
	if (p->bytes)
		p->bytes = (*other)->bytes;
	drop_place(other);
	if (!p->bytes)
		drop_owners(NULL, to);
}

void promise_rename(const void *was, const void *to)
{
	if (!was)
		return;
	pthread_mutex_lock(&state.s.mutex);
	for (struct owner *o = state.s.owners; o; o = o->next) {
		if (o->owner == was)
			o->owner = to;
		if (o->ctx == was)
			o->ctx = to;
	}
	rename_place(was, to);
	pthread_mutex_unlock(&state.s.mutex);
}

void promise_end_owner(const void *owner)
{
	struct place **at = &state.s.places;

	if (!owner)
		return;
	pthread_mutex_lock(&state.s.mutex);
	drop_owners(owner, NULL);
	while (*at) {
		if ((*at)->bytes && !is_awaited_by_any((*at)->ctx))
			drop_place(at);
		else
			at = &(*at)->next;
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void promise_end_context(const void *ctx)
{
	struct place **at;

	if (!ctx)
		return;
	pthread_mutex_lock(&state.s.mutex);
	drop_owners(NULL, ctx);
	at = find(ctx);
	if (*at)
		drop_place(at);
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held: the largest that is no larger than what has come, up to a block; NULL: none. */
static struct place *kept_by(struct dev dev, uint64_t come_bytes)
{
	struct place *most = NULL;

	for (struct place *p = state.s.places; p; p = p->next)
		if (p->dev.v == dev.v && p->bytes && come_bytes &&
		    (!most || p->bytes > most->bytes) &&
		    p->bytes <= bytes_sum(come_bytes, TRACK_BLOCK_BYTES))
			most = p;
	return most;
}

/* mutex held. */
static uint64_t sum(struct dev dev)
{
	uint64_t bytes = 0;

	for (const struct place *p = state.s.places; p; p = p->next)
		bytes += p->dev.v == dev.v ? p->bytes : 0;
	return bytes;
}

uint64_t promise_bytes(struct dev dev)
{
	uint64_t bytes;

	pthread_mutex_lock(&state.s.mutex);
	bytes = sum(dev);
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}

void promise_may_lack(struct dev dev, uint64_t bytes)
{
	pthread_mutex_lock(&state.s.mutex);
	state.s.lack_bytes[dev.v] = bytes_sum(state.s.lack_bytes[dev.v], bytes);
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held: what has come that may be awaited; 0 where it may all be something else. */
static uint64_t more(struct dev dev, uint64_t had_bytes, uint64_t now_bytes)
{
	uint64_t lack_bytes = state.s.lack_bytes[dev.v];
	uint64_t bytes = bytes_beyond(now_bytes, bytes_beyond(had_bytes, lack_bytes));

	state.s.lack_bytes[dev.v] = 0;
	/* What is beyond by a block at most may be code. */
	return lack_bytes && bytes <= bytes_sum(lack_bytes, TRACK_BLOCK_BYTES) ? 0 : bytes;
}

uint64_t promise_look(struct dev dev, uint64_t before_bytes, uint64_t now_bytes)
{
	uint64_t awaited_bytes, come_bytes;
	struct place *p;

	pthread_mutex_lock(&state.s.mutex);
	awaited_bytes = sum(dev);
	come_bytes = more(dev, bytes_beyond(before_bytes, awaited_bytes), now_bytes);
	while (awaited_bytes && (p = kept_by(dev, come_bytes))) {
		awaited_bytes -= p->bytes;
		come_bytes -= bytes_least(come_bytes, p->bytes);
		come(p);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return awaited_bytes;
}
