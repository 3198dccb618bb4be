#include "core/track.h"

#include "base/hash.h"
#include "base/process.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Links are first, so that what is found is known by them. */
struct block {
	struct hash_link link; /* by address / TRACK_BLOCK_BYTES */
	uint64_t refs;         /* allocations that begin or end in it */
};

enum { FIRST, LAST, ENDS };
enum { SPARES = 16 };

struct track_node {
	struct hash_link link; /* by address */
	struct track t;
	uint64_t seq;
	uint64_t inside_bytes; /* of the blocks between the first and the last */
	/* The first and the last block; NULL where there is none or it is the first too. Before the
	 * node is entered: memory for them. */
	struct block *block[ENDS];
	/* Taken out: in a list, so that the end of its context reaches it. */
	struct track_node *next, **at;
	bool is_dropped; /* its context ended meanwhile */
};

struct track_state {
	/* Orders all of it; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct hash nodes, blocks;
	struct track_node *taken;
	struct block
		*spare[SPARES]; /* most allocations give theirs back: the next one takes them */
	int spares;
	uint64_t seq; /* of the allocation entered last */
	uint64_t block_count[RATION_DEVICES];
	int64_t physical_bytes[RATION_DEVICES];
	int64_t managed_bytes[RATION_DEVICES];
	uint64_t weightless_count[RATION_DEVICES];
};
PROCESS_STATE(track_state, state);

void track_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

struct track_node *track_prepare(void)
{
	struct track_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	pthread_mutex_lock(&state.s.mutex);
	for (int i = FIRST; i < ENDS && state.s.spares > 0; i++)
		node->block[i] = state.s.spare[--state.s.spares];
	pthread_mutex_unlock(&state.s.mutex);
	for (int i = FIRST; i < ENDS; i++)
		if (!node->block[i])
			node->block[i] = calloc(1, sizeof(struct block));
	if (node->block[FIRST] && node->block[LAST])
		return node;
	track_discard(node);
	return NULL;
}

/* mutex held: the block is in no table. */
static void free_block(struct block *block)
{
	if (state.s.spares == SPARES) {
		free(block);
		return;
	}
	memset(block, 0, sizeof(*block));
	state.s.spare[state.s.spares++] = block;
}

void track_discard(struct track_node *node)
{
	if (!node)
		return;
	free(node->block[FIRST]);
	free(node->block[LAST]);
	free(node);
}

static struct block *find_block(uint64_t number)
{
	return (struct block *)hash_find(&state.s.blocks, number);
}

/* The blocks at the two ends of an allocation. */
static uint64_t first_block(const struct track *t)
{
	return t->addr / TRACK_BLOCK_BYTES;
}

static uint64_t last_block(const struct track *t)
{
	return (t->addr + (t->bytes ? t->bytes - 1 : 0)) / TRACK_BLOCK_BYTES;
}

static bool has_blocks(const struct track *t)
{
	return !t->is_managed && !t->is_object;
}

static bool is_weightless(const struct track *t)
{
	return t->is_object && t->bytes == 0;
}

static uint64_t inside_bytes(const struct track *t)
{
	uint64_t first = first_block(t), last = last_block(t);

	return last > first + 1 ? (last - first - 1) * TRACK_BLOCK_BYTES : 0;
}

/* mutex held: what would newly be held with this allocation. */
static uint64_t new_bytes(const struct track *t)
{
	uint64_t bytes = inside_bytes(t);

	if (!has_blocks(t))
		return t->bytes;
	if (!find_block(first_block(t)))
		bytes += TRACK_BLOCK_BYTES;
	if (last_block(t) != first_block(t) && !find_block(last_block(t)))
		bytes += TRACK_BLOCK_BYTES;
	return bytes;
}

/* mutex held: one more allocation in the block; `spare` becomes it if it is not there. */
static struct block *get_block(uint64_t number, struct block *spare, int d)
{
	struct block *block = find_block(number);

	if (block) {
		free_block(spare);
	} else {
		block = spare;
		block->link.key = number;
		hash_insert(&state.s.blocks, &block->link);
		state.s.block_count[d]++;
	}
	block->refs++;
	return block;
}

/* mutex held: the bytes that are no longer held when an allocation leaves the block. */
static uint64_t put_block(struct block *block, int d)
{
	if (!block || --block->refs > 0)
		return 0;
	hash_remove(&state.s.blocks, &block->link);
	state.s.block_count[d]--;
	free_block(block);
	return TRACK_BLOCK_BYTES;
}

/* mutex held: gives the node its blocks. */
static void attach_blocks(struct track_node *node)
{
	const struct track *t = &node->t;

	if (!has_blocks(t) || last_block(t) == first_block(t)) {
		free_block(node->block[LAST]);
		node->block[LAST] = NULL;
	} else {
		node->block[LAST] = get_block(last_block(t), node->block[LAST], t->dev.v);
	}
	if (!has_blocks(t)) {
		free_block(node->block[FIRST]);
		node->block[FIRST] = NULL;
	} else {
		node->block[FIRST] = get_block(first_block(t), node->block[FIRST], t->dev.v);
		node->inside_bytes = inside_bytes(t);
	}
}

/* mutex held: the sum that the allocation is in. */
static int64_t *count_of(const struct track *t)
{
	return t->is_managed ? &state.s.managed_bytes[t->dev.v] : &state.s.physical_bytes[t->dev.v];
}

/* mutex held: ends a node that is out of the tree. Returns the bytes no longer held. */
static uint64_t drop(struct track_node *node)
{
	int d = node->t.dev.v;
	uint64_t bytes;

	if (has_blocks(&node->t))
		bytes = node->inside_bytes + put_block(node->block[FIRST], d) +
			put_block(node->block[LAST], d);
	else
		bytes = node->t.bytes;
	*count_of(&node->t) -= (int64_t)bytes;
	state.s.weightless_count[d] -= is_weightless(&node->t);
	free(node);
	return bytes;
}

/* mutex held. */
static struct track_node *find_node(uint64_t addr)
{
	return (struct track_node *)hash_find(&state.s.nodes, addr);
}

/* mutex held. */
static void insert(struct track_node *node)
{
	node->link.key = node->t.addr;
	hash_insert(&state.s.nodes, &node->link);
}

bool track_enter(struct track_node *node, const struct track *what, uint64_t allowed_bytes,
		 struct track_entered *out)
{
	struct track_node *old;

	pthread_mutex_lock(&state.s.mutex);
	out->stale_bytes = 0;
	out->new_bytes = new_bytes(what);
	if (out->new_bytes > allowed_bytes) {
		pthread_mutex_unlock(&state.s.mutex);
		return false;
	}
	node->t = *what;
	attach_blocks(node);
	*count_of(what) += (int64_t)out->new_bytes;
	state.s.weightless_count[what->dev.v] += is_weightless(what);
	node->seq = ++state.s.seq;
	old = find_node(what->addr);
	if (old) {
		hash_remove(&state.s.nodes, &old->link);
		out->stale_bytes = drop(old);
	}
	insert(node);
	pthread_mutex_unlock(&state.s.mutex);
	return true;
}

struct track_node *track_take(uint64_t addr, struct track *out)
{
	struct track_node *node;

	pthread_mutex_lock(&state.s.mutex);
	node = find_node(addr);
	if (node) {
		hash_remove(&state.s.nodes, &node->link);
		node->next = state.s.taken;
		node->at = &state.s.taken;
		if (node->next)
			node->next->at = &node->next;
		state.s.taken = node;
		*out = node->t;
	}
	pthread_mutex_unlock(&state.s.mutex);
	return node;
}

/* mutex held: a taken node is under way no more. */
static void leave_taken(struct track_node *node)
{
	*node->at = node->next;
	if (node->next)
		node->next->at = node->at;
}

uint64_t track_put_back(struct track_node *node)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&state.s.mutex);
	leave_taken(node);
	if (node->is_dropped || find_node(node->t.addr))
		bytes = drop(node);
	else
		insert(node);
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}

uint64_t track_mark(void)
{
	uint64_t mark;

	pthread_mutex_lock(&state.s.mutex);
	mark = state.s.seq;
	pthread_mutex_unlock(&state.s.mutex);
	return mark;
}

/* A context that ended. */
struct ended {
	const void *ctx;
	uint64_t mark;
	uint64_t *freed_bytes; /* per device */
};

static void drop_if_ended(struct hash_link *link, void *arg)
{
	struct track_node *node = (struct track_node *)link;
	const struct ended *e = arg;
	int d = node->t.dev.v;

	if (node->t.ctx != e->ctx || node->seq > e->mark)
		return;
	hash_remove(&state.s.nodes, link);
	e->freed_bytes[d] += drop(node);
}

void track_drop_context(const void *ctx, uint64_t mark, uint64_t freed_bytes[RATION_DEVICES])
{
	struct ended ended = { ctx, mark, freed_bytes };

	pthread_mutex_lock(&state.s.mutex);
	hash_each(&state.s.nodes, drop_if_ended, &ended);
	/* Who took these ends them, whatever the driver says to it. */
	for (struct track_node *node = state.s.taken; node; node = node->next)
		if (node->t.ctx == ctx && node->seq <= mark)
			node->is_dropped = true;
	pthread_mutex_unlock(&state.s.mutex);
}

uint64_t track_end(struct track_node *node)
{
	uint64_t bytes;

	pthread_mutex_lock(&state.s.mutex);
	leave_taken(node);
	bytes = drop(node);
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}

uint64_t track_address(const struct track_node *node)
{
	return node->t.addr;
}

uint64_t track_number(uint64_t addr)
{
	struct track_node *node;
	uint64_t number;

	pthread_mutex_lock(&state.s.mutex);
	node = find_node(addr);
	number = node && !node->t.is_object ? node->seq : 0;
	pthread_mutex_unlock(&state.s.mutex);
	return number;
}

uint64_t track_end_unseen(uint64_t addr, uint64_t number, struct dev *out_dev)
{
	struct track_node *node;
	uint64_t bytes = 0;

	pthread_mutex_lock(&state.s.mutex);
	node = find_node(addr);
	if (node && node->seq == number) {
		*out_dev = node->t.dev;
		hash_remove(&state.s.nodes, &node->link);
		bytes = drop(node);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}

bool track_is_weightless(const struct track_node *node)
{
	return is_weightless(&node->t);
}

bool track_has_weightless(struct dev dev)
{
	bool has;

	pthread_mutex_lock(&state.s.mutex);
	has = state.s.weightless_count[dev.v] > 0;
	pthread_mutex_unlock(&state.s.mutex);
	return has;
}

bool track_has_block(struct dev dev)
{
	bool has;

	pthread_mutex_lock(&state.s.mutex);
	has = state.s.block_count[dev.v] > 0;
	pthread_mutex_unlock(&state.s.mutex);
	return has;
}

static uint64_t count_read(const int64_t *count)
{
	int64_t bytes;

	pthread_mutex_lock(&state.s.mutex);
	bytes = *count;
	pthread_mutex_unlock(&state.s.mutex);
	return bytes > 0 ? (uint64_t)bytes : 0;
}

static void count_add(int64_t *count, int64_t bytes)
{
	pthread_mutex_lock(&state.s.mutex);
	*count += bytes;
	pthread_mutex_unlock(&state.s.mutex);
}

uint64_t track_physical(struct dev dev)
{
	return count_read(&state.s.physical_bytes[dev.v]);
}

void track_physical_add(struct dev dev, int64_t bytes)
{
	count_add(&state.s.physical_bytes[dev.v], bytes);
}

uint64_t track_managed(struct dev dev)
{
	return count_read(&state.s.managed_bytes[dev.v]);
}

void track_managed_add(struct dev dev, int64_t bytes)
{
	count_add(&state.s.managed_bytes[dev.v], bytes);
}
