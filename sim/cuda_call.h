/*
 * Entry of every driver call: is the driver initialised, is a fault due, the driver's lock.
 *
 * cuda.lock protects every table and object of the software driver. Workers drop it while they
 * execute, and a waiting call drops it while it sleeps. The memory map has a lock of its own
 * (cuda_range.h), taken inside this one.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"

/* Exported are exactly the rows of the table. */
#define CALL(base, symbol, version, stream) \
	__typeof__(symbol) symbol __attribute__((visibility("default")));
#define NONE(base, symbol, version, stream)
#define ALIAS(base, symbol, version, stream)
#include "cuda_symbols.def"
#undef CALL
#undef NONE
#undef ALIAS

/* CUDA_ID_<symbol>: one for each exported symbol. */
enum cuda_id {
#define CALL(base, symbol, version, stream) CUDA_ID_##symbol,
#define NONE(base, symbol, version, stream) CUDA_ID_##symbol,
#define ALIAS(base, symbol, version, stream)
#include "cuda_symbols.def"
#undef CALL
#undef NONE
#undef ALIAS
	CUDA_IDS
};

struct CUctx_st;

/* Starts a call that needs the driver only. On success the driver's lock is held. */
CUresult cuda_call_begin(enum cuda_id id);

/* Starts a call that needs the calling thread's current context, healthy. On success the driver's
 * lock is held. */
CUresult cuda_call_begin_context(enum cuda_id id, struct CUctx_st **out_ctx);

/* Ends a call that was begun: drops the lock, returns `res`. */
CUresult cuda_call_end(CUresult res);

/* From now on the calling thread's calls answer CUDA_ERROR_NOT_PERMITTED, or do so no more. */
void cuda_call_forbid(bool is_forbidden);

/* The driver's lock, for workers and waits. */
void cuda_call_lock(void);
void cuda_call_unlock(void);

/* Waits on `cond`, which belongs to the driver's lock; the lock must be held. */
void cuda_call_wait(pthread_cond_t *cond);

/* True between a successful cuInit and the end of the process, false in a fork child. */
bool cuda_call_is_ready(void);

/* The version cuDriverGetVersion reports; may be asked before cuInit. */
int cuda_call_version(void);
