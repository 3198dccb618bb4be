#include "hook/system_calls.h"

#include "base/bytes.h"
#include "core/charge.h"
#include "core/green.h"
#include "core/image.h"
#include "core/local.h"
#include "core/promise.h"
#include "core/quota.h"
#include "core/track.h"
#include "core/untold.h"
#include "drv/gpu_cuda.h"
#include "drv/real.h"
#include "hook/first_launch.h"

#include <errno.h>

/*
 * Of the stack, for each thread that can be resident: 240, 341, 528 and at most 318 bytes on an
 * H200 (docs/real-gpu.md), and an eighth.
 */
enum { PRINT_BYTES = 272, OTHER_BYTES = 384, LAUNCH_BYTES = 384, HEAP_STACK_BYTES = 600 };

/* The heap is that much larger than its limit. */
#define HEAP_MORE_BYTES TRACK_BLOCK_BYTES

/* Of a launch that waits: 9.2 KiB on an H200. Of a level of synchronising: CUDA's guide. */
#define LAUNCH_WAITS_BYTES (UINT64_C(10) << 10)
#define SYNC_LEVEL_BYTES (UINT64_C(150) << 20)

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The most that any of them needs: the stack is one. */
static uint32_t stack_bytes(unsigned calls)
{
	uint32_t bytes = calls & IMAGE_CALLS_PRINT ? PRINT_BYTES : 0;

	bytes = larger(bytes, calls & IMAGE_CALLS_OTHER ? OTHER_BYTES : 0);
	bytes = larger(bytes, calls & IMAGE_CALLS_LAUNCH ? LAUNCH_BYTES : 0);
	return larger(bytes, calls & IMAGE_CALLS_HEAP ? HEAP_STACK_BYTES : 0);
}

static uint64_t limit_of(CUlimit limit)
{
	size_t value = 0;

	return real.cuCtxGetLimit && real.cuCtxGetLimit(&value, limit) == CUDA_SUCCESS ? value : 0;
}

static uint64_t heap_bytes(uint64_t limit)
{
	return bytes_round_up(bytes_sum(limit, HEAP_MORE_BYTES), TRACK_BLOCK_BYTES);
}

static uint64_t launch_bytes(void)
{
	return bytes_sum(bytes_product(limit_of(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT),
				       LAUNCH_WAITS_BYTES),
			 bytes_product(limit_of(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH),
				       SYNC_LEVEL_BYTES));
}

/* The calling thread's context, of a green one the primary, which has it; NULL: it has none. */
static const void *current(struct cuda_ord *out_ord)
{
	const void *ctx = NULL;

	return gpu_cuda_current(out_ord, &ctx) ? green_owner(ctx) : NULL;
}

struct system_calls system_calls_of(unsigned calls)
{
	struct system_calls s = { .calls = calls };
	struct local_calls has;
	struct cuda_ord ord;
	const void *ctx = calls ? current(&ord) : NULL;

	if (!ctx || !device_by_ordinal(ord, &s.dev))
		return (struct system_calls){ .ctx = NULL };
	s.ctx = ctx;
	has = local_calls(ctx);
	s.bytes = bytes_product(bytes_beyond(stack_bytes(calls),
					     larger(stack_bytes(has.calls),
						    has.thread_bytes - LOCAL_STACK_BYTES)),
				first_launch_resident_threads(ord));
	if (calls & ~has.calls & IMAGE_CALLS_LAUNCH)
		s.bytes = bytes_sum(s.bytes, launch_bytes());
	if (calls & IMAGE_CALLS_HEAP && promise_is_wanted(ctx))
		s.heap_bytes = heap_bytes(limit_of(CU_LIMIT_MALLOC_HEAP_SIZE));
	s.bytes = bytes_sum(bytes_round_up(s.bytes, TRACK_BLOCK_BYTES), s.heap_bytes);
	return s;
}

/*
 * Whoever had it reserved is gone since the load began, and with it what was awaited. No room is
 * made for it: a look at the card would wait for the load.
 */
static int await_anew(const struct system_calls *s, const void *owner)
{
	uint64_t bytes = heap_bytes(limit_of(CU_LIMIT_MALLOC_HEAP_SIZE));
	int rc = charge_reserve_context(s->dev, bytes);

	if (rc < 0)
		return rc;
	rc = promise_make(s->ctx, s->dev, owner, bytes);
	if (rc < 0)
		quota_release(s->dev, QUOTA_CONTEXT, bytes);
	charge_over();
	return rc;
}

bool system_calls_came(const struct system_calls *s, const void *owner)
{
	int rc;

	if (!s->ctx)
		return true;
	local_called(s->ctx, s->dev, s->calls);
	if (!(s->calls & IMAGE_CALLS_HEAP))
		return true;
	rc = promise_make(s->ctx, s->dev, owner, s->heap_bytes);
	return rc == 0 || (rc == -ENODATA && await_anew(s, owner) == 0);
}

uint64_t system_calls_limit_bytes(CUlimit limit, size_t before, size_t value)
{
	uint64_t more = bytes_beyond(value, before);
	struct cuda_ord ord;
	bool launches = local_calls(current(&ord)).calls & IMAGE_CALLS_LAUNCH;

	switch ((int)limit) {
	case CU_LIMIT_MALLOC_HEAP_SIZE:
	case CU_LIMIT_PRINTF_FIFO_SIZE:
		return more;
	case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
		return launches ? bytes_product(more, LAUNCH_WAITS_BYTES) : 0;
	case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
		return launches ? bytes_product(more, SYNC_LEVEL_BYTES) : 0;
	default:
		return 0;
	}
}

void system_calls_limit(CUlimit limit, size_t value)
{
	struct cuda_ord ord;

	if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
		promise_change(current(&ord), heap_bytes(value));
}

/* What more was charged for the context's heap goes by an address inside of it: no handle is. */
static const void *heap_owner(const void *ctx)
{
	return (const char *)ctx + 1;
}

/* Of what more was charged for the heap, so much goes; what that was. */
static uint64_t lessen(const void *ctx, struct dev dev, uint64_t less_bytes)
{
	struct untold_bytes bytes = { 0 };
	uint64_t gone_bytes;

	untold_take(heap_owner(ctx), &bytes);
	gone_bytes = bytes_least(bytes.module[dev.v], less_bytes);
	untold_add(heap_owner(ctx), ctx, dev, bytes.module[dev.v] - gone_bytes);
	quota_move(dev, QUOTA_MODULE, QUOTA_CONTEXT, gone_bytes);
	return gone_bytes;
}

uint64_t system_calls_limit_untold(CUlimit limit, struct dev dev, size_t before, size_t value,
				   uint64_t reserved_bytes)
{
	struct cuda_ord ord;
	const void *ctx = current(&ord);
	bool is_heap = limit == CU_LIMIT_MALLOC_HEAP_SIZE;

	if (!ctx)
		return reserved_bytes;
	if (is_heap && value < before)
		return bytes_sum(reserved_bytes,
				 lessen(ctx, dev, heap_bytes(before) - heap_bytes(value)));
	/* Without a module that brings it, it is charged with that; a buffer takes nothing. */
	if (is_heap ? promise_is_wanted(ctx) : limit == CU_LIMIT_PRINTF_FIFO_SIZE)
		return reserved_bytes;
	/* What is untold counts as module. */
	quota_move(dev, QUOTA_CONTEXT, QUOTA_MODULE, reserved_bytes);
	untold_add(is_heap ? heap_owner(ctx) : NULL, ctx, dev, reserved_bytes);
	return 0;
}
