#include "drv/capture.h"

_Atomic uint32_t capture_count;

void capture_begin(void)
{
	atomic_fetch_add(&capture_count, 1);
}

void capture_end(void)
{
	uint32_t count = atomic_load(&capture_count);

	while (count > 0)
		if (atomic_compare_exchange_weak(&capture_count, &count, count - 1))
			break;
}
