#include "core/still.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/charge.h"

#include <errno.h>
#include <stdatomic.h>

/* How long one waits for a moment in which the card can be asked. */
#define ASK_WAIT_NS (20 * NSEC_PER_MSEC)
#define ASK_NAP_NS (100 * NSEC_PER_USEC)
/* How long a change lets others have their still moment. */
#define YIELD_NS (5 * NSEC_PER_MSEC)

/* And where what stands until then would be refused for. */
#define OWED_WAIT_NS (2 * NSEC_PER_SEC)

struct still_state {
	_Atomic unsigned wanted;              /* by so many threads; a futex */
	_Atomic bool is_owed[RATION_DEVICES]; /* atomic */
};
PROCESS_STATE(still_state, state);

void still_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

void still_yield(void)
{
	unsigned wanted = atomic_load_explicit(&state.s.wanted, memory_order_relaxed);
	int64_t end_ns, left_ns;

	if (__builtin_expect(wanted == 0, 1))
		return;
	end_ns = clock_now_ns() + YIELD_NS;
	while (wanted && (left_ns = end_ns - clock_now_ns()) > 0) {
		sys_futex_wait(&state.s.wanted, wanted, left_ns);
		wanted = atomic_load_explicit(&state.s.wanted, memory_order_relaxed);
	}
}

int still_reconcile_soon(struct dev dev, enum quota_kind kind)
{
	int64_t end_ns = 0;
	int rc;

	while ((rc = charge_reconcile(dev, kind)) == -EAGAIN) {
		int64_t now_ns = clock_now_ns();

		if (!end_ns)
			end_ns = now_ns + ASK_WAIT_NS;
		else if (now_ns >= end_ns)
			break;
		clock_sleep_ns(ASK_NAP_NS);
	}
	if (rc == 0 && atomic_load_explicit(&state.s.is_owed[dev.v], memory_order_relaxed))
		atomic_store(&state.s.is_owed[dev.v], false);
	return rc;
}

void still_owe(struct dev dev)
{
	atomic_store(&state.s.is_owed[dev.v], true);
}

static void want(void)
{
	atomic_fetch_add(&state.s.wanted, 1);
}

static void want_no_more(void)
{
	atomic_fetch_sub(&state.s.wanted, 1);
	sys_futex_wake_all(&state.s.wanted);
}

uint64_t still_reconcile(struct dev dev, enum quota_kind kind)
{
	int rc = charge_reconcile(dev, kind);

	if (rc == -EAGAIN) {
		want();
		rc = still_reconcile_soon(dev, kind);
		want_no_more();
	}
	return rc == -EAGAIN ? charge_doubt(dev) : 0;
}

int still_reconcile_refusing(struct dev dev, enum quota_kind kind)
{
	int64_t end_ns = clock_now_ns() + OWED_WAIT_NS;
	int rc = still_reconcile_soon(dev, kind);

	if (rc != -EAGAIN || !atomic_load(&state.s.is_owed[dev.v]))
		return rc;
	want();
	while (rc == -EAGAIN && clock_now_ns() < end_ns)
		rc = still_reconcile_soon(dev, kind);
	want_no_more();
	return rc;
}

bool still_is_over(struct dev dev, uint64_t doubt_bytes)
{
	uint64_t limit = quota_limit(dev), used = quota_used(dev);

	return limit && (used > limit || doubt_bytes > limit - used);
}
