/*
 * Driver calls that take device memory without saying how much: modules, libraries, green contexts,
 * a context's heaps. What such a call took is learnt from the driver after it; one that passes the
 * limit is undone by its hook.
 */
#pragma once

#include "core/library.h"
#include "core/untold.h"
#include "hook/enter.h"
#include "hook/loading.h"
#include "hook/system_calls.h"

/* One such call. Constant between begin and finish. */
struct overhead {
	bool counts;     /* false: nothing is charged, finish() is 0 */
	bool is_refused; /* the limits cannot be held: nothing is to be made that lasts */
	struct dev dev;
	uint64_t before_bytes;
	uint64_t reserved_bytes;
	uint64_t untold_bytes;  /* after it: of them, what stays as no look tells what it took */
	uint64_t doubt_bytes;   /* after it: what the call may have taken beyond what is charged */
	uint64_t managed_bytes; /* of managed variables of what it loads: charged by reserve() */
	bool is_library;        /* they are one library's in all contexts */
	struct system_calls calls; /* of what it loads */
};

/* Before a call in the calling thread's context. */
void overhead_begin(struct overhead *o);

/* Before a call on the device with this ordinal. */
void overhead_begin_on(struct overhead *o, CUdevice ord);

/*
 * After it: the call loads something with these system calls into the calling thread's context
 * (enum image_calls). overhead_reserve() is for them too; after it succeeded, before
 * overhead_finish(), overhead_came(), which is false where `owner` has to be unloaded again.
 */
void overhead_expect(struct overhead *o, unsigned calls);
bool overhead_came(const struct overhead *o, const void *owner);

/*
 * After it: so many bytes of managed variables come, of a module or a library. They are charged as
 * data, since no look tells of them, until what has them is unloaded; overhead_reserve() is for
 * them too.
 */
void overhead_expect_managed(struct overhead *o, uint64_t bytes, bool is_library);

/* As overhead_reserve(), of these alone. */
CUresult overhead_reserve_managed(struct overhead *o);

/*
 * After it, before the call: reserves the most that the call takes, a block at least. CUDA_SUCCESS,
 * or the answer for the program, and then nothing is to be called. The other where the driver
 * refused the call.
 */
CUresult overhead_reserve(struct overhead *o, uint64_t bytes);
void overhead_cancel(struct overhead *o);

/*
 * After it succeeded, before overhead_finish(): variables of `owner`, a module or library, came to
 * the calling thread's context. lodger_enter() of core/lodger.h.
 */
void overhead_lodge(const struct overhead *o, const void *owner, uint64_t shared_bytes);

/* After it succeeded: 0, or -EDQUOT when what it took passes the limit. */
int overhead_finish(struct overhead *o);

/*
 * After overhead_finish(), where the card cannot be asked: what was reserved stays charged for
 * `owner` in `ctx` (core/untold.h); or nobody says when that ends, and it goes.
 */
void overhead_keep(struct overhead *o, const void *owner, const void *ctx);
void overhead_drop(struct overhead *o);

/* What was taken out of core/untold.h: its owners are gone now. */
void overhead_give_back(const struct untold_bytes *bytes);

/* After overhead_finish(): what the call took, at most. */
uint64_t overhead_taken(const struct overhead *o);

/* After overhead_finish(): true if the call gave back more than it took. */
bool overhead_fell(const struct overhead *o);

/* After the hook undid it: counts again, and the answer for the program. */
CUresult overhead_refuse(struct overhead *o);

/*
 * As overhead_reserve() and overhead_finish() for what cannot be taken back: above the limit none
 * is let in, and it may have the block that is kept back. Answers for the program.
 */
CUresult overhead_reserve_lasting(struct overhead *o, uint64_t bytes);
CUresult overhead_finish_lasting(struct overhead *o);

/* What a library of this image takes. */
struct library_need overhead_library_need(const struct loading *loading);

/*
 * As these, around the first question for that part of `library` (NULL: of an unknown one) in the
 * calling thread's context: it takes the library's memory, which stays until the library is
 * unloaded. What was asked for there before is always let in. CUDA_SUCCESS, or the answer for the
 * program; the second is given the driver's answer.
 */
CUresult overhead_begin_library(struct overhead *o, CUlibrary library, enum library_part part);
CUresult overhead_finish_library(struct overhead *o, CUlibrary library, enum library_part part,
				 CUresult res);
