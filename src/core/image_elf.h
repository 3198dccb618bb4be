/*
 * Machine code of a device (a cubin): an ELF file whose sections are variables, constants and code.
 */
#pragma once

#include "core/image.h"
#include "core/image_source.h"

#include <stdbool.h>

/* What it takes of a device. False where it is none, or broken. */
bool image_elf_read(const struct image_source *s, struct image_bytes *out);
