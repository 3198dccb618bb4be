/*
 * A constant expression of a text image (PTX), as the count of an array's elements.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Its value; UINT64_MAX where it is none, is more, or is made of what is not known here. */
uint64_t image_number_read(const char *at, size_t len);
