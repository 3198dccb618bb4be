/*
 * Device memory for the allocations of graphs: each device keeps a store of it, which grows as
 * graphs are uploaded or launched and gives back only when it is trimmed. The driver's lock protects
 * it.
 */
#pragma once

#include <stdint.h>

#include "abi/cuda.h"

/* A store grows by whole units, and what graphs have of it begins at one (docs/real-gpu.md). */
#define CUDA_GRAPH_STORE_UNIT_BYTES (UINT64_C(32) << 20)

/* Takes *inout_bytes, made whole units, out of the device's store, which grows for it. 0 or -ENOMEM. */
int cuda_graph_store_take(CUdevice dev, uint64_t *inout_bytes, uint64_t *out_address);

/* Puts it back: it stays the store's. */
void cuda_graph_store_give(CUdevice dev, uint64_t address, uint64_t bytes);

/* The open file description of `fd` keeps what a graph took at that address, when the device has it
 * back. */
CUresult cuda_graph_store_mark(CUdevice dev, uint64_t address, uint64_t bytes, int fd);

/* The device gets back what lies in the store unused. */
void cuda_graph_store_trim(CUdevice dev);
