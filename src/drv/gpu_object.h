/*
 * The driver's side of core/object.h on one device: addresses, fences and, by drv/gpu_bo.h, memory.
 */
#pragma once

#include "abi/cuda.h"
#include "core/object.h"
#include "drv/gpu_bo.h"

/* Starts, with what it rests on: fork children begin with nothing. */
void gpu_object_init(void);

/*
 * Has all copies and fills of a context wait until they are done. NOT_SUPPORTED where the driver
 * cannot.
 */
CUresult gpu_object_sync_memops(const void *ctx);

/* True when host memory can lie at addresses of objects of the device, which is open. */
bool gpu_object_can_spill(struct cuda_ord ord);

/* For object_open(), with an owner of gpu_bo_open(). */
extern const struct object_ops gpu_object_ops __attribute__((visibility("hidden")));
