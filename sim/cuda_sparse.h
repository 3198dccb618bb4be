/*
 * Copies that leave out what was never written. Device memory is files, of which untouched pages
 * are holes that read as zeros: a copy makes none of them, so that large memory of which a test
 * writes little costs little.
 */
#pragma once

#include <stdint.h>

/* As memmove(). The caller holds the map's lock (cuda_range.h). */
void cuda_sparse_copy(uint64_t dst, uint64_t src, uint64_t bytes);
