/* Memory pools and stream-ordered memory. The driver's lock protects them. */
#pragma once

#include <stdbool.h>

#include "cuda_range.h"

/* May work on `dev` touch the pool's memory so? The map's lock is held. */
bool cuda_pool_is_accessible(const struct CUmemPoolHandle_st *pool, CUdevice dev,
			     enum range_access access);

/* The host has waited for work: pools give back what is free above their thresholds. */
void cuda_pool_trim_all(void);

/* Gives the memory of a RANGE_POOL back to its pool; it is out of the map already. */
void cuda_pool_release(struct cuda_range *range);
