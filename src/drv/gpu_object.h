/*
 * The driver's side of core/object.h: addresses, memory and the fences of one device.
 *
 * Thread safe. Fences are numbers of epochs: a free is in the epoch that is open then, and done()
 * ends it by an event in each context of the device.
 */
#pragma once

#include "abi/cuda.h"
#include "core/object.h"

/* Starts: fork children begin with nothing. */
void gpu_object_init(void);

/* The owner of the objects of a device; NULL where its driver has not what they need. */
void *gpu_object_owner(struct cuda_ord ord);

/* A context that objects are made in: its work counts from now on. */
void gpu_object_enter_context(struct cuda_ord ord, const void *ctx);

/* The driver is about to end it, with all its work. */
void gpu_object_leave_context(const void *ctx);

/*
 * Has all copies and fills of a context wait until they are done. NOT_SUPPORTED where the driver
 * cannot.
 */
CUresult gpu_object_sync_memops(const void *ctx);

extern const struct object_ops gpu_object_ops __attribute__((visibility("hidden")));
