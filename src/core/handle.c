#include "core/handle.h"

#include "base/process.h"
#include "base/tree.h"

#include <pthread.h>
#include <stdlib.h>

/* Physical memory: alive while a reference or a mapping is left. */
struct memory {
	struct dev dev;
	uint64_t bytes;
	uint64_t refs; /* of the handle */
	uint64_t maps;
};

struct handle_node {
	RB_ENTRY(handle_node) entry;
	uint64_t key; /* the handle, or the mapping's address */
	uint64_t bytes; /* of a mapping */
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

/* mutex held: what is freed when nothing refers to the memory any more. */
static struct handle_freed settle(struct memory *memory)
{
	struct handle_freed freed = { memory->dev, 0 };

	if (memory->refs == 0 && memory->maps == 0) {
		freed.bytes = memory->bytes;
		free(memory);
	}
	return freed;
}

void handle_enter(struct handle_node *node, uint64_t handle, struct dev dev, uint64_t bytes,
		  struct handle_freed *out_stale)
{
	struct handle_node *old;

	node->key = handle;
	*node->memory = (struct memory){ .dev = dev, .bytes = bytes, .refs = 1 };
	*out_stale = (struct handle_freed){ dev, 0 };
	pthread_mutex_lock(&state.s.mutex);
	old = RB_INSERT(key_tree, &state.s.handles, node);
	if (old) {
		RB_REMOVE(key_tree, &state.s.handles, old);
		RB_INSERT(key_tree, &state.s.handles, node);
		old->memory->refs = 0;
		*out_stale = settle(old->memory);
		free(old);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_retain(uint64_t handle)
{
	struct handle_node *node;

	pthread_mutex_lock(&state.s.mutex);
	node = find(&state.s.handles, handle);
	if (node)
		node->memory->refs++;
	pthread_mutex_unlock(&state.s.mutex);
}

bool handle_release(uint64_t handle, struct handle_node **out_node)
{
	struct handle_node *node;

	*out_node = NULL;
	pthread_mutex_lock(&state.s.mutex);
	node = find(&state.s.handles, handle);
	if (node && node->memory->refs == 1) {
		RB_REMOVE(key_tree, &state.s.handles, node);
		*out_node = node;
	} else if (node) {
		node->memory->refs--;
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
	node->memory->refs = 0;
	freed = settle(node->memory);
	free(node);
	pthread_mutex_unlock(&state.s.mutex);
	return freed;
}

void handle_release_failed(uint64_t handle, struct handle_node *node)
{
	if (!node) {
		handle_retain(handle);
		return;
	}
	pthread_mutex_lock(&state.s.mutex);
	RB_INSERT(key_tree, &state.s.handles, node);
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_map(struct handle_node *node, uint64_t addr, uint64_t bytes, uint64_t handle)
{
	struct handle_node *of;

	node->key = addr;
	node->bytes = bytes;
	pthread_mutex_lock(&state.s.mutex);
	of = find(&state.s.handles, handle);
	if (of && !RB_INSERT(key_tree, &state.s.mappings, node)) {
		free(node->memory); /* the spare: a mapping has its handle's */
		node->memory = of->memory;
		node->memory->maps++;
		node = NULL;
	}
	pthread_mutex_unlock(&state.s.mutex);
	handle_discard(node);
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
		list->memory->maps--;
		freed = settle(list->memory);
		freed_bytes[freed.dev.v] += freed.bytes;
		free(list);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_unmap_failed(struct handle_node *list)
{
	struct handle_node *next;

	pthread_mutex_lock(&state.s.mutex);
	for (; list; list = next) {
		next = list->next;
		list->next = NULL;
		if (RB_INSERT(key_tree, &state.s.mappings, list)) {
			list->memory->maps--;
			settle(list->memory);
			free(list);
		}
	}
	pthread_mutex_unlock(&state.s.mutex);
}
