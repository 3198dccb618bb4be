#include "core/exec_uses.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/tree.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Of all lists together, some 64 MiB of host memory. */
enum { USES_MOST = 1 << 21, NODES_MOST = 1 << 19 };
/*
 * A list is noted so seldom, and so much more seldom for each use: each takes some hundred
 * nanoseconds, and no more than a sixtieth of the time is to go to it. That is short beside the
 * rounds in which uses are counted.
 */
#define APART_NS (20 * NSEC_PER_MSEC)
#define APART_BY_USE_NS INT64_C(6000)
#define NOW INT64_MAX

struct node {
	const void *name;
	struct exec_use *uses;
	unsigned count, room;
	unsigned depth;
};

/* An executable graph's; the order is that in which its nodes were added. */
struct exec_uses {
	RB_ENTRY(exec_uses) entry; /* state.mutex */
	const void *exec;          /* state.mutex */
	unsigned users;            /* state.mutex: the maker or the tree, and threads */
	_Atomic uint32_t launches; /* not noted yet; atomic */
	_Atomic int64_t due_ns;    /* when a launch is to note them, NOW: one does; atomic */
	/* The maker's until it is entered. */
	pthread_mutex_t mutex; /* orders the rest; taken with no other */
	struct node *nodes;
	unsigned count, room;
	unsigned next; /* where the next change is looked for: programs go through their nodes */
};

RB_HEAD(exec_uses_tree, exec_uses);

struct exec_uses_state {
	pthread_mutex_t mutex; /* zero is an unlocked one */
	struct exec_uses_tree lists;
	_Atomic int uses, nodes; /* there is room for, of all lists; atomic */
	_Atomic bool is_any;     /* atomic, written under the mutex */
};
PROCESS_STATE(exec_uses_state, state);

static int exec_uses_compare(const struct exec_uses *a, const struct exec_uses *b)
{
	return (uintptr_t)a->exec < (uintptr_t)b->exec ? -1 :
							 (uintptr_t)a->exec > (uintptr_t)b->exec;
}

RB_GENERATE_STATIC(exec_uses_tree, exec_uses, entry, exec_uses_compare)

void exec_uses_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

/*
 * Twice the room, of what there is for all lists; NULL: there is none, and all is as it was.
 */
static void *grow(void *items, size_t item_bytes, unsigned *room, _Atomic int *all, int most)
{
	unsigned more = *room ? *room : 4;
	void *grown = NULL;

	if (atomic_fetch_add(all, (int)more) <= most - (int)more)
		grown = realloc(items, (*room + more) * item_bytes);
	if (grown)
		*room += more;
	else
		atomic_fetch_sub(all, (int)more);
	return grown;
}

static void clear(struct node *node)
{
	free(node->uses);
	atomic_fetch_sub(&state.s.uses, (int)node->room);
	node->uses = NULL;
	node->count = node->room = 0;
}

/* Nobody has it. */
static void destroy(struct exec_uses *list)
{
	for (unsigned i = 0; i < list->count; i++)
		clear(&list->nodes[i]);
	free(list->nodes);
	atomic_fetch_sub(&state.s.nodes, (int)list->room);
	pthread_mutex_destroy(&list->mutex);
	free(list);
}

struct exec_uses *exec_uses_new(void)
{
	struct exec_uses *list = calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	pthread_mutex_init(&list->mutex, NULL);
	list->users = 1;
	return list;
}

void exec_uses_free(struct exec_uses *list)
{
	bool is_last;

	if (!list)
		return;
	pthread_mutex_lock(&state.s.mutex);
	is_last = --list->users == 0;
	pthread_mutex_unlock(&state.s.mutex);
	if (is_last)
		destroy(list);
}

void exec_uses_add_node(struct exec_uses *list, const void *node, unsigned depth)
{
	struct node *grown;

	if (!list)
		return;
	if (list->count == list->room) {
		grown = grow(list->nodes, sizeof(*list->nodes), &list->room, &state.s.nodes,
			     NODES_MOST);
		if (!grown)
			return;
		list->nodes = grown;
	}
	list->nodes[list->count++] = (struct node){ .name = node, .depth = depth };
}

static void add(struct node *node, const struct exec_use *use)
{
	struct exec_use *grown;

	if (node->count == node->room) {
		grown = grow(node->uses, sizeof(*node->uses), &node->room, &state.s.uses,
			     USES_MOST);
		if (!grown)
			return;
		node->uses = grown;
	}
	node->uses[node->count++] = *use;
}

void exec_uses_add(struct exec_uses *list, const struct exec_use *use)
{
	if (list && list->count)
		add(&list->nodes[list->count - 1], use);
}

/* state.mutex held. */
static struct exec_uses *find(const void *exec)
{
	struct exec_uses want = { .exec = exec };

	return RB_FIND(exec_uses_tree, &state.s.lists, &want);
}

/* state.mutex held: its user is the caller. NULL: there is none. */
static struct exec_uses *leave(const void *exec)
{
	struct exec_uses *list = find(exec);

	if (list)
		RB_REMOVE(exec_uses_tree, &state.s.lists, list);
	if (RB_EMPTY(&state.s.lists))
		atomic_store(&state.s.is_any, false);
	return list;
}

void exec_uses_enter(const void *exec, struct exec_uses *list)
{
	struct exec_uses *old;

	pthread_mutex_lock(&state.s.mutex);
	old = leave(exec); /* destroyed unseen */
	if (list) {
		list->exec = exec;
		RB_INSERT(exec_uses_tree, &state.s.lists, list);
		atomic_store(&state.s.is_any, true);
	}
	pthread_mutex_unlock(&state.s.mutex);
	exec_uses_free(old);
}

static bool is_any(void)
{
	return atomic_load_explicit(&state.s.is_any, memory_order_relaxed);
}

struct exec_uses *exec_uses_take(const void *exec)
{
	struct exec_uses *list;

	if (!is_any())
		return NULL;
	pthread_mutex_lock(&state.s.mutex);
	list = leave(exec);
	pthread_mutex_unlock(&state.s.mutex);
	return list;
}

/* The graph's list, which is the caller's too until it is freed; NULL: there is none. */
static struct exec_uses *get(const void *exec)
{
	struct exec_uses *list;

	if (!is_any())
		return NULL;
	pthread_mutex_lock(&state.s.mutex);
	list = find(exec);
	if (list)
		list->users++;
	pthread_mutex_unlock(&state.s.mutex);
	return list;
}

/* What `to` used is what `from` uses, and the other way round. */
static void exchange(struct node *to, struct node *from)
{
	const struct node was = *to;

	to->uses = from->uses;
	to->count = from->count;
	to->room = from->room;
	from->uses = was.uses;
	from->count = was.count;
	from->room = was.room;
}

/* The first node uses what all nodes of the list use, the others nothing. */
static void gather(struct node *nodes, unsigned count, const struct exec_uses *list)
{
	for (unsigned i = 0; i < count; i++)
		clear(&nodes[i]);
	for (unsigned i = 0; list && i < list->count; i++)
		for (unsigned u = 0; u < list->nodes[i].count; u++)
			add(&nodes[0], &list->nodes[i].uses[u]);
}

static void set_nodes(struct node *nodes, unsigned count, struct exec_uses *list)
{
	if (!list || list->count != count) {
		gather(nodes, count, list);
		return;
	}
	for (unsigned i = 0; i < count; i++)
		exchange(&nodes[i], &list->nodes[i]);
}

/* mutex held: the node's place, or the count. */
static unsigned place_of(struct exec_uses *list, const void *node)
{
	unsigned i;

	if (list->next < list->count && list->nodes[list->next].name == node)
		return list->next;
	for (i = 0; i < list->count; i++)
		if (list->nodes[i].name == node)
			break;
	return i;
}

/* mutex held: of the node and those of its child graph. */
static unsigned end_of(const struct exec_uses *list, unsigned first)
{
	unsigned end = first + 1;

	while (end < list->count && list->nodes[end].depth > list->nodes[first].depth)
		end++;
	return end;
}

void exec_uses_set_node(const void *exec, const void *node, struct exec_uses *list)
{
	struct exec_uses *own = get(exec);
	unsigned first, end;

	if (own) {
		pthread_mutex_lock(&own->mutex);
		first = place_of(own, node);
		if (first < own->count) {
			end = end_of(own, first);
			set_nodes(&own->nodes[first], end - first, list);
			own->next = end;
		}
		pthread_mutex_unlock(&own->mutex);
	}
	exec_uses_free(own);
	exec_uses_free(list);
}

void exec_uses_set(const void *exec, struct exec_uses *list)
{
	struct exec_uses *own = get(exec);

	if (!own) {
		exec_uses_enter(exec, list);
		return;
	}
	pthread_mutex_lock(&own->mutex);
	if (own->count)
		set_nodes(own->nodes, own->count, list);
	pthread_mutex_unlock(&own->mutex);
	exec_uses_free(own);
	exec_uses_free(list);
}

/* mutex held, and it is due. */
static void note_all(struct exec_uses *list, exec_uses_fn *note, int64_t now_ns)
{
	uint32_t launches = atomic_exchange(&list->launches, 0);
	int64_t apart_ns = 0;

	for (unsigned i = 0; i < list->count; i++) {
		const struct node *node = &list->nodes[i];

		for (unsigned u = 0; u < node->count; u++)
			note(&node->uses[u], launches);
		apart_ns += node->count * APART_BY_USE_NS;
	}
	atomic_store(&list->due_ns, now_ns + (apart_ns > APART_NS ? apart_ns : APART_NS));
}

void exec_uses_launched(const void *exec, int64_t now_ns, exec_uses_fn *note)
{
	struct exec_uses *list = get(exec);
	int64_t due_ns;

	if (!list)
		return;
	atomic_fetch_add(&list->launches, 1);
	due_ns = atomic_load(&list->due_ns);
	if (now_ns >= due_ns && atomic_compare_exchange_strong(&list->due_ns, &due_ns, NOW)) {
		pthread_mutex_lock(&list->mutex);
		note_all(list, note, now_ns);
		pthread_mutex_unlock(&list->mutex);
	}
	exec_uses_free(list);
}
