/*
 * What a module's image says of itself: of text (PTX) its variables in global memory and the local
 * memory of its kernels, of machine code how much memory it takes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"

/* Functions of the driver's that kernels of an image may call, as bits. */
enum cuda_image_calls { CALLS_PRINT = 1, CALLS_HEAP = 2, CALLS_LAUNCH = 4, CALLS_OTHER = 8 };

struct cuda_variable {
	char *name;
	uint64_t offset, size_bytes; /* in the memory of all variables, or of the managed ones */
	bool is_managed;
};

/* Constant after it was read; the driver's lock protects the references. */
struct cuda_image {
	int references;
	struct cuda_variable *variable;
	int variables;
	uint64_t variables_bytes; /* of all of them; those of machine code have no names here */
	uint64_t managed_bytes;   /* of those of text that are managed, which lie apart */
	uint64_t code_bytes;      /* of machine code; 0: not known */
	uint32_t *local_bytes;    /* of a thread of each built-in kernel */
	unsigned calls;           /* of text: what it declares as elsewhere */
};

/* Reads an image; CUDA_ERROR_INVALID_IMAGE when it is of no kind that the driver loads. */
CUresult cuda_image_read(const void *image, struct cuda_image **out_image);

/* One reference less; NULL is nothing. */
void cuda_image_put(struct cuda_image *image);

/* The variable of that name; NULL when there is none. */
const struct cuda_variable *cuda_image_find(const struct cuda_image *image, const char *name);
