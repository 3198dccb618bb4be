/*
 * Contexts and each thread's stack of them.
 *
 * A context's structure is never freed: a thread may still have it on its stack after another one
 * destroyed it, and must then hear CUDA_ERROR_CONTEXT_IS_DESTROYED.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/cuda.h"

enum { CONTEXT_LIMITS = 16 };

struct CUctx_st {
	/* constant after creation */
	CUdevice dev;
	int index; /* of the device in the machine */
	bool is_primary;
	struct CUgreenCtx_st *green; /* it is the view of this one; NULL: a context of its own */
	struct CUctx_st *home;       /* what a view stands for; else itself */
	/* the driver's lock */
	uint64_t id; /* new for every life of a primary context */
	bool is_alive;
	bool is_stopping; /* a thread is ending it and may have dropped the lock */
	int references;   /* retains of a primary context, attaches of another */
	unsigned flags, api_version;
	CUresult error; /* sticky: what every call answers from then on */
	uint64_t peers; /* ordinals whose memory this context may reach; the map's lock as well */
	uint64_t last_ticket; /* number of the last work submitted */
	size_t limit[CONTEXT_LIMITS];
	uint64_t limit_bytes[CONTEXT_LIMITS]; /* device memory taken for it */
	unsigned calls;                       /* enum cuda_image_calls of modules that came */
	CUfunc_cache cache_config;
	CUsharedconfig shared_config;
	struct CUstream_st *streams;
	struct CUstream_st *legacy;
	struct CUctx_st *next;
};

/* The calling thread's current context: CUDA_ERROR_INVALID_CONTEXT when there is none,
 * CONTEXT_IS_DESTROYED when it is gone, its own error when it has one. */
CUresult cuda_context_current(struct CUctx_st **out_ctx);

/* The same, but a context with an error is found too. */
CUresult cuda_context_current_any(struct CUctx_st **out_ctx);

/* What is on top of the calling thread's stack, when cuda_context_current_any() finds one: a view
 * where that finds its home. */
struct CUctx_st *cuda_context_top(void);

/* CUDA_SUCCESS when `ctx` is a living context, or the view of a living one. */
CUresult cuda_context_check(struct CUctx_st *ctx);

/* The same; a view becomes what it stands for. */
CUresult cuda_context_resolve(struct CUctx_st **ctx);

/* A context is ending: the calling thread does not have it current any more. */
void cuda_context_leave(const struct CUctx_st *ctx);

/* One reference more to a device's primary context, which comes to life with the first and ends with
 * the last. */
CUresult cuda_primary_retain(CUdevice dev, struct CUctx_st **out_ctx);
void cuda_primary_release(struct CUctx_st *ctx);

/* Brings a context to life on `dev`: takes its memory, makes its streams. One that another thread is
 * just ending is waited for. */
CUresult cuda_context_start(struct CUctx_st *ctx, CUdevice dev, unsigned flags);

/* It is gone at once; waits for its work and gives all its resources back. */
void cuda_context_stop(struct CUctx_st *ctx);

/* An unborn context on the list of all. NULL when host memory is out. */
struct CUctx_st *cuda_context_new(CUdevice dev, bool is_primary);

/* Notes the first error of a context; all its calls answer it from then on. */
void cuda_context_fail(struct CUctx_st *ctx, CUresult error);

/* First context of the list of all, living or not. */
struct CUctx_st *cuda_context_first(void);

/* True for a combination of creation flags that exists. */
bool cuda_context_are_flags_valid(unsigned flags);
