/*
 * Whether the heap of kernels' malloc is there. The driver takes no other size for one that is
 * (INVALID_VALUE, at once, also for the size that it has, and while kernels run; docs/real-gpu.md);
 * before that, setting the size that it is to have changes nothing. So that is asked for, by nobody
 * but who looks at the card: neither does the program set a size nor the context end meanwhile.
 *
 * Thread safe. Who asks waits for no call of the driver; others wait for one question at most.
 */
#pragma once

#include "abi/cuda.h"
#include "core/device.h"

/*
 * What is awaited on the device (core/promise.h) and there has come. By a thread whose capture mode
 * is relaxed, before a look at the card.
 */
void gpu_heap_look(struct dev dev);

/* cuCtxSetLimit(), by the program. */
CUresult gpu_heap_set_limit(CUlimit limit, size_t value);

/* promise_rename() of a context: when this returns nobody asks in it. */
void gpu_heap_end_context(CUcontext ctx, const void *to);
