#include "drv/relaxed.h"

#include "drv/real.h"

struct relaxed relaxed_begin(void)
{
	struct relaxed before = { .mode = CU_STREAM_CAPTURE_MODE_RELAXED };

	before.is_set = real.cuThreadExchangeStreamCaptureMode &&
			real.cuThreadExchangeStreamCaptureMode(&before.mode) == CUDA_SUCCESS;
	return before;
}

void relaxed_end(struct relaxed before)
{
	if (before.is_set)
		real.cuThreadExchangeStreamCaptureMode(&before.mode);
}
