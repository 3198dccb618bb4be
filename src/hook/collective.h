/*
 * Kernels that wait for kernels elsewhere (core/late.h), told by their names: those of NCCL,
 * NVSHMEM, MSCCL++ and the all-reduce kernels of inference servers. What the name says is
 * believed.
 */
#pragma once

#include "hook/work_call.h"

/* True of a kernel's name; of a function, where the driver tells it (CUDA 12.3). */
bool collective_is_name(const char *name);
/* As collective_is(), remembered by the handle: as good where a wrong answer is no harm. */
bool collective_is_seen(CUfunction function);

bool collective_is(CUfunction function);

/*
 * True if this may be one: the kernel, or a graph of a process that has launched or captured such
 * kernels, which may have some in it. A driver before CUDA 12.3 tells no names. Inside no lock of
 * ours.
 */
bool collective_may_be(const struct work_call *call, bool has_launched_some);
