/*
 * Where Ration's own files are: beside the executable in a build tree, under the same prefix when
 * installed, or where $RATION_LIB says.
 */
#pragma once

#include <stddef.h>

/*
 * Path of libration.so: absolute, without a blank or a colon, at which LD_PRELOAD would be cut, and
 * of a file that can be loaded. 0, or -errno with a line in out_error.
 */
int install_path_library(char *out_path, size_t path_bytes, char *out_error, size_t error_bytes);

/* The directory of the software GPU's libraries, likewise. */
int install_path_sim(char *out_path, size_t path_bytes, char *out_error, size_t error_bytes);
