#include "core/leaving.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/process.h"
#include "core/backing.h"
#include "core/quota.h"
#include "shm/leaver.h"
#include "shm/region.h"
#include "shm/residency.h"

#include <stdatomic.h>

/* A process that has much to give back needs a second or two; one may be stuck in its driver. */
#define WAIT_NS (5 * NSEC_PER_SEC)
/* Who waited in vain does not do so again for this long. */
#define VAIN_NS (10 * NSEC_PER_SEC)

struct leaving_state {
	const struct ration_region *own; /* constant after leaving_init() */
	_Atomic int64_t again_ns;        /* atomic */
};
PROCESS_STATE(leaving_state, state);

void leaving_init(const struct region *region)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.own = region->own;
}

/* What is asked for, and where. */
struct want {
	struct dev dev;
	uint64_t bytes;
	bool is_of_host; /* else of the device */
};

/* True when there is no room, but would be without those who leave. */
static bool is_worth(const struct want *w)
{
	uint64_t used, most, back;

	if (!state.s.own || !quota_has_region_now())
		return false;
	back = leaver_bytes(state.s.own, w->is_of_host ? RATION_DEVICES : w->dev.v);
	if (w->is_of_host) {
		used = residency_sum(state.s.own, RESIDENCY_HOST);
		most = residency_host_limit(state.s.own);
	} else {
		used = quota_used(w->dev);
		most = quota_limit(w->dev);
	}
	if (!back || used == UINT64_MAX || bytes_sum(used, w->bytes) <= most)
		return false;
	if (!w->is_of_host)
		back = bytes_sum(back, quota_doubted(w->dev));
	return bytes_sum(bytes_beyond(used, back), w->bytes) <= most;
}

static void await(const struct want *w)
{
	int64_t start_ns = clock_now_ns(), waited_ns = 0;

	quota_reap();
	if (start_ns < atomic_load(&state.s.again_ns))
		return;
	while (is_worth(w)) {
		if (waited_ns >= WAIT_NS) {
			atomic_store(&state.s.again_ns, clock_now_ns() + VAIN_NS);
			return;
		}
		clock_sleep_ns(clock_nap_ns(waited_ns));
		waited_ns = clock_now_ns() - start_ns;
		quota_reap();
	}
}

void leaving_await(struct dev dev, uint64_t bytes)
{
	await(&(struct want){ .dev = dev, .bytes = bytes });
}

void leaving_await_host(const struct backing_bounds *bounds, uint64_t bytes)
{
	if (bounds->may_spill)
		await(&(struct want){ .bytes = bytes, .is_of_host = true });
}
