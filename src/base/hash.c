#include "base/hash.h"

#include <stdlib.h>
#include <sys/mman.h>

#define LARGE_BYTES (UINT64_C(2) << 20)
enum { AHEAD = 8 };

/* The constant is 2^64 / golden ratio: neighbours go far apart. */
static uint64_t mix(uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return key ^ key >> 32;
}

/* Place of bucket i. */
static struct hash_link **bucket_at(struct hash *h, uint64_t i)
{
	int s;

	if (i < HASH_FIRST)
		return &h->first[i];
	s = 63 - __builtin_clzll(i / HASH_FIRST);
	return &h->segment[s][i - ((uint64_t)HASH_FIRST << s)];
}

/*
 * The bucket of a key: by as many bits of it as all buckets have, or by one less where it is not
 * there.
 */
static uint64_t bucket_of(const struct hash *h, uint64_t key)
{
	uint64_t buckets = HASH_FIRST + h->more, round, i;

	round = UINT64_C(1) << (63 - __builtin_clzll(buckets));
	i = mix(key) & (2 * round - 1);
	return i < buckets ? i : i & (round - 1);
}

static struct hash_link **chain(const struct hash *h, uint64_t key)
{
	return bucket_at((struct hash *)h, bucket_of(h, key));
}

void hash_prefetch(const struct hash *h, uint64_t key)
{
	__builtin_prefetch(chain(h, key));
}

/*
 * Buckets of segment s: NULL without memory. Large segments are in large pages where the kernel has
 * them: each look is at a place of its own.
 */
static struct hash_link **new_segment(int s)
{
	size_t bytes = ((size_t)HASH_FIRST << s) * sizeof(struct hash_link *);
	void *at;

	if (bytes < LARGE_BYTES)
		return calloc(1, bytes);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, bytes, MADV_HUGEPAGE);
	return at;
}

/* Buckets are split in order: fetches what is in the one whose turn comes in a few insertions. */
static void prefetch_ahead(struct hash *h, uint64_t i, uint64_t end)
{
	if (i + AHEAD < end)
		__builtin_prefetch(*bucket_at(h, i + AHEAD));
}

/* One bucket more: takes over its part of the one that had its keys. */
static void split(struct hash *h)
{
	uint64_t added = HASH_FIRST + h->more;
	int s = 63 - __builtin_clzll(added / HASH_FIRST);
	struct hash_link **from, **to;

	if (s >= HASH_SEGMENTS)
		return;
	if (!h->segment[s])
		h->segment[s] = new_segment(s);
	if (!h->segment[s])
		return;
	h->more++;
	prefetch_ahead(h, added - ((uint64_t)HASH_FIRST << s), (uint64_t)HASH_FIRST << s);
	from = bucket_at(h, added - ((uint64_t)HASH_FIRST << s));
	to = bucket_at(h, added);
	while (*from) {
		struct hash_link *link = *from;

		if (bucket_of(h, link->key) != added) {
			from = &link->next;
			continue;
		}
		*from = link->next;
		link->next = NULL;
		*to = link;
		to = &link->next;
	}
}

void hash_insert(struct hash *h, struct hash_link *link)
{
	struct hash_link **head;

	h->count++;
	/* Two buckets for each link: most looks meet none or the right one. */
	for (int i = 0; i < 2 && 2 * h->count > HASH_FIRST + h->more; i++)
		split(h);
	head = chain(h, link->key);
	link->next = *head;
	*head = link;
}

struct hash_link *hash_find(const struct hash *h, uint64_t key)
{
	struct hash_link *link = *chain(h, key);

	while (link && link->key != key)
		link = link->next;
	return link;
}

void hash_remove(struct hash *h, struct hash_link *link)
{
	struct hash_link **at = chain(h, link->key);

	while (*at != link)
		at = &(*at)->next;
	*at = link->next;
	h->count--;
}

void hash_each(struct hash *h, void (*visit)(struct hash_link *link, void *arg), void *arg)
{
	struct hash_link *link, *next;

	for (uint64_t i = 0; i < HASH_FIRST + h->more; i++) {
		for (link = *bucket_at(h, i); link; link = next) {
			next = link->next;
			visit(link, arg);
		}
	}
}

void hash_take(struct hash *hash, struct hash_link *link, struct hash_link **inout_taken)
{
	hash_remove(hash, link);
	link->next = *inout_taken;
	*inout_taken = link;
}

void hash_each_taken(struct hash_link *taken, void (*visit)(struct hash_link *link))
{
	while (taken) {
		struct hash_link *link = taken;

		taken = link->next;
		visit(link);
	}
}
