/* Memory that came from outside as a descriptor, and buffers in it. */
#pragma once

#include "cuda_range.h"

/* Takes the mapping of a RANGE_EXTERNAL away; it is out of the map already. */
void cuda_external_release(struct cuda_range *range);
