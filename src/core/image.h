/*
 * What a module's image says that it takes of a device: text (PTX), machine code (a cubin), or a
 * fat binary of either, as the program hands them to the driver.
 *
 * Thread safe; an image may be broken, or end before it says so.
 */
#pragma once

#include <stdint.h>

/* Functions of the driver's own that an image's may call, as bits; what is unknown is all. */
enum image_calls {
	IMAGE_CALLS_PRINT = 1, /* vprintf */
	IMAGE_CALLS_HEAP = 2,  /* malloc, free */
	IMAGE_CALLS_LAUNCH = 4,
	IMAGE_CALLS_OTHER = 8, /* such as __assertfail */
	IMAGE_CALLS_ALL = 15,
};

struct image_bytes {
	uint64_t variable_bytes; /* variables and constants: taken when it is loaded */
	uint64_t managed_bytes;  /* managed variables: taken then, or when they are touched */
	uint64_t code_bytes;     /* at most; taken then, or with the first use of a function */
	unsigned calls;          /* enum image_calls */
};

/* Which of them a function of that name is, which the image has not itself. */
unsigned image_calls_of(const char *name);

/*
 * Of an image in memory, on a device of compute capability `arch` (major * 10 + minor; 0: not
 * known). Zeros where it says nothing, or it is NULL; UINT64_MAX where it takes something that is
 * not understood.
 */
struct image_bytes image_read(const void *image, unsigned arch);

/* As that of a file. What is neither a file nor a directory may take anything. */
struct image_bytes image_read_file(const char *path, unsigned arch);
