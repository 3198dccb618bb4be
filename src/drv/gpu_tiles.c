#include "drv/gpu_tiles.h"

#include "core/charge.h"
#include "core/gate.h"
#include "core/tiles.h"
#include "drv/gpu_event.h"
#include "drv/gpu_pool.h"
#include "drv/relaxed.h"
#include "drv/visit.h"

static struct stage *new_stage(uint64_t id, CUstream stream)
{
	uint64_t mark = gpu_event_take(gpu_event_context(visit_stream_context(stream)), true);
	struct stage *stage = mark ? stage_make(id, mark) : NULL;

	if (mark && !stage)
		gpu_event_give(mark);
	return stage;
}

struct stage *gpu_tiles_stage(CUstream stream)
{
	struct relaxed r = relaxed_begin();
	uint64_t id = gpu_pool_stream_id(stream);
	struct stage *stage = stage_join(id);

	if (!stage)
		stage = new_stage(id, stream);
	if (stage)
		stage_put(stage, GATE_CALL(gpu_event_record(stage_mark(stage), stream, false)));
	relaxed_end(r);
	return stage;
}

/* Of a context that is gone, or failed, only its end tells what is mapped. */
static enum stage_state ask(uint64_t mark)
{
	int64_t gpu_ns;

	switch (gpu_event_read(mark, &gpu_ns)) {
	case GPU_EVENT_RUNNING:
		return STAGE_RUNNING;
	case GPU_EVENT_DONE:
		return STAGE_PASSED;
	default:
		return STAGE_LOST;
	}
}

bool gpu_tiles_settle(void)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };
	bool is_any = false;
	struct relaxed r;

	if (stage_any()) {
		r = relaxed_begin();
		if (stage_settle(ask, gpu_event_give))
			tiles_note_end();
		relaxed_end(r);
	}
	if (!tiles_is_due())
		return false;
	charge_begin();
	tiles_settle(freed_bytes);
	charge_freed_handles(freed_bytes);
	charge_over();
	for (int d = 0; d < RATION_DEVICES; d++)
		is_any |= freed_bytes[d] > 0;
	return is_any;
}
