/*
 * An image that is text (PTX): the variables in global memory that it declares.
 */
#pragma once

#include "core/image.h"

#include <stdbool.h>

/*
 * What it takes of a device, up to a zero; its code is not longer than itself. False: it is none.
 */
bool image_text_read(const char *text, struct image_bytes *out);
