/* Whether a device can do what it says: tried once, for real. */
#pragma once

#include "core/device.h"

/*
 * Has the device write to host memory that is mapped for it, copy there and read back: 0; -EAGAIN
 * when that cannot be tried now: without a context of the device that is current, during a
 * capture, where it could not be mapped; -EIO when bytes are not what they were, or copies fail,
 * twice. Waits a bounded time.
 */
int gpu_probe_host(struct cuda_ord ord);
