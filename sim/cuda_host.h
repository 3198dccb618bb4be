/* Pinned host memory. */
#pragma once

#include "cuda_range.h"

/* Gives the memory of a RANGE_HOST back; it is out of the map already. */
void cuda_host_release(struct cuda_range *range);
