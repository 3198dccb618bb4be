/* The devices this process sees: the machine's, as CUDA_VISIBLE_DEVICES picks and orders them. */
#pragma once

#include <stdbool.h>

#include "abi/cuda.h"
#include "machine.h"

/* Reads CUDA_VISIBLE_DEVICES; CUDA_ERROR_NO_DEVICE when nothing is left. Called by cuInit. */
CUresult cuda_device_enumerate(void);

/* How many devices are visible; 0 before cuda_device_enumerate(). */
int cuda_device_count(void);

/* True for 0 <= dev < count. */
bool cuda_device_is_valid(CUdevice dev);

/* The machine's index of a valid device. */
int cuda_device_index(CUdevice dev);

/* The machine's description of a valid device. */
const struct machine_device *cuda_device_get(CUdevice dev);

/* Value of an attribute of a valid device; CUDA_ERROR_INVALID_VALUE for an unknown one. */
CUresult cuda_device_attribute(CUdevice dev, CUdevice_attribute attribute, int *out_value);
