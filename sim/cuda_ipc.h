/* Linear memory of another process. */
#pragma once

#include "cuda_range.h"

/* Takes the mapping of a RANGE_IPC away; it is out of the map already. */
void cuda_ipc_release(struct cuda_range *range);
