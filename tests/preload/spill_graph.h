/* An executable graph that uses one piece of memory, made in one of several ways. */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>

/*
 * It uses a few bytes at `hot`; `copy` is the kernel of that name. In some ways it is made to use
 * memory of its own first, which has no room on the card, and then changed. False: there is no such
 * way.
 */
bool spill_graph_make(const char *way, CUfunction copy, CUdeviceptr hot);

void spill_graph_launch(void);
