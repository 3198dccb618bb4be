/*
 * Images that are no text: machine code (a cubin) and fat binaries. The machine code is not
 * executed, kernels are built in; what counts is what it takes of the device.
 */
#pragma once

#include <stdbool.h>

#include "abi/cuda.h"

struct cuda_image;

/* True for what begins as such an image. */
bool cuda_binary_is(const void *image);

/*
 * Reads it for the first device. Where it has no machine code for that, its text comes back, which
 * the caller frees; else NULL. CUDA_ERROR_NO_BINARY_FOR_GPU when it has neither.
 */
CUresult cuda_binary_read(const void *image, struct cuda_image *inout_image, char **out_text);
