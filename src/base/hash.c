#include "base/hash.h"

#include <stdlib.h>

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

/* The bucket of a key: by as many bits of it as all buckets have, or by one less where it is not there. */
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

/* One bucket more: takes over its part of the one that had its keys. */
static void split(struct hash *h)
{
	uint64_t added = HASH_FIRST + h->more;
	int s = 63 - __builtin_clzll(added / HASH_FIRST);
	struct hash_link **from, **to;

	if (s >= HASH_SEGMENTS)
		return;
	if (!h->segment[s])
		h->segment[s] = calloc((size_t)HASH_FIRST << s, sizeof(struct hash_link *));
	if (!h->segment[s])
		return;
	h->more++;
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
