/*
 * When what is mapped in sparse arrays (core/tiles.h) is unmapped: marks in the streams that do it.
 */
#pragma once

#include "core/stage.h"

#include "abi/cuda.h"

/*
 * The stage behind what was just given to the stream, of which the caller has a share; NULL where
 * none can be had. The stream takes no part in a capture.
 */
struct stage *gpu_tiles_stage(CUstream stream);

/*
 * Asks the marks, and takes the charge of what has been unmapped off. True when there was some.
 * Nothing of the calling thread is under way.
 */
bool gpu_tiles_settle(void);
