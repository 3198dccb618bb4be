#include "hook/again.h"

#include <string.h>

/* Those of threads that have kept nothing: never written. */
static struct again nothing[AGAIN_PLACES] = { [0 ... AGAIN_PLACES - 1] = { .epoch = AGAIN_NEVER } };

__thread struct again *again_places = nothing;

union again_shared again_shared __attribute__((aligned(65536)));

static struct {
	_Atomic uint64_t lives; /* of this program and its fork children */
} program;

enum { LIFE_SHIFT = 40 };

void again_init(void)
{
	process_wipe_on_fork(&again_shared, sizeof(again_shared));
	atomic_store(&again_shared.epoch, (atomic_fetch_add(&program.lives, 1) + 1) << LIFE_SHIFT);
}

void again_void(void)
{
	atomic_fetch_add(&again_shared.epoch, 1);
}

void again_clear(struct again *places)
{
	memcpy(places, nothing, sizeof(nothing));
}

struct again *again_by_context(struct again *at, uint64_t epoch)
{
	CUcontext current;

	if (at->epoch != (epoch | AGAIN_BY_CONTEXT) ||
	    real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != at->ctx)
		return NULL;
	return at;
}

void again_cancel(struct again *at, int64_t cost_ns)
{
	at->thread->cost_ns = cost_ns;
	meter_cancel(at->meter, at->thread);
}
