/*
 * Fat binaries: one image in several forms, machine code for some architectures and text, of which
 * the driver takes one. The format's description is not NVIDIA's: what is unknown in it is
 * expected to take as much as the file is long.
 */
#pragma once

#include "core/image.h"
#include "core/image_source.h"

#include <stdbool.h>

/*
 * What the member that a device of this architecture (image_read()) gets takes of it, at most.
 * False where it is none, or broken.
 */
bool image_fatbin_read(const struct image_source *s, unsigned arch, struct image_bytes *out);
