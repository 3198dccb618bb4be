#include "hook/shown_busy.h"

#include "base/clock.h"
#include "base/process.h"
#include "core/context.h"
#include "core/quota.h"
#include "core/watch.h"
#include "drv/sample_busy.h"
#include "drv/sample_nvml.h"
#include "hook/init.h"
#include "shm/mirror.h"

struct shown_busy_state {
	/* the worker's */
	int64_t next_ns;
	int64_t ask_ns;               /* when NVML is asked next; 0: not begun */
	unsigned pct[RATION_DEVICES]; /* as shown last */
};
PROCESS_STATE(shown_busy_state, state);

/* What was measured in the last second, in percent; -1 where nothing was. */
static int measured_pct(const struct region *region, struct dev dev, int64_t now_ns)
{
	const struct pace_slot *slot = &region->own->pace[dev.v].slots[quota_slot()];
	uint64_t began_ns = __atomic_load_n(&slot->second_ns, __ATOMIC_RELAXED);
	uint64_t share_ns = __atomic_load_n(&slot->second_share_ns, __ATOMIC_RELAXED);

	if (began_ns == 0 || (uint64_t)now_ns - began_ns >= 2 * (uint64_t)NSEC_PER_SEC)
		return -1;
	return share_ns < NSEC_PER_SEC ? (int)(share_ns / (NSEC_PER_SEC / 100)) : 100;
}

/* Where nothing was measured NVML is asked if it may be; else what is shown stays. */
static void show(struct dev dev, int64_t now_ns, bool may_ask)
{
	struct region *region = init_region();
	unsigned pct = may_ask ? 0 : state.s.pct[dev.v];
	int measured;

	if (!quota_has_region(now_ns))
		return;
	measured = measured_pct(region, dev, now_ns);
	if (measured >= 0)
		pct = (unsigned)measured;
	else if (may_ask && (quota_held(dev, QUOTA_CONTEXT) > 0 || context_any(dev)))
		sample_busy_pct(quota_uuid(dev), &pct);
	if (pct != state.s.pct[dev.v])
		mirror_show_busy(region, quota_slot(), dev.v, pct);
	state.s.pct[dev.v] = pct;
}

void shown_busy_tick(void)
{
	int64_t now_ns = clock_now_ns();
	bool may_ask;

	if (now_ns < state.s.next_ns)
		return;
	process_wipe_on_fork(&state, sizeof(state));
	state.s.next_ns = now_ns + NSEC_PER_SEC;
	may_ask = state.s.ask_ns && now_ns >= state.s.ask_ns;
	if (may_ask || !state.s.ask_ns)
		state.s.ask_ns = now_ns + watch_busy_every_ns(sample_nvml_rows());
	for (int o = 0; o < device_ordinals(); o++) {
		struct dev dev;

		if (device_by_ordinal((struct cuda_ord){ o }, &dev))
			show(dev, now_ns, may_ask);
	}
}
