/*
 * What a module's image says that it takes of the device at least: the variables in global memory
 * of text (PTX). Other images are not read: they may be compressed, and the driver decides which
 * part of one is taken.
 */
#pragma once

#include <stdint.h>

/* Bytes of the variables; 0 where there are none, or the image is not text. It may be NULL. */
uint64_t image_variable_bytes(const void *image);
