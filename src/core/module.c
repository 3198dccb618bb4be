#include "core/module.h"

#include "base/hash.h"
#include "base/process.h"
#include "core/context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The link is first, so that what is found is known by it. */
struct module {
	struct hash_link link; /* by the handle */
	struct module_facts facts;
	uint64_t mark; /* context_mark() when it came */
};

struct module_state {
	/* Orders the rest; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct hash modules;
	_Atomic unsigned count[RATION_DEVICES]; /* on each device; written under mutex, atomic */
};
PROCESS_STATE(module_state, state);

void module_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

/* mutex held. */
static struct module *find(const void *module)
{
	return (struct module *)hash_find(&state.s.modules, (uint64_t)(uintptr_t)module);
}

void module_enter(const void *module, const struct module_facts *facts)
{
	struct module *m;

	pthread_mutex_lock(&state.s.mutex);
	m = find(module);
	if (m) {
		atomic_fetch_sub(&state.s.count[m->facts.dev.v], 1);
	} else {
		m = calloc(1, sizeof(*m));
		if (m) {
			m->link.key = (uint64_t)(uintptr_t)module;
			hash_insert(&state.s.modules, &m->link);
		}
	}
	if (m) {
		m->facts = *facts;
		m->mark = context_mark();
		atomic_fetch_add(&state.s.count[facts->dev.v], 1);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

bool module_find(const void *module, struct module_facts *out_facts)
{
	const struct module *m;

	pthread_mutex_lock(&state.s.mutex);
	m = find(module);
	if (m)
		*out_facts = m->facts;
	pthread_mutex_unlock(&state.s.mutex);
	return m;
}

bool module_any(struct dev dev)
{
	return atomic_load(&state.s.count[dev.v]) > 0;
}

void module_came(const void *module)
{
	struct module *m;

	pthread_mutex_lock(&state.s.mutex);
	m = find(module);
	if (m)
		m->facts.has_code = true;
	pthread_mutex_unlock(&state.s.mutex);
}

void module_refuse(const void *module)
{
	struct module *m;

	pthread_mutex_lock(&state.s.mutex);
	m = find(module);
	if (m)
		m->facts.is_refused = true;
	pthread_mutex_unlock(&state.s.mutex);
}

static void drop(struct hash_link *link)
{
	atomic_fetch_sub(&state.s.count[((struct module *)link)->facts.dev.v], 1);
	hash_remove(&state.s.modules, link);
	free(link);
}

/* mutex held: one more of those that are taken out. */
static void take(struct hash_link *link, struct hash_link **taken)
{
	atomic_fetch_sub(&state.s.count[((struct module *)link)->facts.dev.v], 1);
	hash_take(&state.s.modules, link, taken);
}

struct module *module_take(const void *module)
{
	struct hash_link *taken = NULL;
	struct module *m;

	pthread_mutex_lock(&state.s.mutex);
	m = find(module);
	if (m)
		take(&m->link, &taken);
	pthread_mutex_unlock(&state.s.mutex);
	return (struct module *)taken;
}

struct taking {
	const void *library;
	struct hash_link *taken;
};

static void take_if_of_library(struct hash_link *link, void *arg)
{
	struct taking *taking = arg;

	if (((struct module *)link)->facts.owner == taking->library)
		take(link, &taking->taken);
}

struct module *module_take_library(const void *library)
{
	struct taking taking = { library, NULL };

	pthread_mutex_lock(&state.s.mutex);
	if (library)
		hash_each(&state.s.modules, take_if_of_library, &taking);
	pthread_mutex_unlock(&state.s.mutex);
	return (struct module *)taking.taken;
}

/* mutex held: what was seen of it meanwhile is the same, and less. */
static void put_back(struct hash_link *link)
{
	struct module *m = (struct module *)link;
	struct hash_link *seen = hash_find(&state.s.modules, m->link.key);

	if (seen)
		drop(seen);
	hash_insert(&state.s.modules, &m->link);
	atomic_fetch_add(&state.s.count[m->facts.dev.v], 1);
}

static void drop_taken(struct hash_link *link)
{
	free(link);
}

void module_over(struct module *taken, bool is_gone)
{
	pthread_mutex_lock(&state.s.mutex);
	hash_each_taken(taken ? &taken->link : NULL, is_gone ? drop_taken : put_back);
	pthread_mutex_unlock(&state.s.mutex);
}

static void drop_if_in(struct hash_link *link, void *arg)
{
	const struct module *m = (const struct module *)link;

	if (context_is_gone(arg, m->facts.ctx, m->mark))
		drop(link);
}

void module_end_context(const void *ctx, uint64_t mark)
{
	struct context_gone gone = { ctx, mark };

	pthread_mutex_lock(&state.s.mutex);
	if (ctx)
		hash_each(&state.s.modules, drop_if_in, &gone);
	pthread_mutex_unlock(&state.s.mutex);
}
