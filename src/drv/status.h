/* The one translation between our errors and the driver's. */
#pragma once

#include "abi/cuda.h"

/*
 * 0 or -errno as a CUresult: -EDQUOT and -ENOMEM are CUDA_ERROR_OUT_OF_MEMORY, so that a program
 * sees the limit as it would see a full card.
 */
CUresult status_cuda(int rc);
