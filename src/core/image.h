/*
 * What a module's image says that it takes of a device: text (PTX), machine code (a cubin), or a
 * fat binary of either, as the program hands them to the driver.
 *
 * Thread safe; an image may be broken, or end before it says so.
 */
#pragma once

#include <stdint.h>

struct image_bytes {
	uint64_t variable_bytes; /* variables and constants: taken when it is loaded */
	uint64_t code_bytes;     /* at most; taken then, or with the first use of a function */
};

/*
 * Of an image in memory, on a device of compute capability `arch` (major * 10 + minor; 0: not
 * known). Zeros where it says nothing, or it is NULL; UINT64_MAX where it takes something that is
 * not understood.
 */
struct image_bytes image_read(const void *image, unsigned arch);

/* As that of a file. What is neither a file nor a directory may take anything. */
struct image_bytes image_read_file(const char *path, unsigned arch);
