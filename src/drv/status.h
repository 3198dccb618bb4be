/* The one translation between our errors and the driver's, both ways. */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>

/*
 * 0 or -errno as a CUresult: -EDQUOT and -ENOMEM are CUDA_ERROR_OUT_OF_MEMORY, so that a program
 * sees the limit as it would see a full card.
 */
CUresult status_cuda(int rc);

/*
 * A CUresult as 0 or -errno: -ENOMEM, -ENOTSUP, -EINVAL (arguments, handles), -EAGAIN (not done
 * yet, or a capture is in the way); all else -ENODEV.
 */
int status_errno(CUresult res);

/* True for the errors of work after which nothing of its context goes on. */
bool status_is_sticky(CUresult res);
