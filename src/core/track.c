#include "core/track.h"

#include "base/process.h"
#include "base/tree.h"

#include <pthread.h>
#include <stdlib.h>

struct block {
	RB_ENTRY(block) entry;
	uint64_t number; /* address / TRACK_BLOCK_BYTES */
	uint64_t refs; /* small allocations in it */
	int dev;
};

struct track_node {
	RB_ENTRY(track_node) entry;
	struct track t;
	uint64_t seq;
	struct block *block; /* of a small one; while unentered, the spare for a new block */
};

RB_HEAD(node_tree, track_node);
RB_HEAD(block_tree, block);

struct track_state {
	/* Orders all of it; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct node_tree nodes;
	struct block_tree blocks;
	uint64_t seq; /* of the allocation entered last */
	uint64_t block_count[RATION_DEVICES];
	int64_t physical_bytes[RATION_DEVICES];
};
PROCESS_STATE(track_state, state);

static int node_compare(const struct track_node *a, const struct track_node *b)
{
	return a->t.addr < b->t.addr ? -1 : a->t.addr > b->t.addr;
}

static int block_compare(const struct block *a, const struct block *b)
{
	return a->number < b->number ? -1 : a->number > b->number;
}

RB_GENERATE_STATIC(node_tree, track_node, entry, node_compare)
RB_GENERATE_STATIC(block_tree, block, entry, block_compare)

void track_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

struct track_node *track_prepare(bool is_small)
{
	struct track_node *node = calloc(1, sizeof(*node));

	if (!node || !is_small)
		return node;
	node->block = calloc(1, sizeof(*node->block));
	if (!node->block) {
		free(node);
		return NULL;
	}
	return node;
}

void track_discard(struct track_node *node)
{
	if (!node)
		return;
	free(node->block);
	free(node);
}

/* mutex held: finds the block of a small node or makes it of the node's spare. */
static bool enter_block(struct track_node *node, bool may_open, bool *out_new)
{
	struct block key = { .number = node->t.addr / TRACK_BLOCK_BYTES };
	struct block *block = RB_FIND(block_tree, &state.s.blocks, &key);

	*out_new = block == NULL;
	if (block) {
		free(node->block);
		node->block = block;
	} else {
		if (!may_open)
			return false;
		block = node->block;
		block->number = key.number;
		block->dev = node->t.dev.v;
		RB_INSERT(block_tree, &state.s.blocks, block);
		state.s.block_count[block->dev]++;
		state.s.physical_bytes[block->dev] += (int64_t)TRACK_BLOCK_BYTES;
	}
	block->refs++;
	return true;
}

/* mutex held: the bytes that go with the node. The node is out of the tree. */
static uint64_t drop(struct track_node *node)
{
	struct block *block = node->block;
	uint64_t bytes = node->t.bytes;

	if (block) {
		bytes = 0;
		if (--block->refs == 0) {
			RB_REMOVE(block_tree, &state.s.blocks, block);
			state.s.block_count[block->dev]--;
			free(block);
			bytes = TRACK_BLOCK_BYTES;
		}
	}
	if (!node->t.is_managed)
		state.s.physical_bytes[node->t.dev.v] -= (int64_t)bytes;
	free(node);
	return bytes;
}

bool track_enter(struct track_node *node, const struct track *what, bool may_open,
		 struct track_entered *out)
{
	struct track_node *old;

	node->t = *what;
	out->is_new_block = false;
	out->stale_bytes = 0;
	pthread_mutex_lock(&state.s.mutex);
	if (what->is_small && !enter_block(node, may_open, &out->is_new_block)) {
		pthread_mutex_unlock(&state.s.mutex);
		track_discard(node);
		return false;
	}
	if (!what->is_managed && !what->is_small)
		state.s.physical_bytes[what->dev.v] += (int64_t)what->bytes;
	node->seq = ++state.s.seq;
	old = RB_INSERT(node_tree, &state.s.nodes, node);
	if (old) {
		RB_REMOVE(node_tree, &state.s.nodes, old);
		RB_INSERT(node_tree, &state.s.nodes, node);
		out->stale_bytes = drop(old);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return true;
}

struct track_node *track_take(uint64_t addr, struct track *out)
{
	struct track_node key = { .t.addr = addr }, *node;

	pthread_mutex_lock(&state.s.mutex);
	node = RB_FIND(node_tree, &state.s.nodes, &key);
	if (node) {
		RB_REMOVE(node_tree, &state.s.nodes, node);
		*out = node->t;
	}
	pthread_mutex_unlock(&state.s.mutex);
	return node;
}

uint64_t track_put_back(struct track_node *node)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&state.s.mutex);
	if (RB_INSERT(node_tree, &state.s.nodes, node))
		bytes = drop(node);
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

void track_drop_context(const void *ctx, uint64_t mark, uint64_t freed_bytes[RATION_DEVICES])
{
	struct track_node *node, *next;

	pthread_mutex_lock(&state.s.mutex);
	for (node = RB_MIN(node_tree, &state.s.nodes); node; node = next) {
		int d = node->t.dev.v;

		next = RB_NEXT(node_tree, &state.s.nodes, node);
		if (node->t.ctx != ctx || node->seq > mark)
			continue;
		RB_REMOVE(node_tree, &state.s.nodes, node);
		freed_bytes[d] += drop(node);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

uint64_t track_end(struct track_node *node)
{
	uint64_t bytes;

	pthread_mutex_lock(&state.s.mutex);
	bytes = drop(node);
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}

bool track_has_block(struct dev dev)
{
	bool has;

	pthread_mutex_lock(&state.s.mutex);
	has = state.s.block_count[dev.v] > 0;
	pthread_mutex_unlock(&state.s.mutex);
	return has;
}

uint64_t track_physical(struct dev dev)
{
	int64_t bytes;

	pthread_mutex_lock(&state.s.mutex);
	bytes = state.s.physical_bytes[dev.v];
	pthread_mutex_unlock(&state.s.mutex);
	return bytes > 0 ? (uint64_t)bytes : 0;
}

void track_physical_add(struct dev dev, int64_t bytes)
{
	pthread_mutex_lock(&state.s.mutex);
	state.s.physical_bytes[dev.v] += bytes;
	pthread_mutex_unlock(&state.s.mutex);
}
