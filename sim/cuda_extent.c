#include "cuda_extent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Index of the first free piece that ends behind `start`. */
static int find(const struct cuda_extents *e, uint64_t start)
{
	int low = 0, high = e->count;

	while (low < high) {
		int mid = (low + high) / 2;

		if (e->free[mid].start + e->free[mid].size <= start)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int insert(struct cuda_extents *e, int at, uint64_t start, uint64_t size)
{
	if (e->count == e->room) {
		int room = e->room ? e->room * 2 : 16;
		struct cuda_extent *grown = realloc(e->free, (size_t)room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		e->free = grown;
		e->room = room;
	}
	memmove(&e->free[at + 1], &e->free[at], (size_t)(e->count - at) * sizeof(*e->free));
	e->free[at] = (struct cuda_extent){ start, size };
	e->count++;
	return 0;
}

static void erase(struct cuda_extents *e, int at)
{
	e->count--;
	memmove(&e->free[at], &e->free[at + 1], (size_t)(e->count - at) * sizeof(*e->free));
}

int cuda_extent_add(struct cuda_extents *e, uint64_t start, uint64_t size)
{
	int at = find(e, start);
	struct cuda_extent *left = at > 0 ? &e->free[at - 1] : NULL;
	struct cuda_extent *right = at < e->count ? &e->free[at] : NULL;
	int joins_left = left && left->start + left->size == start;
	int joins_right = right && right->start == start + size;

	if (joins_left && joins_right) {
		left->size += size + right->size;
		erase(e, at);
	} else if (joins_left) {
		left->size += size;
	} else if (joins_right) {
		right->start = start;
		right->size += size;
	} else {
		return insert(e, at, start, size);
	}
	return 0;
}

/* Cuts [start, start + size) out of piece `at`. */
static int cut(struct cuda_extents *e, int at, uint64_t start, uint64_t size)
{
	struct cuda_extent *piece = &e->free[at];
	uint64_t end = piece->start + piece->size;

	if (piece->start == start && piece->size == size) {
		erase(e, at);
	} else if (piece->start == start) {
		piece->start += size;
		piece->size -= size;
	} else if (end == start + size) {
		piece->size -= size;
	} else {
		int err = insert(e, at + 1, start + size, end - start - size);

		if (err)
			return err;
		e->free[at].size = start - e->free[at].start;
	}
	return 0;
}

int cuda_extent_take(struct cuda_extents *e, uint64_t size, uint64_t align, uint64_t *out_start)
{
	for (int i = 0; i < e->count; i++) {
		uint64_t start = (e->free[i].start + align - 1) & ~(align - 1);
		uint64_t skipped = start - e->free[i].start;
		int err;

		if (e->free[i].size < skipped || e->free[i].size - skipped < size)
			continue;
		err = cut(e, i, start, size);
		if (err == 0)
			*out_start = start;
		return err;
	}
	return -ENOSPC;
}

int cuda_extent_take_at(struct cuda_extents *e, uint64_t start, uint64_t size)
{
	int i = find(e, start);

	if (i == e->count || e->free[i].start > start ||
	    e->free[i].start + e->free[i].size < start + size)
		return -ENOSPC;
	return cut(e, i, start, size);
}

void cuda_extent_fini(struct cuda_extents *e)
{
	free(e->free);
	*e = (struct cuda_extents){ 0 };
}
