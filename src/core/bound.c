#include "core/bound.h"

#include "base/process.h"

#include <stdatomic.h>

struct bound_state {
	_Atomic bool is_any;
};
PROCESS_STATE(bound_state, state);

void bound_note(void)
{
	process_wipe_on_fork(&state, sizeof(state));
	atomic_store(&state.s.is_any, true);
}

bool bound_any(void)
{
	return atomic_load_explicit(&state.s.is_any, memory_order_relaxed);
}
