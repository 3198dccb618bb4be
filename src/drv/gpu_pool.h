/*
 * Questions to the driver about memory pools. No call of these holds a lock of ours.
 */
#pragma once

#include "core/device.h"
#include "core/piece.h"
#include "core/pool.h"

#include "abi/cuda.h"

/* The device whose current pool serves `stream`: the stream's; false when there is none. */
bool gpu_pool_stream_device(CUstream stream, struct cuda_ord *out_ord);

/*
 * The device of a pool that the program did not create: a device's own, or the one that it uses
 * now. False when it is none of those.
 */
bool gpu_pool_recognise(CUmemoryPool pool, CUstream stream, struct cuda_ord *out_ord,
			enum pool_kind *out_kind);

/*
 * What the pool (or a device's graph store, core/graph.h) holds of its device; false when the
 * driver cannot say.
 */
bool gpu_pool_held(const void *pool, uint64_t *out_bytes);

/*
 * Asks for that figure and settles it against what was reserved. 0, or -EDQUOT as pool_settle().
 * Where the driver does not say, what was reserved stays charged until it does.
 */
int gpu_pool_settle(const void *pool, uint64_t reserved_bytes);

/*
 * As that after an allocation, as pool_settle_doubt(): nothing is undone. Where the driver does not
 * say, what the pool may have grown by stays charged.
 */
int gpu_pool_settle_doubt(struct pool_doubt *d);

/* The pool that memory at the address came from; false when the driver does not say. */
bool gpu_pool_of(CUdeviceptr addr, CUmemoryPool *out_pool);

/* What the pool holds and has not given out; 0 when the driver cannot say. */
uint64_t gpu_pool_room(CUmemoryPool pool);

/*
 * Has the pool give back what it does not use: true when it holds nothing then. What was freed in a
 * stream that has not come to it is out of the pool's figure of what is used and still held: that
 * is waited for so long.
 */
bool gpu_pool_drain(CUmemoryPool pool, int64_t wait_ns);

/* Asks for the figure of each known pool of the device and settles it. */
void gpu_pool_refresh(struct dev dev);

/*
 * Has every known pool of the device give back what it does not use, as the driver does when the
 * card is full, and settles. A graph store keeps what it has, as it does then: the graphs count on
 * it. True when there was a pool.
 */
bool gpu_pool_reclaim(struct dev dev);

/*
 * Has pools of the device give back `bytes` that they do not use, `last` only if others have not
 * enough, and settles.
 */
void gpu_pool_shrink(struct dev dev, const void *last, uint64_t bytes);

/*
 * An allocation that is not to stay was freed in `stream`: what the pool took for it goes back to
 * the card, at once if the stream comes to it soon, else when the pool is looked at next.
 */
void gpu_pool_undo(const struct pool_doubt *d, CUstream stream);

/* A number that no other stream of this process has or had; 0 when the driver does not say. */
uint64_t gpu_pool_stream_id(CUstream stream);

/* True when the pool gives nothing back to the card but by a trim. */
bool gpu_pool_keeps(CUmemoryPool pool);

/*
 * `piece`, of a managed pool, was freed in the stream, which has perhaps not come to that: it is
 * marked there. Before piece_over(). And asks the marks of destroyed pools.
 */
void gpu_pool_mark(struct piece *piece, CUstream stream);
void gpu_pool_settle_marked(void);

/* Waits some time until the stream has done all work; for what was freed in it. */
void gpu_pool_await(CUstream stream, int64_t wait_ns);
