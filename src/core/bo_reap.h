/*
 * The end of objects that nobody has any more. bo_reap() is in bo.h.
 */
#pragma once

#include "core/bo.h"

/*
 * Ends a deleted object that the caller has reserved: true; or gives the reservation back, because
 * its fence is not done or it could not be unmapped.
 */
bool bo_reap_one(struct bo *bo);

/* Ends those in a place whose fences are done. Returns the bytes that it has more. */
uint64_t bo_reap_place(struct bo_device *device, enum bo_place place);

/* True while another thread is ending one. */
bool bo_reap_is_under_way(struct bo_device *device);

/* Waits for the one in a place that is done first, and ends it. True when it did. */
bool bo_reap_wait(struct bo_device *device, enum bo_place place, int64_t until_ns);
