/* The primary context of each device, as it was seen last: what ends with it is found by that. */
#pragma once

#include "hook/enter.h"

/* The device's is this one now. */
void primary_note(struct dev dev, const void *ctx);

/* NULL when none was seen. */
const void *primary_last(struct dev dev);

/*
 * One that was there when it was retained, or by other ways: another than we knew of was made
 * unseen, and is counted now.
 */
void primary_look(const void *ctx, CUdevice ord);
