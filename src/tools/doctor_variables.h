/* Variables that are set and do nothing, or not what somebody may have meant. */
#pragma once

#include "base/conf.h"

#include <stdbool.h>

/*
 * Reports names that nobody reads but that look like ones that are read, and words not understood.
 * True when there are none.
 */
bool doctor_variables_report(const struct conf *conf);
