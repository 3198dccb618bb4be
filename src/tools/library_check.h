/* Whether a file is the library. */
#pragma once

#include <stddef.h>

/*
 * Loads the file as the dynamic linker will in programs: what that cannot preload it passes over,
 * and the program would run without a limit. The library does nothing by being loaded.
 * 0, or -ENOEXEC with a line in out_error.
 */
int library_check(const char *path, char *out_error, size_t error_bytes);
