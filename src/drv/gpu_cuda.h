/*
 * Questions to the driver. No call of these holds a lock of ours.
 */
#pragma once

#include "abi/cuda.h"
#include "core/device.h"
#include "core/gpu_ops.h"

/* False before cuInit, and in a fork child of a process that called it. */
bool gpu_cuda_ready(void);

/*
 * The devices with this process's CUDA ordinals, in their order; the driver is initialised. Returns
 * how many there are (never more than max), or -ENODEV.
 */
int gpu_cuda_devices(struct device_info *out, int max);

/* The device of the calling thread's context; false when it has none. */
bool gpu_cuda_current_device(struct cuda_ord *out_ord);

/* That and the context. */
bool gpu_cuda_current(struct cuda_ord *out_ord, const void **out_ctx);

/* The device of a context; by making it current for a moment. */
bool gpu_cuda_context_device(CUcontext ctx, struct cuda_ord *out_ord);

/* The device of an address of the card's memory; false for other memory. */
bool gpu_cuda_device_of(CUdeviceptr addr, struct dev *out_dev);

/* Whether the primary context of a device is alive. */
bool gpu_cuda_primary_active(struct cuda_ord ord);

/* The driver's side of core/gpu_ops.h. */
extern const struct gpu_ops gpu_cuda_ops __attribute__((visibility("hidden")));
