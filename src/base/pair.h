/*
 * Two adjacent words that change together. Inline assembly because the compiler's 16-byte atomics
 * call a library (libatomic) that we do not load.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Aligned to 16 bytes wherever it lies. */
struct pair {
	uint64_t first;
	uint64_t second;
};

/*
 * Replaces *at by `new` if it still is *old; otherwise reads it whole into *old. A full barrier
 * when it succeeds.
 */
#if defined __x86_64__
static inline bool pair_cas(struct pair *at, struct pair *old, struct pair new)
{
	bool same;

	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(same), "+m"(*at), "+a"(old->first), "+d"(old->second)
			 : "b"(new.first), "c"(new.second)
			 : "memory");
	return same;
}
#elif defined __aarch64__
static inline bool pair_cas(struct pair *at, struct pair *old, struct pair new)
{
	uint64_t first, second;
	uint32_t failed;
	bool same;

	do {
		__asm__ volatile("ldaxp %0, %1, [%2]"
				 : "=&r"(first), "=&r"(second)
				 : "r"(at)
				 : "memory");
		same = first == old->first && second == old->second;
		/* Storing the same words back is what makes the pair known to be read whole. */
		__asm__ volatile("stlxp %w0, %1, %2, [%3]"
				 : "=&r"(failed)
				 : "r"(same ? new.first : first), "r"(same ? new.second : second),
				   "r"(at)
				 : "memory");
	} while (failed);
	old->first = first;
	old->second = second;
	return same;
}
#else
#error "no 128-bit compare-and-swap for this processor"
#endif

/* Both words as they were at one moment. */
static inline struct pair pair_load(struct pair *at)
{
	struct pair p = { __atomic_load_n(&at->first, __ATOMIC_RELAXED),
			  __atomic_load_n(&at->second, __ATOMIC_RELAXED) };

	pair_cas(at, &p, p);
	return p;
}
