#include "shm/pace_call.h"

#include "base/sys.h"

void pace_call(struct pace_device *device)
{
	/* Release: who sees the word moved sees the limits. */
	__atomic_fetch_add(&device->change, 1, __ATOMIC_RELEASE);
	sys_futex_wake_shared(&device->change, UINT32_MAX);
}
