#include "core/suspect.h"

#include "base/process.h"

#include <stdatomic.h>

enum { SUSPECTS = 16 };

struct suspect_state {
	_Atomic uint64_t addrs[SUSPECTS]; /* atomic */
	_Atomic unsigned noted;           /* ever; atomic */
};
PROCESS_STATE(suspect_state, state);

void suspect_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

void suspect_note(uint64_t addr)
{
	atomic_store(&state.s.addrs[atomic_fetch_add(&state.s.noted, 1) % SUSPECTS], addr);
}

bool suspect_is(uint64_t addr)
{
	if (!atomic_load_explicit(&state.s.noted, memory_order_relaxed))
		return false;
	for (int i = 0; i < SUSPECTS; i++)
		if (atomic_load(&state.s.addrs[i]) == addr)
			return true;
	return false;
}
