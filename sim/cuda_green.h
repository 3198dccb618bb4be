/*
 * Green contexts: a part of a device's multiprocessors. What is made current is a view, a context
 * that stands for the device's primary one; only streams know to which green context they belong.
 * As contexts, they are never freed. The driver's lock protects them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"

struct CUctx_st;
struct CUstream_st;

struct CUgreenCtx_st {
	/* constant */
	struct CUctx_st *view; /* its home is the primary context */
	unsigned sms;
	uint64_t id;
	/* the driver's lock */
	struct CUstream_st *stream; /* what the handle 0 means where the view is current */
	bool is_alive;
	struct CUgreenCtx_st *next;
};

/* CUDA_SUCCESS when it is a living green context, whose primary context has no error. */
CUresult cuda_green_check(CUgreenCtx green);

/* How many multiprocessors work has on `dev`, in a green context or, for NULL, outside of any. */
unsigned cuda_green_sms(const struct CUgreenCtx_st *green, CUdevice dev);

/* A primary context ends, and with it the green ones that stand for it. */
void cuda_green_stop_all(const struct CUctx_st *ctx);
