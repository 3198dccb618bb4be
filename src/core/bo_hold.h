/*
 * Objects of who is held: nothing of the program's runs, so that they may lie where work does not
 * reach them. The device's memory is free for others meanwhile.
 *
 * The caller sees to it that the program stays held from before bo_hold() until bo_unhold() has
 * answered 0.
 */
#pragma once

#include "core/bo.h"

/*
 * Moves all objects from device memory to BO_SYSTEM, but for pinned ones; what nobody has any more
 * is given back, also by threads that were at it. 0 when none is left there; else why one is, and
 * what went stays where it went: -EBUSY when somebody has it or its fence is not done, -ENOMEM when
 * host memory is out, or the error of its move.
 *
 * ctx->batch_bytes leave together: their memory is given back when all of them are copied.
 */
int bo_hold(struct bo_device *device, struct bo_ctx *ctx);

/* How much that would move now. */
uint64_t bo_hold_bytes(struct bo_device *device);

/*
 * As bo_hold(), and those in BO_GTT go to BO_SYSTEM too: no work reaches anything but pinned ones.
 */
int bo_hold_all(struct bo_device *device, struct bo_ctx *ctx);

/*
 * Moves all objects from BO_SYSTEM to device memory, or where there is no room to BO_GTT. 0 when
 * work reaches all of them; else as bo_hold(), and -ENOMEM when there is room in neither.
 * ctx->batch_bytes come together: memory for all of them is taken first.
 */
int bo_unhold(struct bo_device *device, struct bo_ctx *ctx);

/*
 * Moves all objects from BO_GTT to device memory: another device is to reach them. 0 when none is
 * left there; else as bo_hold().
 */
int bo_gather(struct bo_device *device, struct bo_ctx *ctx);

/* Where an object is that has memory. */
struct bo_span {
	uint64_t addr, bytes;
};

/*
 * All objects that are in device memory, pinned ones and those that wait for their end too; the
 * caller frees *out_spans. 0 or -ENOMEM.
 */
int bo_spans(struct bo_device *device, struct bo_span **out_spans, unsigned *out_count);
