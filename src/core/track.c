#include "core/track.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/process.h"
#include "core/blocks.h"
#include "core/handed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { FIRST, LAST, ENDS };
enum { DROPPED = 0 };

/*
 * As small as it gets: there may be a million, each of them looked at from the cold. The link is
 * first, so that what is found is known by it.
 */
struct track_node {
	struct hash_link link; /* by address */
	struct track t;
	uint64_t seq; /* from 1 on; DROPPED: taken out, and its context ended meanwhile */
	union {
		struct blocks_leaf *leaf[ENDS]; /* before it is entered: memory for its blocks */
		/* Taken out: in a list, so that the end of its context reaches it. */
		struct {
			struct track_node *next, **at;
		};
	};
};
_Static_assert(sizeof(struct track_node) <= 72, "with malloc's word at most 80 bytes");

struct track_state {
	/* Orders all of it; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct hash nodes;
	struct blocks blocks;
	struct track_node *taken;
	uint64_t seq; /* of the allocation entered last */
	uint64_t block_count[RATION_DEVICES];
	int64_t physical_bytes[RATION_DEVICES];
	int64_t managed_bytes[RATION_DEVICES];
	uint64_t weightless_count[RATION_DEVICES];
	_Atomic uint64_t small_count[RATION_DEVICES]; /* written under mutex, atomic */
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
	for (int i = FIRST; i < ENDS; i++)
		node->leaf[i] = blocks_take_spare(&state.s.blocks);
	pthread_mutex_unlock(&state.s.mutex);
	for (int i = FIRST; i < ENDS; i++)
		if (!node->leaf[i])
			node->leaf[i] = calloc(1, sizeof(struct blocks_leaf));
	if (node->leaf[FIRST] && node->leaf[LAST])
		return node;
	track_discard(node);
	return NULL;
}

void track_discard(struct track_node *node)
{
	if (!node)
		return;
	free(node->leaf[FIRST]);
	free(node->leaf[LAST]);
	free(node);
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
	if (!blocks_has(&state.s.blocks, first_block(t)))
		bytes += TRACK_BLOCK_BYTES;
	if (last_block(t) != first_block(t) && !blocks_has(&state.s.blocks, last_block(t)))
		bytes += TRACK_BLOCK_BYTES;
	return bytes;
}

/* mutex held: gives the node its blocks. */
static void attach_blocks(struct track_node *node)
{
	const struct track *t = &node->t;
	struct blocks *b = &state.s.blocks;
	uint64_t *count = &state.s.block_count[t->dev.v];

	if (has_blocks(t)) {
		*count += blocks_get(b, first_block(t), node->leaf[FIRST]);
		node->leaf[FIRST] = NULL;
	}
	if (has_blocks(t) && last_block(t) != first_block(t)) {
		*count += blocks_get(b, last_block(t), node->leaf[LAST]);
		node->leaf[LAST] = NULL;
	}
	blocks_give_spare(b, node->leaf[FIRST]);
	blocks_give_spare(b, node->leaf[LAST]);
}

/* mutex held: the bytes that are no longer held when the allocation leaves the block. */
static uint64_t put_block(uint64_t number, int d)
{
	if (!blocks_put(&state.s.blocks, number))
		return 0;
	state.s.block_count[d]--;
	return TRACK_BLOCK_BYTES;
}

/* mutex held: as that for all of its blocks. What it does not fill others share. */
static struct track_gone put_blocks(const struct track *t)
{
	uint64_t first = first_block(t), last = last_block(t), first_bytes, last_bytes = 0;
	bool begins_inside = t->addr % TRACK_BLOCK_BYTES;
	bool ends_inside = (t->addr + t->bytes) % TRACK_BLOCK_BYTES;
	struct track_gone gone;

	first_bytes = put_block(first, t->dev.v);
	if (last != first)
		last_bytes = put_block(last, t->dev.v);
	gone.bytes = inside_bytes(t) + first_bytes + last_bytes;
	gone.shared_bytes = ends_inside ? last_bytes : 0;
	if (begins_inside || (last == first && ends_inside))
		gone.shared_bytes += first_bytes;
	return gone;
}

/* mutex held: the sum that the allocation is in. */
static int64_t *count_of(const struct track *t)
{
	return t->is_managed ? &state.s.managed_bytes[t->dev.v] : &state.s.physical_bytes[t->dev.v];
}

/* mutex held: ends a node that is out of the tree. Returns what is no longer held. */
static struct track_gone drop(struct track_node *node)
{
	int d = node->t.dev.v;
	struct track_gone gone = { .bytes = node->t.bytes };

	if (has_blocks(&node->t))
		gone = put_blocks(&node->t);
	if (node->t.is_exported) {
		handed_note(node->t.dev, gone.bytes);
		lent_end(node->t.addr);
	}
	*count_of(&node->t) -= (int64_t)gone.bytes;
	state.s.weightless_count[d] -= is_weightless(&node->t);
	atomic_fetch_sub(&state.s.small_count[d], node->t.is_small);
	free(node);
	return gone;
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
	hash_prefetch(&state.s.nodes, what->addr);
	out->stale = (struct track_gone){ 0 };
	out->new_bytes = new_bytes(what);
	if (out->new_bytes > allowed_bytes) {
		pthread_mutex_unlock(&state.s.mutex);
		return false;
	}
	node->t = *what;
	attach_blocks(node);
	*count_of(what) += (int64_t)out->new_bytes;
	state.s.weightless_count[what->dev.v] += is_weightless(what);
	atomic_fetch_add(&state.s.small_count[what->dev.v], what->is_small);
	node->seq = ++state.s.seq;
	old = find_node(what->addr);
	if (old) {
		hash_remove(&state.s.nodes, &old->link);
		out->stale = drop(old);
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

struct track_gone track_put_back(struct track_node *node)
{
	struct track_gone gone = { 0 };

	pthread_mutex_lock(&state.s.mutex);
	leave_taken(node);
	if (node->seq == DROPPED || find_node(node->t.addr))
		gone = drop(node);
	else
		insert(node);
	pthread_mutex_unlock(&state.s.mutex);
	return gone;
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
	e->freed_bytes[d] += drop(node).bytes;
}

void track_drop_context(const void *ctx, uint64_t mark, uint64_t freed_bytes[RATION_DEVICES])
{
	struct ended ended = { ctx, mark, freed_bytes };

	pthread_mutex_lock(&state.s.mutex);
	hash_each(&state.s.nodes, drop_if_ended, &ended);
	/* Who took these ends them, whatever the driver says to it. */
	for (struct track_node *node = state.s.taken; node; node = node->next)
		if (node->t.ctx == ctx && node->seq <= mark)
			node->seq = DROPPED;
	pthread_mutex_unlock(&state.s.mutex);
}

struct track_gone track_end(struct track_node *node)
{
	struct track_gone gone;

	pthread_mutex_lock(&state.s.mutex);
	leave_taken(node);
	gone = drop(node);
	pthread_mutex_unlock(&state.s.mutex);
	return gone;
}

void track_note_export(uint64_t addr)
{
	struct track_node *node;

	pthread_mutex_lock(&state.s.mutex);
	node = find_node(addr);
	if (node)
		node->t.is_exported = true;
	pthread_mutex_unlock(&state.s.mutex);
}

/* Of the card's memory, all blocks that it touches: that is what the driver lends. */
static uint64_t whole_bytes(const struct track *t)
{
	if (!has_blocks(t))
		return t->bytes;
	return bytes_round_up(t->addr + t->bytes, TRACK_BLOCK_BYTES) -
	       t->addr / TRACK_BLOCK_BYTES * TRACK_BLOCK_BYTES;
}

bool track_lend(uint64_t addr, struct loan *loan, struct lent *out)
{
	struct track_node *node;

	pthread_mutex_lock(&state.s.mutex);
	node = find_node(addr);
	if (node) {
		node->t.is_exported = true;
		lent_enter(loan, addr, node->t.dev, whole_bytes(&node->t), 0, out);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return node;
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

struct track_gone track_end_unseen(uint64_t addr, uint64_t number, struct dev *out_dev)
{
	struct track_node *node;
	struct track_gone gone = { 0 };

	pthread_mutex_lock(&state.s.mutex);
	node = find_node(addr);
	if (node && node->seq == number) {
		*out_dev = node->t.dev;
		hash_remove(&state.s.nodes, &node->link);
		gone = drop(node);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return gone;
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

bool track_has_small(struct dev dev)
{
	return atomic_load(&state.s.small_count[dev.v]) > 0;
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
