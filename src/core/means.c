#include "core/means.h"

#include "base/clock.h"

/* Above that many samples each new one counts one in so many. */
enum { WINDOW = 64 };
/* Of work that may wait a shorter one counts one in so many, a longer one in so many. */
enum { LEAST_DOWN = 4, LEAST_UP = 64 };
/*
 * Trust grows by one with each steady launch, and falls by so much with another: a kind of which
 * one launch in a hundred takes longer is not trusted, at least not for long.
 */
enum { TRUST_MOST = 356, TRUST_LEAST = -900, TRUST_FALL = 100 };

static void begin(struct means_entry *entry)
{
	__atomic_store_n(&entry->samples, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->pending_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->may_wait, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->is_bound, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->trust, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->mean_ns, MEANS_UNKNOWN_NS, __ATOMIC_RELAXED);
}

struct means_entry *means_find_slow(struct means *means, uint64_t key)
{
	uint64_t at = means_hash(key), old;
	struct means_entry *victim;

	for (unsigned i = 0; i < MEANS_PROBES; i++) {
		struct means_entry *entry = &means->entries[(at + i) % MEANS_ENTRIES];

		old = __atomic_load_n(&entry->key, __ATOMIC_RELAXED);
		if (old == 0 && __atomic_compare_exchange_n(&entry->key, &old, key, false,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			begin(entry);
			return entry;
		}
		if (old == key)
			return entry;
	}
	/* The one that was measured least gives way: a sample that it has under way is lost. */
	victim = &means->entries[at];
	for (unsigned i = 1; i < MEANS_PROBES; i++) {
		struct means_entry *entry = &means->entries[(at + i) % MEANS_ENTRIES];

		if (__atomic_load_n(&entry->samples, __ATOMIC_RELAXED) <
		    __atomic_load_n(&victim->samples, __ATOMIC_RELAXED))
			victim = entry;
	}
	__atomic_store_n(&victim->key, key, __ATOMIC_RELAXED);
	begin(victim);
	return victim;
}

/* What work takes that waits for nothing: down at once, up slowly. */
static int64_t least_of(int64_t mean_ns, uint32_t samples, int64_t ns)
{
	if (samples == 0 || ns < mean_ns / 2)
		return ns;
	if (ns < mean_ns)
		return mean_ns - (mean_ns - ns) / LEAST_DOWN;
	return mean_ns + clock_least_ns(ns - mean_ns, mean_ns) / LEAST_UP;
}

static int64_t mean_of(int64_t mean_ns, uint32_t samples, int64_t ns)
{
	if (samples == 0)
		return ns;
	return mean_ns + (ns - mean_ns) / (samples < WINDOW ? (int64_t)samples + 1 : WINDOW);
}

static void learn_trust(struct means_entry *entry, int64_t mean_ns, int64_t ns)
{
	int trust = __atomic_load_n(&entry->trust, __ATOMIC_RELAXED);

	trust = means_is_apart(ns - mean_ns, mean_ns) ? trust - TRUST_FALL : trust + 1;
	trust = trust > TRUST_MOST ? TRUST_MOST : trust < TRUST_LEAST ? TRUST_LEAST : trust;
	__atomic_store_n(&entry->trust, (int16_t)trust, __ATOMIC_RELAXED);
}

void means_learn(struct means_entry *entry, int64_t ns)
{
	uint32_t samples = __atomic_load_n(&entry->samples, __ATOMIC_RELAXED);
	int64_t mean_ns = __atomic_load_n(&entry->mean_ns, __ATOMIC_RELAXED);

	/* A bound is no sample. */
	if (__atomic_exchange_n(&entry->is_bound, 0, __ATOMIC_RELAXED))
		samples = 0;
	if (samples > 0)
		learn_trust(entry, mean_ns, ns);
	mean_ns = means_may_wait(entry) ? least_of(mean_ns, samples, ns) :
					  mean_of(mean_ns, samples, ns);
	__atomic_store_n(&entry->mean_ns, mean_ns > 0 ? mean_ns : 1, __ATOMIC_RELAXED);
	if (samples < UINT32_MAX)
		__atomic_store_n(&entry->samples, samples + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->pending_ns, 0, __ATOMIC_RELAXED);
}

void means_learn_bound(struct means_entry *entry, int64_t ns)
{
	bool is_bound;

	if (means_is_known(entry) && ns >= means_cost_ns(entry)) {
		__atomic_store_n(&entry->pending_ns, 0, __ATOMIC_RELAXED);
		return;
	}
	is_bound = !means_is_known(entry) || __atomic_load_n(&entry->is_bound, __ATOMIC_RELAXED);
	means_learn(entry, ns);
	__atomic_store_n(&entry->is_bound, is_bound, __ATOMIC_RELAXED);
}

void means_forget(struct means *means, uint64_t key)
{
	uint64_t at = means_hash(key);

	/* The key stays, so that whoever has the entry at hand still has the right one. */
	for (unsigned i = 0; i < MEANS_PROBES; i++) {
		struct means_entry *entry = &means->entries[(at + i) % MEANS_ENTRIES];

		if (__atomic_load_n(&entry->key, __ATOMIC_RELAXED) == key)
			begin(entry);
	}
}
