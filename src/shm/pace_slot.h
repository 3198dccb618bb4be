/*
 * A process's part in what the region holds about a device's time (ration/pace.h).
 */
#pragma once

#include <ration/pace.h>

/*
 * Whoever takes or reaps a slot, with its byte held: the dead process's predictions are dropped, what it
 * used stays debited.
 */
void pace_slot_clear(struct pace_device *device, unsigned slot);
