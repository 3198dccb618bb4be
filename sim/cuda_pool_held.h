/*
 * What pools hold that were shared: for its own pool of each piece that was given, and for each
 * process of each that it has had, until the pool is destroyed; of one address what came last.
 */
#pragma once

#include <stdint.h>

#include "abi/cuda.h"

struct cuda_pool_held;

/* Holds what `export` names (machine_export.h), which began at `address` in its own process. */
CUresult cuda_pool_held_add(struct cuda_pool_held **list, uint64_t address, uint64_t export);

void cuda_pool_held_end(struct cuda_pool_held **list);
