/*
 * Memory of cuMemCreate that is mapped in sparse arrays, in tiles of 64 KiB. The driver's lock
 * protects it.
 */
#pragma once

#include <stdbool.h>

struct CUarray_st;

/* True for the flags of an array that is sparse. */
bool cuda_tile_is_sparse(unsigned flags);

/* The array is about to go: nothing is mapped in it any more. */
void cuda_tile_end(const struct CUarray_st *array);
