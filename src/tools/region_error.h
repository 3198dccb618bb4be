/* Why a region file cannot be read, for people. */
#pragma once

#include <stddef.h>

/* What is to be said behind the path of a file for which view_read() gave `error`. Returns `out`. */
char *region_error_text(const char *path, int error, char *out, size_t out_bytes);
