/*
 * Events. A record is one cuEventRecord: it is done when the work before it is, and keeps its time.
 * What waits for an event waits for the record it had at that moment. The driver's lock protects it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"

struct cuda_capture;
struct cuda_work;

struct cuda_record {
	int references;
	int pending;      /* streams that have not come to it yet */
	uint64_t time_ns; /* CLOCK_MONOTONIC, when the last of them did */
};

struct CUevent_st {
	struct CUctx_st *ctx;
	unsigned flags;
	struct cuda_record *record; /* NULL: never recorded */
	uint64_t capture_id;        /* recorded in this capture last; 0: in none */
	uint32_t *capture_clock;    /* how far each of its streams was then */
	struct CUevent_st *next, **link;
};

/* A record that `pending` streams must reach. NULL when host memory is out. */
struct cuda_record *cuda_record_new(int pending);

/* Gives a reference up; NULL is nothing. */
void cuda_record_put(struct cuda_record *record);

/* Work that makes `record` one stream more done, or that waits for it; takes a reference. NULL when
 * host memory is out. */
struct cuda_work *cuda_record_work(struct cuda_record *record);
struct cuda_work *cuda_record_wait_work(struct cuda_record *record);

/* The events of a context that ends are no handles any more. */
void cuda_event_delete_all(struct CUctx_st *ctx);
