#include "hook/primary.h"

#include "base/process.h"
#include "drv/gpu_fence.h"

#include <stdatomic.h>

struct primary_state {
	_Atomic(const void *) last[RATION_DEVICES]; /* atomic */
};
PROCESS_STATE(primary_state, state);

void primary_note(struct dev dev, const void *ctx)
{
	process_wipe_on_fork(&state, sizeof(state));
	atomic_store(&state.s.last[dev.v], ctx);
}

const void *primary_last(struct dev dev)
{
	return atomic_load(&state.s.last[dev.v]);
}

void primary_look(const void *ctx, CUdevice ord)
{
	struct dev dev;

	if (!init_is_member() || !device_by_ordinal((struct cuda_ord){ ord }, &dev) ||
	    primary_last(dev) == ctx)
		return;
	primary_note(dev, ctx);
	gpu_fence_add_context((CUcontext)(uintptr_t)ctx, (struct cuda_ord){ ord }, true);
	charge_reconcile(dev, QUOTA_CONTEXT);
}
