/*
 * A function's first launch lets its context's local memory grow, which no other call shows: what
 * that takes is reserved before (core/local.h). The driver is asked what a function needs when it
 * is launched, since the question would load it.
 */
#pragma once

#include "abi/cuda.h"
#include "core/function.h"
#include "core/local.h"

#include <stdbool.h>

/* One launch; on its caller's stack. */
struct first_launch {
	struct local_growth growth;
	bool is_captured;
};

/* The program is about to get a function, of a module or library; or a kernel, of a library. */
void first_launch_given(CUfunction function, const void *owner);
void first_launch_given_kernel(CUkernel kernel, CUlibrary library);

/* The program had the driver load it: asking takes nothing more. */
void first_launch_loaded(CUfunction function);

/*
 * Before the launch of a function or kernel that is not settled, into that stream. CUDA_SUCCESS,
 * then first_launch_finish() follows; or it would pass the limit. What is captured takes memory now
 * or in the graph, as the driver likes.
 */
CUresult first_launch_begin(struct first_launch *f, CUfunction function, CUstream stream,
			    bool is_captured);
void first_launch_finish(struct first_launch *f, CUresult res);

/* True when nothing is to be done for such a launch, until what hook/again.h keeps is void. */
bool first_launch_is_over(CUfunction function, CUstream stream);

/*
 * Before a kernel or function is used in the current context: its library, or its module's code,
 * comes there with it. CUDA_SUCCESS, or that passes the limit.
 */
CUresult first_launch_let_in(CUfunction handle);

/* As that in another context; NULL: in the current one. */
CUresult first_launch_let_in_at(CUfunction handle, CUcontext ctx);

/*
 * As first_launch_begin() for whatever gives the threads of the current context so much memory
 * each.
 */
CUresult first_launch_reserve(struct local_growth *growth, uint32_t thread_bytes,
			      const void *handle);

/* As that in another context; NULL: in the current one. */
CUresult first_launch_reserve_at(struct local_growth *growth, uint32_t thread_bytes,
				 const void *handle, CUcontext ctx);

/*
 * The stream's context: of a green context's the primary one, which alone more than one thread may
 * have. NULL: the current one.
 */
CUcontext first_launch_context_of(CUstream stream);

/* Threads that can be resident on the device at a time; 0 where the driver does not say. */
uint64_t first_launch_resident_threads(struct cuda_ord ord);

/* Local memory of a function's or kernel's threads in the current context; false if unknown. */
bool first_launch_thread_bytes(CUfunction function, uint32_t *out_bytes);

/* As that in another context, where its library is let in; NULL: in the current one. */
bool first_launch_thread_bytes_at(CUfunction handle, CUcontext ctx, uint32_t *out_bytes);
