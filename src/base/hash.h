/*
 * A hash table of 64-bit keys that grows by a bucket or two at a time (linear hashing): no
 * insertion is ever slow, and none can fail; without memory for more buckets the chains only get
 * longer. The caller owns the links, which lie in what they find, and orders the calls. A table of
 * zeros is empty.
 */
#pragma once

#include <stdint.h>

struct hash_link {
	struct hash_link *next;
	uint64_t key;
};

enum { HASH_FIRST = 64, HASH_SEGMENTS = 32 };

struct hash {
	uint64_t count;
	uint64_t more; /* buckets beyond the first */
	struct hash_link *first[HASH_FIRST];
	/* Segment s has HASH_FIRST << s buckets, those from HASH_FIRST << s on. */
	struct hash_link **segment[HASH_SEGMENTS];
};

/* Puts a link in under its key; two may have the same. */
void hash_insert(struct hash *hash, struct hash_link *link);

/* Has the processor fetch what hash_find() and hash_insert() of this key look at first. */
void hash_prefetch(const struct hash *hash, uint64_t key);

/* The link with this key that was put in last; NULL when there is none. */
struct hash_link *hash_find(const struct hash *hash, uint64_t key);

/* Takes a link out that is in. */
void hash_remove(struct hash *hash, struct hash_link *link);

/* Likewise, to the front of the caller's chain of what was taken out; NULL is an empty one. */
void hash_take(struct hash *hash, struct hash_link *link, struct hash_link **inout_taken);

/* Calls `visit` for each of such a chain, which may free it or put it in again. */
void hash_each_taken(struct hash_link *taken, void (*visit)(struct hash_link *link));

/*
 * Calls `visit` for each link, which may take that one out, but none other. The order is that of
 * the buckets.
 */
void hash_each(struct hash *hash, void (*visit)(struct hash_link *link, void *arg), void *arg);
