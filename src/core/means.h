/*
 * Running means of GPU time, one for each kind of work: a function and a bucket of its grid, a graph, a
 * copy's or memset's size class. The key is the caller's; 0 is none. A table of zeros is empty.
 *
 * Looking up is lock-free and writes nothing once the kind is known. One table a process and device.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MEANS_ENTRIES = 4096, MEANS_PROBES = 8 };

/* Of a kind's mean: what a steady launch may differ by, with a little for the events' steps. */
enum { MEANS_APART_PART = 4 };
#define MEANS_APART_NS INT64_C(2000)
enum { MEANS_TRUSTED = 256 };

/* What work of an unknown kind is taken to cost. */
#define MEANS_UNKNOWN_NS INT64_C(1000000)

struct means_entry {
	uint64_t key;     /* atomic: set once, replaced when the neighbourhood is full */
	int64_t mean_ns;  /* atomic; meter.lock writes */
	uint32_t samples; /* atomic; meter.lock writes; 0 = unknown */
	/* Atomic: it may wait for kernels elsewhere. Said anew of an unknown kind. */
	uint8_t may_wait;
	uint8_t is_bound; /* atomic; meter.lock writes: it takes no more than mean_ns */
	int16_t trust;    /* atomic; meter.lock writes: how steady it was, see means.c */
	int64_t pending_ns; /* atomic: when the one unmeasured launch of an unknown kind was; 0 none */
};

struct means {
	struct means_entry entries[MEANS_ENTRIES];
};

/* As means_find(), for a key that is not where it is looked for first. */
struct means_entry *means_find_slow(struct means *means, uint64_t key);

static inline uint64_t means_hash(uint64_t key)
{
	return (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 52;
}

/* The entry of a kind of work; a new one is unknown. Never NULL; stays valid with the table. */
static inline struct means_entry *means_find(struct means *means, uint64_t key)
{
	struct means_entry *entry = &means->entries[means_hash(key)];

	if (__builtin_expect(__atomic_load_n(&entry->key, __ATOMIC_RELAXED) == key, 1))
		return entry;
	return means_find_slow(means, key);
}

/* What one launch of this kind is expected to take, at least 1 ns. */
static inline int64_t means_cost_ns(const struct means_entry *entry)
{
	return __atomic_load_n(&entry->mean_ns, __ATOMIC_RELAXED);
}

static inline bool means_is_known(const struct means_entry *entry)
{
	return __atomic_load_n(&entry->samples, __ATOMIC_RELAXED) != 0;
}

static inline bool means_may_wait(const struct means_entry *entry)
{
	return __atomic_load_n(&entry->may_wait, __ATOMIC_RELAXED) != 0;
}

/* More than a part of mean_ns and a little: so far from it is no steady launch. */
static inline bool means_is_apart(int64_t apart_ns, int64_t mean_ns)
{
	int64_t most_ns = mean_ns / MEANS_APART_PART + MEANS_APART_NS;

	return apart_ns > most_ns || apart_ns < -most_ns;
}

/* Of the last hundreds of launches that were measured nearly all took what the mean says. */
static inline bool means_is_steady(const struct means_entry *entry)
{
	return __atomic_load_n(&entry->trust, __ATOMIC_RELAXED) >= MEANS_TRUSTED;
}

/*
 * One launch of this kind took `ns`. The mean of work that may wait goes for what it takes when it
 * does not. One caller at a time (meter.lock).
 */
void means_learn(struct means_entry *entry, int64_t ns);

/*
 * As that, but all that is known is that it took no more than `ns`: when the end was asked for it had
 * ended. Says nothing where as much is known already.
 */
void means_learn_bound(struct means_entry *entry, int64_t ns);

/* The handle behind the key is gone and may come again as something else. */
void means_forget(struct means *means, uint64_t key);
