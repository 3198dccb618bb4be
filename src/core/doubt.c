#include "core/doubt.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "core/quota.h"

/*
 * A call of the driver is over before that, but where it waits for a stream; also of a process that
 * has no processor for a while, as one that has used up its quota of a period.
 */
#define WAIT_NS NSEC_PER_SEC

bool doubt_await(struct dev dev, uint64_t bytes, int64_t *end_ns)
{
	int64_t now_ns = clock_now_ns();
	uint64_t doubted, used;

	if (*end_ns && now_ns >= *end_ns)
		return false;
	/* First: what comes back meanwhile counts twice, not never. */
	doubted = quota_doubted(dev);
	used = quota_used(dev);
	if (used == UINT64_MAX || bytes_sum(bytes_beyond(used, doubted), bytes) > quota_limit(dev))
		return false;
	if (*end_ns == 0)
		*end_ns = now_ns + WAIT_NS;
	if (doubted)
		clock_sleep_ns(clock_nap_ns(now_ns + WAIT_NS - *end_ns));
	return true;
}

uint64_t doubt_left_at_best(struct dev dev, uint64_t but_bytes)
{
	/* First, as above. */
	uint64_t doubted = bytes_beyond(quota_doubted(dev), but_bytes);

	return bytes_sum(quota_left(dev), doubted);
}
