/*
 * Reservations, as bo_*.c have them: bo_reserve() and bo_unreserve() are in bo.h.
 */
#pragma once

#include "core/bo.h"

/* Has it, without waiting, with the mutex. False when somebody has it or waits for it by right. */
bool bo_reserve_try(struct bo *bo, struct bo_ticket *ticket);

/* As bo_unreserve(), with the mutex. */
void bo_reserve_end(struct bo *bo);

/* As bo_reserve() with a deadline (clock_now_ns()). */
int bo_reserve_until(struct bo *bo, struct bo_ticket *ticket, int64_t until_ns);

/*
 * Waits for any reservation of the device to end. With the mutex, which is given back meanwhile.
 * False when none has.
 */
bool bo_reserve_wait(struct bo_device *device, int64_t until_ns);
