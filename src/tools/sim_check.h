/* Does the software GPU start with the settings that it was given? */
#pragma once

#include "tools/device_list.h"

/*
 * Reads the devices with the software GPU's NVML at `path`, in the environment as it is. 0, also where
 * that library is not there; -EINVAL for settings that are wrong, -EIO when it does not start for
 * another reason, both with what it said in out_error.
 */
int sim_check(const char *path, struct device_list *out_list, char *out_error, size_t error_bytes);
