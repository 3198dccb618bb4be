/*
 * Faults on demand, from the environment:
 *   RATION_SIM_FAULT="cuMemCreate:3=2,cuMemMap:1=lost"   the 3rd cuMemCreate answers 2; the first
 *       cuMemMap, and from then on every call, answers CUDA_ERROR_DEVICE_UNAVAILABLE
 *   RATION_SIM_MISSING="cuMemCreate,cuGetProcAddress_v2"  cuGetProcAddress does not know these
 * A name without a version stands for all forms of the call. Where a word of them cannot be
 * understood the driver does not start.
 */
#pragma once

#include <stdbool.h>

#include "cuda_call.h"

/* 0, or -EINVAL when a word of the variables is wrong; the first caller says which. Any thread. */
int cuda_fault_check(void);

/* Counts this call; the code it must answer instead of running, or CUDA_SUCCESS. Any thread, no
 * lock needed. */
CUresult cuda_fault_hit(enum cuda_id id);

/* True when RATION_SIM_MISSING names this symbol. */
bool cuda_fault_is_missing(const char *symbol);
