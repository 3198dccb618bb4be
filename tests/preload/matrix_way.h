/*
 * The ways to get device memory, each with one shape: start once, take pieces until one is refused,
 * give them back, settle. Nothing in here knows which driver it runs on.
 */
#pragma once

#include <stdint.h>

#include "abi/cuda.h"

/* One piece; which fields are used is the way's affair. */
struct matrix_piece {
	CUdeviceptr address;
	uint64_t handle;
	void *object, *second;
};

struct matrix_way {
	const char *name;
	/* Once, with the primary context current. NULL: nothing to do. */
	CUresult (*start)(void);
	CUresult (*take)(uint64_t bytes, struct matrix_piece *out_piece);
	CUresult (*give)(struct matrix_piece *piece);
	/* After all was given: what is only kept for later goes back too. NULL: nothing is kept. */
	CUresult (*settle)(void);
};

/* The way of that name; NULL when there is none. */
const struct matrix_way *matrix_way_find(const char *name);

/* Memory that is held by a sparse array alone (matrix_sparse.c). */
extern const struct matrix_way matrix_sparse;

/* Ways that need a second process of the tenant (matrix_share.c). */
extern const struct matrix_way matrix_share_ipc, matrix_share_handle, matrix_share_external,
	matrix_share_pool, matrix_share_given;

/* Ways that need descriptors (matrix_lent.c). */
extern const struct matrix_way matrix_lent_descriptor, matrix_lent_dma_buf, matrix_lent_import,
	matrix_lent_graph;
