#include "core/others.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/process.h"
#include "core/quota.h"
#include "core/root.h"
#include "shm/residency.h"
#include "shm/wanted.h"

#include <errno.h>
#include <stdatomic.h>

/* Their workers look ten times a second, on a card with many processes less often. */
#define WAIT_NS (400 * NSEC_PER_MSEC)
#define NAP_NS (2 * NSEC_PER_MSEC)

/* Who asked all tenants in vain asks them again after this. */
#define VAIN_NS NSEC_PER_SEC

struct others_state {
	/* constant after others_init() */
	struct ration_region *own;
	unsigned slot;
	const struct others_ops *ops;
	/* atomic: when the tenant's may be asked again, and all */
	_Atomic int64_t own_again_ns[RATION_DEVICES], again_ns[RATION_DEVICES];
};
PROCESS_STATE(others_state, state);

void others_init(struct region *region, unsigned slot, const struct others_ops *ops)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.own = region->own;
	state.s.slot = slot;
	state.s.ops = ops;
}

int others_card_free(struct dev dev, uint64_t *out_bytes)
{
	return state.s.ops ? state.s.ops->card_free(quota_uuid(dev), out_bytes) : -ENOTSUP;
}

bool others_give(struct dev dev, uint64_t bytes)
{
	struct ration_region *own = state.s.own;
	int64_t until_ns = clock_now_ns() + WAIT_NS;
	uint64_t before, now;
	uint32_t wanted;

	if (!own || !quota_has_region(clock_now_ns()) ||
	    clock_now_ns() < atomic_load(&state.s.own_again_ns[dev.v]))
		return false;
	before = residency_kept_idle_but(own, state.s.slot, dev.v);
	if (!before)
		return false;
	/* What the dead kept comes with the rest of theirs. */
	quota_reap();
	wanted = __atomic_add_fetch(&own->room_wanted, 1, __ATOMIC_RELEASE);
	while ((now = residency_kept_idle_but(own, state.s.slot, dev.v)) &&
	       bytes_beyond(before, now) < bytes && clock_now_ns() < until_ns) {
		clock_sleep_ns(NAP_NS);
		if (!quota_has_region(clock_now_ns()))
			return false;
	}
	if (now && clock_now_ns() >= until_ns)
		residency_miss(own, state.s.slot, dev.v, wanted);
	/* One that is stopped, or busy for long, is not waited for again and again. */
	if (now >= before)
		atomic_store(&state.s.own_again_ns[dev.v], clock_now_ns() + VAIN_NS);
	return now < before;
}

static int raise_wanted(void *arg)
{
	(void)arg;
	return wanted_raise();
}

/* True when the card has more free than before, or enough. */
static bool ask_all(struct dev dev, uint64_t bytes)
{
	int64_t until_ns = clock_now_ns() + WAIT_NS;
	uint64_t before_bytes, now_bytes;

	if (others_card_free(dev, &before_bytes) < 0 || root_do(raise_wanted, NULL) < 0)
		return false;
	now_bytes = before_bytes;
	while (now_bytes < bytes && clock_now_ns() < until_ns) {
		clock_sleep_ns(NAP_NS);
		if (others_card_free(dev, &now_bytes) < 0)
			return false;
	}
	return now_bytes > before_bytes;
}

bool others_give_card(struct dev dev, uint64_t bytes)
{
	if (others_give(dev, bytes))
		return true;
	if (!state.s.ops || state.s.ops->card_users() < 2 ||
	    clock_now_ns() < atomic_load(&state.s.again_ns[dev.v]))
		return false;
	if (ask_all(dev, bytes))
		return true;
	atomic_store(&state.s.again_ns[dev.v], clock_now_ns() + VAIN_NS);
	return false;
}
