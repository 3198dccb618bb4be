#include "core/handle.h"

#include "base/process.h"
#include "base/tree.h"

#include <pthread.h>
#include <stdlib.h>

/* Physical memory: alive while a handle or a mapping of it is left. */
struct memory {
	struct dev dev;
	uint64_t bytes;
	uint64_t uses; /* nodes that have it, those taken out included */
};

/* A handle or a mapping. */
struct handle_node {
	RB_ENTRY(handle_node) entry;
	uint64_t key;   /* the handle, or the mapping's address */
	uint64_t bytes; /* of a mapping */
	uint64_t refs;  /* of a handle */
	struct memory *memory;
	struct handle_node *next; /* in a list of taken mappings */
};

RB_HEAD(key_tree, handle_node);

struct handle_state {
	/* Orders all of it; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct key_tree handles;
	struct key_tree mappings;
};
PROCESS_STATE(handle_state, state);

static int key_compare(const struct handle_node *a, const struct handle_node *b)
{
	return a->key < b->key ? -1 : a->key > b->key;
}

RB_GENERATE_STATIC(key_tree, handle_node, entry, key_compare)

void handle_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

struct handle_node *handle_prepare(void)
{
	struct handle_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->memory = calloc(1, sizeof(*node->memory));
	if (!node->memory) {
		free(node);
		return NULL;
	}
	return node;
}

void handle_discard(struct handle_node *node)
{
	if (!node)
		return;
	free(node->memory);
	free(node);
}

static struct handle_node *find(struct key_tree *tree, uint64_t key)
{
	struct handle_node want = { .key = key };

	return RB_FIND(key_tree, tree, &want);
}

/* mutex held: the last mapping at or below `addr`; NULL when there is none. */
static struct handle_node *mapping_below(uint64_t addr)
{
	struct handle_node want = { .key = addr };
	struct handle_node *node = RB_NFIND(key_tree, &state.s.mappings, &want);

	if (node && node->key == addr)
		return node;
	return node ? RB_PREV(key_tree, &state.s.mappings, node) :
		      RB_MAX(key_tree, &state.s.mappings);
}

/* mutex held: gives the node that memory in the place of its spare. */
static void share(struct handle_node *node, struct memory *memory)
{
	free(node->memory);
	node->memory = memory;
	memory->uses++;
}

/* mutex held: ends a node that is in no tree. What is freed when it was its memory's last. */
static struct handle_freed end(struct handle_node *node)
{
	struct memory *memory = node->memory;
	struct handle_freed freed = { memory->dev, 0 };

	if (--memory->uses == 0) {
		freed.bytes = memory->bytes;
		free(memory);
	}
	free(node);
	return freed;
}

/* mutex held: puts the node into the tree; what stood there under its key is ended. */
static struct handle_freed insert(struct key_tree *tree, struct handle_node *node)
{
	struct handle_node *old = RB_INSERT(key_tree, tree, node);

	if (!old)
		return (struct handle_freed){ node->memory->dev, 0 };
	RB_REMOVE(key_tree, tree, old);
	RB_INSERT(key_tree, tree, node);
	return end(old);
}

/* mutex held: puts a node that was taken out back; it is ended where another took its place. */
static struct handle_freed put_back(struct key_tree *tree, struct handle_node *node)
{
	if (RB_INSERT(key_tree, tree, node))
		return end(node);
	return (struct handle_freed){ node->memory->dev, 0 };
}

void handle_enter(struct handle_node *node, uint64_t handle, struct dev dev, uint64_t bytes,
		  struct handle_freed *out_stale)
{
	node->key = handle;
	node->refs = 1;
	*node->memory = (struct memory){ .dev = dev, .bytes = bytes, .uses = 1 };
	pthread_mutex_lock(&state.s.mutex);
	*out_stale = insert(&state.s.handles, node);
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_retain(struct handle_node *node, uint64_t handle, uint64_t addr)
{
	struct handle_node *of, *mapping;

	pthread_mutex_lock(&state.s.mutex);
	of = find(&state.s.handles, handle);
	mapping = mapping_below(addr);
	if (of) {
		of->refs++;
	} else if (mapping && addr - mapping->key < mapping->bytes) {
		node->key = handle;
		node->refs = 1;
		share(node, mapping->memory);
		RB_INSERT(key_tree, &state.s.handles, node);
		node = NULL;
	}
	pthread_mutex_unlock(&state.s.mutex);
	handle_discard(node);
}

bool handle_release(uint64_t handle, struct handle_node **out_node)
{
	struct handle_node *node;

	*out_node = NULL;
	pthread_mutex_lock(&state.s.mutex);
	node = find(&state.s.handles, handle);
	if (node && node->refs == 1) {
		RB_REMOVE(key_tree, &state.s.handles, node);
		*out_node = node;
	} else if (node) {
		node->refs--;
	}
	pthread_mutex_unlock(&state.s.mutex);
	return node != NULL;
}

struct handle_freed handle_released(struct handle_node *node)
{
	struct handle_freed freed = { .bytes = 0 };

	if (!node)
		return freed;
	pthread_mutex_lock(&state.s.mutex);
	freed = end(node);
	pthread_mutex_unlock(&state.s.mutex);
	return freed;
}

struct handle_freed handle_release_failed(uint64_t handle, struct handle_node *node)
{
	struct handle_freed freed = { .bytes = 0 };
	struct handle_node *of;

	pthread_mutex_lock(&state.s.mutex);
	of = node ? NULL : find(&state.s.handles, handle);
	if (of)
		of->refs++;
	else if (node)
		freed = put_back(&state.s.handles, node);
	pthread_mutex_unlock(&state.s.mutex);
	return freed;
}

struct handle_freed handle_map(struct handle_node *node, uint64_t addr, uint64_t bytes,
			       uint64_t handle)
{
	struct handle_freed stale = { .bytes = 0 };
	struct handle_node *of;

	node->key = addr;
	node->bytes = bytes;
	pthread_mutex_lock(&state.s.mutex);
	of = find(&state.s.handles, handle);
	if (of) {
		share(node, of->memory);
		stale = insert(&state.s.mappings, node);
		node = NULL;
	}
	pthread_mutex_unlock(&state.s.mutex);
	handle_discard(node);
	return stale;
}

struct handle_node *handle_unmap(uint64_t addr, uint64_t bytes)
{
	struct handle_node want = { .key = addr }, *node, *next, *list = NULL;

	pthread_mutex_lock(&state.s.mutex);
	for (node = RB_NFIND(key_tree, &state.s.mappings, &want); node; node = next) {
		if (node->key - addr >= bytes || node->bytes > bytes - (node->key - addr))
			break;
		next = RB_NEXT(key_tree, &state.s.mappings, node);
		RB_REMOVE(key_tree, &state.s.mappings, node);
		node->next = list;
		list = node;
	}
	pthread_mutex_unlock(&state.s.mutex);
	return list;
}

void handle_unmapped(struct handle_node *list, uint64_t freed_bytes[RATION_DEVICES])
{
	struct handle_node *next;

	pthread_mutex_lock(&state.s.mutex);
	for (; list; list = next) {
		struct handle_freed freed;

		next = list->next;
		freed = end(list);
		freed_bytes[freed.dev.v] += freed.bytes;
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_unmap_failed(struct handle_node *list, uint64_t freed_bytes[RATION_DEVICES])
{
	struct handle_node *next;

	pthread_mutex_lock(&state.s.mutex);
	for (; list; list = next) {
		struct handle_freed freed;

		next = list->next;
		list->next = NULL;
		freed = put_back(&state.s.mappings, list);
		freed_bytes[freed.dev.v] += freed.bytes;
	}
	pthread_mutex_unlock(&state.s.mutex);
}
