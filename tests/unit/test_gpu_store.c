#include "drv/gpu_store.h"

#include "failing_driver.h"
#include "sim_gpu.h"

#include <errno.h>

#define UNIT GPU_VMM_GRAIN_BYTES

static const struct cuda_ord ord0 = { 0 };
static struct gpu_store store;

static void start(uint64_t keep_bytes)
{
	sim_gpu_start("mem=64m,context=8m");
	gpu_store_init(&store, ord0, keep_bytes);
	CHECK(store.has_host);
	failing_start();
	failing_none();
}

static struct gpu_chunk *take(enum gpu_vmm_kind kind, uint64_t bytes)
{
	struct gpu_chunk *chunk;

	CHECK_EQ(gpu_store_take(&store, kind, bytes, &chunk), 0);
	CHECK_EQ(chunk->bytes, bytes);
	CHECK(chunk->handle);
	return chunk;
}

static void host_memory_stays_at_hand(void)
{
	struct gpu_chunk *a, *b;
	uint64_t handle;

	start(4 * UNIT);
	a = take(GPU_VMM_HOST, UNIT);
	b = take(GPU_VMM_HOST, UNIT);
	CHECK(a->handle != b->handle);
	handle = a->handle;
	gpu_store_give(&store, a);
	failing_none();
	a = take(GPU_VMM_HOST, UNIT);
	CHECK_EQ(a->handle, handle);
	CHECK_EQ(failing.calls, 0);
	gpu_store_give(&store, a);
	gpu_store_give(&store, b);
	CHECK_EQ(bo_pool_kept(&store.host), 2 * UNIT);
	gpu_store_trim(&store, UNIT);
	CHECK_EQ(bo_pool_kept(&store.host), UNIT);
	/* For some rounds of the clock, not for ever. */
	for (int i = 0; i < 1000; i++)
		gpu_store_tick(&store);
	CHECK_EQ(bo_pool_kept(&store.host), 0);
}

static void no_more_than_was_said_is_kept(void)
{
	struct gpu_chunk *chunks[4];

	start(2 * UNIT);
	for (int i = 0; i < 4; i++)
		chunks[i] = take(GPU_VMM_HOST, UNIT);
	for (int i = 0; i < 4; i++)
		gpu_store_give(&store, chunks[i]);
	CHECK_EQ(bo_pool_kept(&store.host), 2 * UNIT);
}

static void device_memory_goes_back_at_once(void)
{
	uint64_t free_bytes;
	struct gpu_chunk *chunk;

	start(UINT64_MAX);
	free_bytes = sim_gpu_free_bytes();
	chunk = take(GPU_VMM_DEVICE, 2 * UNIT);
	CHECK_EQ(free_bytes - sim_gpu_free_bytes(), 2 * UNIT);
	gpu_store_give(&store, chunk);
	CHECK_EQ(sim_gpu_free_bytes(), free_bytes);
	CHECK_EQ(bo_pool_kept(&store.host), 0);
	CHECK_EQ(gpu_store_take(&store, GPU_VMM_DEVICE, 128 * MIB, &chunk), -ENOMEM);
}

static void it_goes_with_its_last_user(void)
{
	struct gpu_chunk *chunk;

	start(4 * UNIT);
	chunk = take(GPU_VMM_HOST, UNIT);
	gpu_store_share(chunk);
	gpu_store_give(&store, chunk);
	CHECK_EQ(bo_pool_kept(&store.host), 0);
	gpu_store_give(&store, chunk);
	CHECK_EQ(bo_pool_kept(&store.host), UNIT);
}

/* What is kept of one size may be what is missing for another. */
static void what_is_kept_goes_before_a_refusal(void)
{
	struct gpu_chunk *chunk;

	start(4 * UNIT);
	gpu_store_give(&store, take(GPU_VMM_HOST, UNIT));
	failing_from(1, 1, CUDA_ERROR_OUT_OF_MEMORY);
	chunk = take(GPU_VMM_HOST, 2 * UNIT);
	CHECK_EQ(bo_pool_kept(&store.host), 0);
	gpu_store_give(&store, chunk);
	gpu_store_trim(&store, 0);
	failing_from(1, 2, CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(gpu_store_take(&store, GPU_VMM_HOST, UNIT, &chunk), -ENOMEM);
}

static struct {
	uint64_t bound_bytes, taken_bytes, kept_bytes;
} tenant;

static int count_take(void *arg, uint64_t bytes)
{
	(void)arg;
	if (tenant.taken_bytes + bytes > tenant.bound_bytes)
		return -ENOSPC;
	tenant.taken_bytes += bytes;
	return 0;
}

static void count_give(void *arg, uint64_t bytes)
{
	(void)arg;
	tenant.taken_bytes -= bytes;
}

static void count_keep(void *arg, int64_t bytes)
{
	(void)arg;
	tenant.kept_bytes += (uint64_t)bytes;
}

static const struct bo_host counted = { .take = count_take,
					.give = count_give,
					.keep = count_keep };

static void start_counted(uint64_t keep_bytes)
{
	start(keep_bytes);
	tenant.bound_bytes = 4 * UNIT;
	gpu_store_count(&store, &counted);
}

/* What is kept is within the bound, and goes when another size has no room beside it. */
static void what_is_kept_counts(void)
{
	struct gpu_chunk *chunks[4], *large;

	start_counted(UINT64_MAX);
	for (int i = 0; i < 4; i++)
		chunks[i] = take(GPU_VMM_HOST, UNIT);
	CHECK_EQ(tenant.taken_bytes, 4 * UNIT);
	CHECK_EQ(gpu_store_take(&store, GPU_VMM_HOST, UNIT, &large), -ENOMEM);
	CHECK_EQ(gpu_store_take_pages(&store, UNIT, GPU_STORE_MORE, &large), -ENOMEM);
	for (int i = 0; i < 4; i++)
		gpu_store_give(&store, chunks[i]);
	CHECK_EQ(tenant.taken_bytes, 4 * UNIT);
	CHECK_EQ(tenant.kept_bytes, 4 * UNIT);
	chunks[0] = take(GPU_VMM_HOST, UNIT);
	CHECK_EQ(tenant.kept_bytes, 3 * UNIT);
	large = take(GPU_VMM_HOST, 2 * UNIT);
	CHECK_EQ(tenant.taken_bytes, 4 * UNIT);
	CHECK_EQ(tenant.kept_bytes, UNIT);
	gpu_store_give(&store, large);
	gpu_store_give(&store, chunks[0]);
	for (int i = 0; i < 1000; i++)
		gpu_store_tick(&store);
	CHECK_EQ(tenant.taken_bytes, 0);
	CHECK_EQ(tenant.kept_bytes, 0);
}

static void what_is_not_had_does_not_count(void)
{
	struct gpu_chunk *chunk;

	start_counted(0);
	failing_from(1, 2, CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(gpu_store_take(&store, GPU_VMM_HOST, UNIT, &chunk), -ENOMEM);
	failing_none();
	CHECK_EQ(tenant.taken_bytes, 0);
	gpu_store_give(&store, take(GPU_VMM_HOST, UNIT));
	CHECK_EQ(gpu_store_take_pages(&store, 2 * UNIT, GPU_STORE_MORE, &chunk), 0);
	CHECK_EQ(tenant.taken_bytes, 2 * UNIT);
	gpu_store_give(&store, chunk);
	CHECK_EQ(tenant.taken_bytes, 0);
	CHECK_EQ(tenant.kept_bytes, 0);
	CHECK_EQ(gpu_store_take_pages(&store, UINT64_MAX / 4, GPU_STORE_MORE, &chunk), -ENOMEM);
	CHECK_EQ(tenant.taken_bytes, 0);
}

/* Where a device cannot map host memory, which is tried, there are pages. */
static void pages_are_written_and_given_back(void)
{
	struct gpu_chunk *chunk;

	sim_gpu_start("mem=64m,context=8m");
	failing_start();
	failing_from(1, 1, CUDA_ERROR_NOT_SUPPORTED);
	gpu_store_init(&store, ord0, 4 * UNIT);
	CHECK(!store.has_host);
	failing_none();
	CHECK_EQ(gpu_store_take(&store, GPU_VMM_HOST, 3 * UNIT, &chunk), -ENOTSUP);
	CHECK_EQ(gpu_store_take_pages(&store, 3 * UNIT, GPU_STORE_MORE, &chunk), 0);
	CHECK(!chunk->handle && chunk->pages);
	memset(chunk->pages, 1, 3 * UNIT);
	gpu_store_give(&store, chunk);
	CHECK_EQ(failing.calls, 0);
	CHECK_EQ(bo_pool_kept(&store.host), 0);
}

/* Where the bound is met already; what is given back for it makes up for that. */
static void pages_in_place_of_what_goes_are_had(void)
{
	struct gpu_chunk *host[4], *pages[4], *more;

	start_counted(UINT64_MAX);
	for (int i = 0; i < 4; i++)
		host[i] = take(GPU_VMM_HOST, UNIT);
	CHECK(gpu_store_has_host_handles(&store));
	CHECK_EQ(gpu_store_take_pages(&store, UNIT, GPU_STORE_MORE, &more), -ENOMEM);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gpu_store_take_pages(&store, UNIT, GPU_STORE_INSTEAD, &pages[i]), 0);
	CHECK_EQ(tenant.taken_bytes, 4 * UNIT);
	for (int i = 0; i < 4; i++)
		gpu_store_give(&store, host[i]);
	gpu_store_trim(&store, 0);
	CHECK(!gpu_store_has_host_handles(&store));
	CHECK_EQ(tenant.taken_bytes, 4 * UNIT);
	CHECK_EQ(tenant.kept_bytes, 0);
	for (int i = 0; i < 4; i++)
		gpu_store_give(&store, pages[i]);
	CHECK_EQ(tenant.taken_bytes, 0);
	CHECK_EQ(atomic_load(&store.uncounted_bytes), 0);
}

/* Each step of the trial fails once: nothing is left of it. */
static void the_trial_leaves_nothing(void)
{
	sim_gpu_start("mem=64m,context=8m");
	failing_start();
	for (unsigned at = 1; at <= 4; at++) {
		failing_from(at, at, CUDA_ERROR_NOT_SUPPORTED);
		gpu_store_init(&store, ord0, 0);
		CHECK(!store.has_host);
	}
	failing_none();
	gpu_store_init(&store, ord0, 0);
	CHECK(store.has_host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(host_memory_stays_at_hand),
		fresh_test(no_more_than_was_said_is_kept),
		fresh_test(device_memory_goes_back_at_once),
		fresh_test(it_goes_with_its_last_user),
		fresh_test(what_is_kept_goes_before_a_refusal),
		fresh_test(what_is_kept_counts),
		fresh_test(what_is_not_had_does_not_count),
		fresh_test(pages_are_written_and_given_back),
		fresh_test(pages_in_place_of_what_goes_are_had),
		fresh_test(the_trial_leaves_nothing),
	};

	return cmocka_run_group_tests_name("gpu_store", tests, NULL, NULL);
}
