#include "core/handle.h"

#include "base/process.h"
#include "base/tree.h"
#include "core/handed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/*
 * Physical memory: alive while a handle or a mapping of it is left. The driver gives a handle's
 * value to no other memory before; so what is mapped by a value that is not entered yet (its
 * creation is under way in another thread, or it is host memory) stands under that value until it
 * is.
 */
struct memory {
	RB_ENTRY(memory) entry;
	uint64_t handle;
	bool is_listed; /* found by its handle's value; false once another memory has it */
	bool is_known;  /* entered, with what follows; else 0 */
	bool is_import;
	bool is_host;     /* counted in `hosts`; 0 bytes */
	bool is_exported; /* others may hold it */
	struct dev dev;
	uint64_t bytes;
	uint64_t uses;        /* nodes that have it, those taken out included */
	uint64_t unseen_uses; /* of these: that no figure shows */
	bool is_unseen;       /* there are no others: counted in `unseen_bytes`, `unseen_imports` */
};

/* A handle or a mapping. */
struct handle_node {
	RB_ENTRY(handle_node) entry;
	uint64_t key;     /* the handle, or the mapping's address */
	uint64_t bytes;   /* of a mapping, or of that by which a use was found */
	uint64_t refs;    /* of a handle, those under release included */
	uint64_t leaving; /* of refs: under release. In the tree while there are others */
	bool is_unseen;   /* as a use of its memory, constant */
	struct memory *memory, *spare;
	struct handle_node *next; /* in a list of taken mappings */
};

RB_HEAD(memory_tree, memory);
RB_HEAD(key_tree, handle_node);

struct handle_state {
	/* Orders all of it; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct key_tree handles;
	struct key_tree mappings;
	struct memory_tree memories;
	_Atomic unsigned imports[RATION_DEVICES]; /* written under mutex */
	_Atomic bool has_ended_import[RATION_DEVICES];
	_Atomic unsigned hosts;
	_Atomic uint64_t unseen_bytes[RATION_DEVICES];   /* written under mutex */
	_Atomic unsigned unseen_imports[RATION_DEVICES]; /* likewise */
};
PROCESS_STATE(handle_state, state);

static int key_compare(const struct handle_node *a, const struct handle_node *b)
{
	return a->key < b->key ? -1 : a->key > b->key;
}

static int memory_compare(const struct memory *a, const struct memory *b)
{
	return a->handle < b->handle ? -1 : a->handle > b->handle;
}

RB_GENERATE_STATIC(key_tree, handle_node, entry, key_compare)
RB_GENERATE_STATIC(memory_tree, memory, entry, memory_compare)

void handle_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

struct handle_node *handle_prepare(void)
{
	struct handle_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->spare = calloc(1, sizeof(*node->spare));
	if (!node->spare) {
		free(node);
		return NULL;
	}
	return node;
}

void handle_discard(struct handle_node *node)
{
	if (!node)
		return;
	free(node->spare);
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

/* mutex held. */
static struct memory *find_memory(uint64_t handle)
{
	struct memory want = { .handle = handle };

	return RB_FIND(memory_tree, &state.s.memories, &want);
}

/* mutex held: whether the memory, with so many uses, is held by unseen ones alone. */
static void weigh(struct memory *memory, uint64_t uses)
{
	bool is_unseen = uses && uses == memory->unseen_uses;

	if (is_unseen == memory->is_unseen)
		return;
	memory->is_unseen = is_unseen;
	if (is_unseen) {
		atomic_fetch_add(&state.s.unseen_bytes[memory->dev.v], memory->bytes);
		atomic_fetch_add(&state.s.unseen_imports[memory->dev.v], memory->is_import);
	} else {
		atomic_fetch_sub(&state.s.unseen_bytes[memory->dev.v], memory->bytes);
		atomic_fetch_sub(&state.s.unseen_imports[memory->dev.v], memory->is_import);
	}
}

/* mutex held. */
static void share(struct handle_node *node, struct memory *memory)
{
	node->memory = memory;
	memory->uses++;
	memory->unseen_uses += node->is_unseen;
	weigh(memory, memory->uses);
}

/* mutex held: the node's spare becomes its memory, the one that this handle has from now on. */
static void list_spare(struct handle_node *node, uint64_t handle)
{
	struct memory *memory = node->spare, *old;

	node->spare = NULL;
	memory->handle = handle;
	memory->is_listed = true;
	old = RB_INSERT(memory_tree, &state.s.memories, memory);
	if (old) {
		RB_REMOVE(memory_tree, &state.s.memories, old);
		old->is_listed = false;
		RB_INSERT(memory_tree, &state.s.memories, memory);
	}
	share(node, memory);
}

/* mutex held: the node leaves its memory. What is freed when it was the last. */
static struct handle_freed leave(struct handle_node *node)
{
	struct memory *memory = node->memory;
	struct handle_freed freed = { .bytes = 0 };

	node->memory = NULL;
	if (!memory)
		return freed;
	memory->unseen_uses -= node->is_unseen;
	weigh(memory, memory->uses - 1);
	freed.dev = memory->dev;
	if (--memory->uses == 0) {
		freed.bytes = memory->bytes;
		if (memory->is_exported) {
			handed_note(memory->dev, memory->bytes);
			lent_end((uint64_t)(uintptr_t)memory);
		}
		if (memory->is_listed)
			RB_REMOVE(memory_tree, &state.s.memories, memory);
		if (memory->is_import) {
			atomic_store(&state.s.has_ended_import[memory->dev.v], true);
			atomic_fetch_sub(&state.s.imports[memory->dev.v], 1);
		}
		if (memory->is_host)
			handle_unexpect_host();
		free(memory);
	}
	return freed;
}

/* mutex held: the node is of the memory that this handle stands for, new to us perhaps. */
static void join(struct handle_node *node, uint64_t handle)
{
	struct handle_node *of = find(&state.s.handles, handle);
	struct memory *memory = of ? of->memory : find_memory(handle);

	if (memory)
		share(node, memory);
	else
		list_spare(node, handle);
}

/* mutex held: as join(), of a handle just made: memory known under it was another's. */
static void join_new(struct handle_node *node, uint64_t handle)
{
	struct memory *memory = find_memory(handle);

	if (memory && !memory->is_known)
		share(node, memory);
	else
		list_spare(node, handle);
}

/* mutex held: ends a node that is in no tree. */
static struct handle_freed end(struct handle_node *node)
{
	struct handle_freed freed = leave(node);

	handle_discard(node);
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
	/* Those that are releasing it end it. */
	old->refs = old->leaving;
	return old->refs ? (struct handle_freed){ old->memory->dev, 0 } : end(old);
}

/* mutex held: one reference by handle to the node's memory. */
static struct handle_freed add_reference(struct handle_node *node, uint64_t handle)
{
	struct handle_node *of = find(&state.s.handles, handle);

	node->key = handle;
	node->refs = 1;
	if (!of || of->memory != node->memory)
		return insert(&state.s.handles, node);
	of->refs++;
	return end(node);
}

void handle_enter(struct handle_node *node, uint64_t handle, struct dev dev, uint64_t bytes,
		  struct handle_freed *out_stale)
{
	pthread_mutex_lock(&state.s.mutex);
	join_new(node, handle);
	node->memory->is_known = true;
	node->memory->dev = dev;
	node->memory->bytes = bytes;
	*out_stale = add_reference(node, handle);
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_import(struct handle_node *node, uint64_t handle, struct dev dev)
{
	struct memory *memory;

	pthread_mutex_lock(&state.s.mutex);
	join(node, handle);
	memory = node->memory;
	if (!memory->is_known) {
		memory->is_known = true;
		memory->is_import = true;
		memory->dev = dev;
		atomic_fetch_add(&state.s.imports[dev.v], 1);
	}
	add_reference(node, handle);
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_expect_host(void)
{
	atomic_fetch_add(&state.s.hosts, 1);
}

void handle_unexpect_host(void)
{
	atomic_fetch_sub(&state.s.hosts, 1);
}

bool handle_has_host(void)
{
	return atomic_load(&state.s.hosts) > 0;
}

/* mutex held: the node's memory is the host's, and was expected once more. */
static void be_host(struct handle_node *node)
{
	struct memory *memory = node->memory;

	if (memory->is_known) {
		handle_unexpect_host();
		return;
	}
	memory->is_known = true;
	memory->is_host = true;
}

void handle_enter_host(struct handle_node *node, uint64_t handle, struct handle_freed *out_stale)
{
	pthread_mutex_lock(&state.s.mutex);
	join_new(node, handle);
	be_host(node);
	*out_stale = add_reference(node, handle);
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_import_host(struct handle_node *node, uint64_t handle)
{
	pthread_mutex_lock(&state.s.mutex);
	join(node, handle);
	be_host(node);
	add_reference(node, handle);
	pthread_mutex_unlock(&state.s.mutex);
}

bool handle_has_imports(struct dev dev)
{
	return atomic_load(&state.s.imports[dev.v]) > 0;
}

bool handle_has_unseen_imports(struct dev dev)
{
	return atomic_load(&state.s.unseen_imports[dev.v]) > 0;
}

bool handle_take_ended_import(struct dev dev)
{
	return atomic_load_explicit(&state.s.has_ended_import[dev.v], memory_order_relaxed) &&
	       atomic_exchange(&state.s.has_ended_import[dev.v], false);
}

bool handle_lend(struct handle_node *node, struct loan *loan, uint64_t number, struct lent *out)
{
	struct memory *memory;
	uint64_t bytes = 0;

	pthread_mutex_lock(&state.s.mutex);
	memory = node->memory;
	/* An import has no bytes but those of a mapping, which is always of all of it. */
	if (memory && memory->is_known && !memory->is_host)
		bytes = memory->is_import ? node->bytes : memory->bytes;
	if (bytes) {
		memory->is_exported = true;
		lent_enter(loan, (uint64_t)(uintptr_t)memory, memory->dev, bytes, number, out);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return bytes > 0;
}

void handle_note_export(struct handle_node *node)
{
	pthread_mutex_lock(&state.s.mutex);
	if (node->memory)
		node->memory->is_exported = true;
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_use(struct handle_node *node, uint64_t handle)
{
	node->key = handle;
	pthread_mutex_lock(&state.s.mutex);
	join(node, handle);
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_use_mapped(struct handle_node *node, uint64_t addr)
{
	struct handle_node *mapping;

	pthread_mutex_lock(&state.s.mutex);
	mapping = mapping_below(addr);
	if (mapping && addr - mapping->key < mapping->bytes)
		share(node, mapping->memory);
	pthread_mutex_unlock(&state.s.mutex);
}

uint64_t handle_use_next(struct handle_node *node, uint64_t addr, uint64_t bytes)
{
	struct handle_node want = { .key = addr }, *mapping;
	uint64_t end = 0;

	pthread_mutex_lock(&state.s.mutex);
	mapping = mapping_below(addr);
	if (!mapping || addr - mapping->key >= mapping->bytes)
		mapping = RB_NFIND(key_tree, &state.s.mappings, &want);
	if (mapping && (mapping->key < addr || mapping->key - addr < bytes)) {
		share(node, mapping->memory);
		node->bytes = mapping->bytes;
		end = mapping->key + mapping->bytes;
	}
	pthread_mutex_unlock(&state.s.mutex);
	return end;
}

void handle_use_unseen(struct handle_node *node, uint64_t handle)
{
	node->is_unseen = true;
	handle_use(node, handle);
}

uint64_t handle_unseen(struct dev dev)
{
	return atomic_load(&state.s.unseen_bytes[dev.v]);
}

struct handle_freed handle_unuse(struct handle_node *node)
{
	struct handle_freed freed;

	pthread_mutex_lock(&state.s.mutex);
	freed = end(node);
	pthread_mutex_unlock(&state.s.mutex);
	return freed;
}

/*
 * mutex held: what was mapped is larger than the memory that the node uses: the handle's value went
 * to another memory before the driver looked.
 */
static struct handle_freed use_other(struct handle_node *node)
{
	struct memory *other = find_memory(node->key), *before = node->memory;
	struct handle_freed freed = leave(node);

	if (other && other != before)
		share(node, other);
	else
		list_spare(node, node->key);
	return freed;
}

static void add(uint64_t freed_bytes[RATION_DEVICES], struct handle_freed freed)
{
	freed_bytes[freed.dev.v] += freed.bytes;
}

void handle_map(struct handle_node *node, uint64_t addr, uint64_t bytes,
		uint64_t freed_bytes[RATION_DEVICES])
{
	pthread_mutex_lock(&state.s.mutex);
	if (node->memory->is_known && !node->memory->is_import && !node->memory->is_host &&
	    node->spare && bytes > node->memory->bytes)
		add(freed_bytes, use_other(node));
	node->key = addr;
	node->bytes = bytes;
	add(freed_bytes, insert(&state.s.mappings, node));
	pthread_mutex_unlock(&state.s.mutex);
}

struct handle_freed handle_retain(struct handle_node *node, uint64_t handle)
{
	struct handle_freed freed = { .bytes = 0 };
	struct handle_node *of;
	struct memory *memory;

	pthread_mutex_lock(&state.s.mutex);
	of = find(&state.s.handles, handle);
	memory = find_memory(handle);
	if (!node->memory && memory)
		share(node, memory);
	if (of || !node->memory) {
		if (of)
			of->refs++;
		freed = end(node);
	} else {
		node->key = handle;
		node->refs = 1;
		RB_INSERT(key_tree, &state.s.handles, node);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return freed;
}

struct handle_node *handle_release(uint64_t handle)
{
	struct handle_node *node;

	pthread_mutex_lock(&state.s.mutex);
	node = find(&state.s.handles, handle);
	if (node && ++node->leaving == node->refs)
		RB_REMOVE(key_tree, &state.s.handles, node);
	pthread_mutex_unlock(&state.s.mutex);
	return node;
}

struct handle_freed handle_released(struct handle_node *node)
{
	struct handle_freed freed = { .bytes = 0 };

	pthread_mutex_lock(&state.s.mutex);
	node->leaving--;
	if (--node->refs == 0)
		freed = end(node);
	pthread_mutex_unlock(&state.s.mutex);
	return freed;
}

/* mutex held: one reference to a handle that is out of the tree is back. */
static struct handle_freed put_back(struct handle_node *node)
{
	struct handle_node *other = RB_INSERT(key_tree, &state.s.handles, node);

	if (!other)
		return (struct handle_freed){ .bytes = 0 };
	/* It was retained meanwhile, or the value is another memory's now. */
	if (other->memory == node->memory)
		other->refs++;
	return --node->refs ? (struct handle_freed){ .bytes = 0 } : end(node);
}

struct handle_freed handle_release_failed(struct handle_node *node)
{
	struct handle_freed freed = { .bytes = 0 };

	pthread_mutex_lock(&state.s.mutex);
	if (node->leaving-- == node->refs)
		freed = put_back(node);
	pthread_mutex_unlock(&state.s.mutex);
	return freed;
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
		next = list->next;
		add(freed_bytes, end(list));
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void handle_unmap_failed(struct handle_node *list, uint64_t freed_bytes[RATION_DEVICES])
{
	struct handle_node *next;

	pthread_mutex_lock(&state.s.mutex);
	for (; list; list = next) {
		next = list->next;
		list->next = NULL;
		if (RB_INSERT(key_tree, &state.s.mappings, list))
			add(freed_bytes, end(list));
	}
	pthread_mutex_unlock(&state.s.mutex);
}
