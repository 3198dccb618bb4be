#include "core/blocks.h"

#include <stdlib.h>

struct blocks_leaf *blocks_take_spare(struct blocks *b)
{
	return b->spares > 0 ? b->spare[--b->spares] : NULL;
}

void blocks_give_spare(struct blocks *b, struct blocks_leaf *leaf)
{
	if (leaf && b->spares < BLOCKS_SPARES)
		b->spare[b->spares++] = leaf;
	else
		free(leaf);
}

static struct blocks_leaf *find(const struct blocks *b, uint64_t number)
{
	return (struct blocks_leaf *)hash_find(&b->leaves, number / BLOCKS_PER_LEAF);
}

bool blocks_has(const struct blocks *b, uint64_t number)
{
	const struct blocks_leaf *leaf = find(b, number);

	return leaf && leaf->refs[number % BLOCKS_PER_LEAF] > 0;
}

bool blocks_get(struct blocks *b, uint64_t number, struct blocks_leaf *leaf)
{
	struct blocks_leaf *there = find(b, number);

	if (there) {
		blocks_give_spare(b, leaf);
	} else {
		there = leaf;
		there->link.key = number / BLOCKS_PER_LEAF;
		hash_insert(&b->leaves, &there->link);
	}
	if (there->refs[number % BLOCKS_PER_LEAF]++ > 0)
		return false;
	there->held++;
	return true;
}

bool blocks_put(struct blocks *b, uint64_t number)
{
	struct blocks_leaf *leaf = find(b, number);

	if (--leaf->refs[number % BLOCKS_PER_LEAF] > 0)
		return false;
	if (--leaf->held == 0) {
		hash_remove(&b->leaves, &leaf->link);
		blocks_give_spare(b, leaf);
	}
	return true;
}
