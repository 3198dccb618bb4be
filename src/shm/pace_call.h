/*
 * Has all who wait for a device's time look again: the limits changed.
 */
#pragma once

#include <ration/pace.h>

/* Any process that may write the region, after the new limits are stored. */
void pace_call(struct pace_device *device);
