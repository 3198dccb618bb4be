/*
 * Memory that is registered with another device (RDMA, GPUDirect Storage, GDRCopy) must not leave
 * the GPU's: that device has its physical addresses. Nobody tells us of a registration; so where a
 * library is mapped that makes such, nothing leaves, unless the operator says that it may.
 */
#pragma once

#include <stdbool.h>

/* With the start of a member. `may_move`: what is said of RATION_RDMA. */
void rdma_start(bool may_move);

/*
 * Looks whether memory has to stay where it is. Once it had to, it has to. It reads the list of
 * mappings, which takes milliseconds: when something is about to leave. It is logged once.
 */
bool rdma_look(void);

/* What rdma_look() has found so far. One load. */
bool rdma_is_there(void);
