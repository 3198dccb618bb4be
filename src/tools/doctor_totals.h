/* Do the driver's answers show the limit? */
#pragma once

#include "tools/doctor_driver.h"

/* Compares the total memory of each device, by CUDA and by NVML, with the region at `path`. */
void doctor_totals_report(const struct doctor_driver *driver, const char *path);
