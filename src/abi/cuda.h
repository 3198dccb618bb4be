/*
 * The part of the CUDA driver API that Ration names, from CUDA 11.8 to 13.
 *
 * Our own declarations, so that neither the toolkit nor its licence is needed to build. Every
 * symbol of the driver's library stands under its ELF name: cuMemAlloc is the call of CUDA 3, and
 * cuMemAlloc_v2 what a program compiled today gets by writing cuMemAlloc. No macro renames
 * anything. _ptsz and _ptds are the forms whose default stream is the calling thread's own.
 *
 * A type without a version in its name has today's layout; a driver older than the structure reads
 * only the part that it knows. tests/lint/check-abi compares all of it with NVIDIA's headers.
 */
#pragma once

#include "abi/cuda_proto_copy.h"
#include "abi/cuda_proto_device.h"
#include "abi/cuda_proto_graph.h"
#include "abi/cuda_proto_mem.h"
#include "abi/cuda_proto_module.h"
#include "abi/cuda_proto_stream.h"
