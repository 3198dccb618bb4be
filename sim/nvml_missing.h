/* For nvml_missing.c, which cannot include the declarations of what it defines. */
#pragma once

#include "abi/nvml_enum.h"

/* What a call without behaviour answers: NOT_SUPPORTED, or UNINITIALIZED before nvmlInit. With
 * RATION_SIM_TRACE set it is named on stderr. */
nvmlReturn_t nvml_missing_answer(const char *symbol);
