#include "core/crowd.h"

#include "base/clock.h"

/*
 * A probe that runs later than that waited for another process's turn. Alone on an H200 they run
 * within 10 us; to turn to a process takes it 130.
 */
#define LATE_NS (110 * NSEC_PER_USEC)
#define SEEN_NS NSEC_PER_SEC
enum { PROBES = 16, LATE_LIKELY = 5 };

void crowd_see(struct crowd *crowd, int64_t now_ns)
{
	__atomic_store_n(&crowd->seen_ns, now_ns, __ATOMIC_RELAXED);
}

void crowd_probe(struct crowd *crowd, int64_t late_ns, int64_t submit_ns)
{
	bool is_late = late_ns > LATE_NS;

	__atomic_store_n(&crowd->late, crowd->late << 1 | is_late, __ATOMIC_RELAXED);
	if (is_late)
		crowd_see(crowd, submit_ns);
}

bool crowd_is_there(const struct crowd *crowd, int64_t now_ns)
{
	int64_t seen_ns = __atomic_load_n(&crowd->seen_ns, __ATOMIC_RELAXED);

	return seen_ns > 0 && now_ns - seen_ns < SEEN_NS;
}

bool crowd_is_likely(const struct crowd *crowd)
{
	uint32_t late = __atomic_load_n(&crowd->late, __ATOMIC_RELAXED);

	return __builtin_popcount(late & ((1u << PROBES) - 1)) >= LATE_LIKELY;
}
