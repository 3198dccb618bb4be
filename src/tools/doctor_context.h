/* Can what a context and its modules take be counted here? */
#pragma once

#include "tools/doctor_driver.h"

/*
 * Makes a context on the first device and looks whether it is charged in the region at `path` (NULL
 * without the library), or NVML lists this process under its own pid, which is where the library
 * learns what it takes. `is_free`: it is configured not to count.
 */
void doctor_context_report(const struct doctor_driver *driver, const char *path, bool is_free);
