/*
 * Tests of objects on the software GPU: the real core/bo.c and the driver's side of it, in a fresh
 * process with a machine of its own.
 */
#pragma once

#include "base/clock.h"
#include "core/bo.h"
#include "core/bo_check.h"
#include "core/gate.h"
#include "drv/epoch.h"
#include "drv/gpu_bo.h"
#include "drv/gpu_fence.h"
#include "drv/gpu_still.h"
#include "drv/gpu_vmm.h"
#include "sim_gpu.h"

#define GRAIN GPU_VMM_GRAIN_BYTES

static const struct cuda_ord ord0 = { 0 };

static struct {
	struct gpu_bo *owner;
	struct bo_device device;
	CUcontext ctx;
	uint64_t start;            /* of the addresses */
	void (*before_open)(void); /* changes the driver's calls, if a test wants that */
} gpu;

static const struct bo_want moving_wants[BO_PLACES] = {
	[BO_VRAM] = { .place = BO_VRAM },
	[BO_GTT] = { .place = BO_GTT },
	[BO_SYSTEM] = { .place = BO_SYSTEM },
};

static inline void moving_destroyed(void *owner, struct bo *bo)
{
	(void)owner;
	__atomic_store_n(&bo->user, NULL, __ATOMIC_RELEASE);
}

static inline void moving_changed(const struct bo_device *device)
{
	const char *wrong = bo_check(device);

	if (wrong) {
		fprintf(stderr, "child: %s\n", wrong);
		_exit(CHILD_FAILED);
	}
}

/* Starts the driver and opens device 0 with room for `bytes` of addresses. */
static inline void moving_start(const char *settings, const struct gpu_bo_setup *setup,
				uint64_t bytes)
{
	static struct bo_ops ops;

	gpu.ctx = sim_gpu_start(settings);
	gpu_bo_init();
	gpu_fence_add_context(gpu.ctx, ord0, true);
	if (gpu.before_open)
		gpu.before_open();
	CHECK_EQ(gpu_bo_open(ord0, setup, &gpu.owner), 0);
	ops = gpu_bo_ops;
	ops.destroy = moving_destroyed;
	bo_device_init(&gpu.device, &ops, gpu.owner);
	gpu.device.on_change = moving_changed;
	CHECK_EQ(gpu_vmm_reserve(bytes, 0, &gpu.start), 0);
}

/* 0 or why it is not in that place. */
static inline int moving_put(struct bo *bo, enum bo_place place)
{
	const struct bo_placement placement = { &moving_wants[place], place != BO_NONE };
	struct bo_ctx ctx = { 0 };
	int rc = bo_reserve(bo, &ctx);

	if (rc < 0)
		return rc;
	rc = bo_validate(bo, &placement, &ctx);
	bo_unreserve(bo);
	return rc;
}

/* As that, until work ends in time. */
static inline int moving_put_at_last(struct bo *bo, enum bo_place place)
{
	int rc = -EBUSY;

	for (int i = 0; i < 100 && rc == -EBUSY; i++)
		rc = moving_put(bo, place);
	return rc;
}

/* An object at so many bytes behind the start, in a place. */
static inline void moving_make(struct bo *bo, uint64_t offset, uint64_t bytes, enum bo_place place)
{
	bo_init(bo, &gpu.device, gpu.start + offset, bytes, 0);
	bo->user = &gpu;
	CHECK_EQ(moving_put(bo, place), 0);
}

/*
 * What is written and looked at: a page of each so many bytes, the last one at the end. What is
 * never written is never there in the simulated device, and costs no time.
 */
#define MOVING_STEP_BYTES (UINT64_C(256) << 10)
enum { MOVING_PAGE_BYTES = 4096, MOVING_WORDS = MOVING_PAGE_BYTES / 4 };

static inline uint64_t moving_page_at(const struct bo *bo, uint64_t step)
{
	uint64_t at = step * MOVING_STEP_BYTES;

	return at + MOVING_STEP_BYTES < bo->bytes ? at : bo->bytes - MOVING_PAGE_BYTES;
}

/* Words that no other object, no other page and no other round has. */
static inline uint32_t moving_word(uint32_t seed, uint64_t at, unsigned i)
{
	return seed * 2654435761u + (uint32_t)(at / 4 + i);
}

static inline void moving_fill(const struct bo *bo, uint32_t seed)
{
	uint32_t words[MOVING_WORDS];

	for (uint64_t k = 0; k * MOVING_STEP_BYTES < bo->bytes; k++) {
		uint64_t at = moving_page_at(bo, k);

		for (unsigned i = 0; i < MOVING_WORDS; i++)
			words[i] = moving_word(seed, at, i);
		SIM_OK(cuMemcpyHtoD_v2(bo->addr + at, words, MOVING_PAGE_BYTES));
	}
}

static inline bool moving_holds(const struct bo *bo, uint32_t seed)
{
	uint32_t words[MOVING_WORDS];
	bool is_same = true;

	for (uint64_t k = 0; k * MOVING_STEP_BYTES < bo->bytes; k++) {
		uint64_t at = moving_page_at(bo, k);

		SIM_OK(cuMemcpyDtoH_v2(words, bo->addr + at, MOVING_PAGE_BYTES));
		for (unsigned i = 0; i < MOVING_WORDS && is_same; i++)
			is_same = words[i] == moving_word(seed, at, i);
	}
	return is_same;
}
