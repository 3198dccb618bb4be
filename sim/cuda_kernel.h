/* The kernels that every module contains, whatever its image. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "cuda_turn.h"

struct cuda_kernel {
	const char *name;
	int params;
	int param_bytes[6]; /* naturally aligned, in order */
	CUresult (*run)(struct CUctx_st *ctx, struct cuda_turn *turn, const uint64_t *param);
};

/* How many there are, and one of them. */
int cuda_kernel_count(void);
const struct cuda_kernel *cuda_kernel_get(int i);

/* The kernel of that name; NULL when there is none. */
const struct cuda_kernel *cuda_kernel_find(const char *name);

/* Where parameter `i` lies in the parameter buffer. */
size_t cuda_kernel_param_offset(const struct cuda_kernel *kernel, int i);

/* Bytes of the whole parameter buffer. */
size_t cuda_kernel_params_bytes(const struct cuda_kernel *kernel);

/* Touches device memory piece by piece, as a kernel of `ctx` does: checks the rights of each piece
 * and waits for turns between them. `touch` gets the piece's offset and length. */
struct cuda_span {
	uint64_t address;
	int is_written;
	int unit_bytes; /* bytes of it per unit of work; 0: it is not touched */
};
typedef void (*cuda_span_touch)(void *arg, uint64_t first_unit, uint64_t units);

CUresult cuda_kernel_touch(struct CUctx_st *ctx, struct cuda_turn *turn,
			   const struct cuda_span *spans, int count, uint64_t units,
			   cuda_span_touch touch, void *arg);
