/*
 * Objects on a driver of the tests' own: where memory is, what is mapped, which steps fail and what
 * work is done is the test's to say.
 */
#pragma once

#include "core/charge.h"
#include "core/object.h"
#include "core/others.h"
#include "member.h"
#include "shm/residency.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define BASE UINT64_C(0x200000000000)
#define ADDRESSES (UINT64_C(64) << 30)
#define MIB UINT64_C(0x100000)
#define BLOCK (2 * MIB)

enum { CONTEXTS = 3 };

/* The driver: where memory is, what is mapped, what work is done. */
static struct {
	pthread_mutex_t mutex;
	uint64_t taken[BO_PLACES]; /* bytes */
	uint64_t room[BO_PLACES];
	uint64_t handles;
	unsigned steps, fail_at; /* of alloc and move; 0: none fails */
	bool ends_when_waited_for;
	_Atomic bool ends_slowly, is_ending; /* moves to nowhere */
	bool comes_slowly;                   /* moves to the device */
	_Atomic uint64_t epoch, done;
} gpu = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static bool fails(void)
{
	return ++gpu.steps == gpu.fail_at;
}

static int reserve(void *owner, uint64_t bytes, uint64_t *out_addr)
{
	(void)owner;
	CHECK_EQ(bytes, ADDRESSES);
	*out_addr = BASE;
	return 0;
}

static uint64_t fence(void *owner)
{
	(void)owner;
	return atomic_load(&gpu.epoch) + 1;
}

static uint64_t done(void *owner)
{
	(void)owner;
	return atomic_load(&gpu.done);
}

static int alloc(void *owner, const struct bo *bo, enum bo_place place, struct bo_memory *out)
{
	int rc = 0;

	(void)owner;
	CHECK_EQ(bo->bytes % BLOCK, 0);
	pthread_mutex_lock(&gpu.mutex);
	if (fails() || gpu.taken[place] + bo->bytes > gpu.room[place])
		rc = -ENOSPC;
	else
		gpu.taken[place] += bo->bytes;
	*out = (struct bo_memory){ ++gpu.handles, bo->bytes };
	pthread_mutex_unlock(&gpu.mutex);
	return rc;
}

static void free_memory(void *owner, enum bo_place place, struct bo_memory memory)
{
	(void)owner;
	pthread_mutex_lock(&gpu.mutex);
	CHECK(gpu.taken[place] >= memory.bytes);
	gpu.taken[place] -= memory.bytes;
	pthread_mutex_unlock(&gpu.mutex);
}

static void move(void *owner, struct bo_move *moves, unsigned count)
{
	(void)owner;
	if (moves[0].to_place == BO_NONE && atomic_load(&gpu.ends_slowly)) {
		atomic_store(&gpu.is_ending, true);
		usleep(350000);
	}
	if (moves[0].to_place == BO_VRAM && gpu.comes_slowly)
		usleep(1000);
	pthread_mutex_lock(&gpu.mutex);
	for (unsigned i = 0; i < count; i++)
		moves[i].rc = moves[i].to_place != BO_NONE && fails() ? -EBUSY : 0;
	pthread_mutex_unlock(&gpu.mutex);
}

static bool is_done(void *owner, uint64_t number)
{
	(void)owner;
	return number <= atomic_load(&gpu.done);
}

/* All work ends, if the test lets it. */
static int wait_for(void *owner, uint64_t number, int64_t until_ns)
{
	uint64_t epoch = atomic_load(&gpu.epoch);

	(void)until_ns;
	if (!is_done(owner, number) && !gpu.ends_when_waited_for)
		return -EBUSY;
	if (number > epoch)
		atomic_store(&gpu.epoch, number);
	if (number > atomic_load(&gpu.done))
		atomic_store(&gpu.done, number);
	return 0;
}

static const struct bo_want in_gtt[] = { { .place = BO_GTT } };
static const struct bo_placement gtt = { in_gtt, 1 };

static bool is_valuable(void *owner, const struct bo *bo, enum bo_place place)
{
	(void)owner;
	(void)bo;
	return place == BO_VRAM;
}

static const struct bo_placement *evict_to(void *owner, const struct bo *bo, enum bo_place place)
{
	(void)owner;
	(void)bo;
	(void)place;
	return &gtt;
}

static const struct bo_ops bo_ops = { .alloc = alloc,
				      .free = free_memory,
				      .move = move,
				      .is_done = is_done,
				      .wait = wait_for,
				      .is_valuable = is_valuable,
				      .evict_to = evict_to };
/* Of the card with the member's first device; UINT64_MAX: nobody knows. */
static uint64_t card_free_bytes = UINT64_MAX;

static int card_free(const char *uuid, uint64_t *out_bytes)
{
	CHECK(!strcmp(uuid, member_uuid(0)));
	*out_bytes = card_free_bytes;
	return card_free_bytes == UINT64_MAX ? -ENOTSUP : 0;
}

static unsigned card_users(void)
{
	return 2;
}

static const struct others_ops others_ops = { card_free, card_users };

static const struct object_ops ops = {
	.reserve = reserve, .fence = fence, .done = done, .bo = &bo_ops
};

static int no_figure(const char *uuid, uint64_t *out_bytes)
{
	(void)uuid;
	(void)out_bytes;
	return -ENOTSUP;
}
static const struct gpu_ops no_ops = { .process_bytes = no_figure };

static struct member member;
static const char contexts[CONTEXTS];

static inline void start_in(const char *path, const char *limit, uint32_t flags)
{
	struct backing_bounds bounds;

	member_join(&member, path, limit, flags, 1);
	charge_init(&no_ops);
	object_init();
	others_init(&member.region, member.slot.index, &others_ops);
	bounds = (struct backing_bounds){ .own = member.region.own,
					  .slot = member.slot.index,
					  .may_spill = flags & RATION_FLAG_OVERSUBSCRIBE };
	for (int p = 0; p < BO_PLACES; p++)
		gpu.room[p] = UINT64_MAX / 2;
	gpu.ends_when_waited_for = true;
	CHECK_EQ(object_open(dev0, &ops, NULL, ADDRESSES, &bounds), 0);
	CHECK_EQ(object_open(dev0, &ops, NULL, ADDRESSES, &bounds), 0);
	object_tick(NULL);
}

static inline void start(const char *limit, uint32_t flags)
{
	start_in(scratch_path("region"), limit, flags);
}

static inline uint64_t charged(void)
{
	return quota_held(dev0, QUOTA_DATA);
}

/* All figures tell of the memory that there is. */
static inline void check_figures(void)
{
	uint64_t there = gpu.taken[BO_VRAM] + gpu.taken[BO_GTT];

	CHECK_EQ(charged(), there);
	CHECK_EQ(track_physical(dev0), gpu.taken[BO_VRAM]);
	CHECK_EQ(track_managed(dev0), gpu.taken[BO_GTT]);
	CHECK_EQ(residency_sum(member.region.own, 0), gpu.taken[BO_VRAM]);
	CHECK_EQ(residency_sum(member.region.own, RESIDENCY_HOST), gpu.taken[BO_GTT]);
	CHECK(object_idle_bytes(dev0) <= there);
}
