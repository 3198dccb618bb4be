#include "drv/gpu_store.h"

#include "drv/gpu_fence.h"
#include "failing_driver.h"
#include "sim_gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define UNIT GPU_VMM_GRAIN_BYTES

static const struct cuda_ord ord0 = { 0 };
static struct gpu_store store;
static CUcontext context;

static void start(uint64_t keep_bytes)
{
	context = sim_gpu_start("mem=64m,context=8m");
	gpu_fence_init();
	gpu_fence_add_context(context, ord0, true);
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

static uint64_t serial_now(void)
{
	uint64_t serial = 0;

	gpu_fence_context(ord0, &serial);
	return serial;
}

/* What the chunk has at its own address, by the device. */
static uint32_t word_in(const struct gpu_chunk *chunk)
{
	uint32_t word = 0;

	SIM_OK(cuMemcpyDtoH_v2(&word, gpu_store_addr(chunk, serial_now()), sizeof(word)));
	return word;
}

static bool is_mapped(uint64_t addr)
{
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	unsigned long long flags = 0;

	return cuMemGetAccess(&flags, &here, addr) == CUDA_SUCCESS;
}

/* True when the very addresses can be reserved: they are nobody's. */
static bool is_free(uint64_t addr, uint64_t bytes)
{
	CUdeviceptr got = 0;

	SIM_OK(cuMemAddressReserve(&got, bytes, 0, addr, 0));
	SIM_OK(cuMemAddressFree(got, bytes));
	return got == addr;
}

static void host_memory_has_an_address_for_life(void)
{
	struct gpu_chunk *chunk;
	uint64_t addr;

	start(4 * UNIT);
	chunk = take(GPU_VMM_HOST, 2 * UNIT);
	addr = gpu_store_addr(chunk, serial_now());
	CHECK(addr && addr % UNIT == 0);
	CHECK_EQ(gpu_store_addr(chunk, serial_now() + 1), 0);
	SIM_OK(cuMemsetD32_v2(addr, 77, 2 * UNIT / 4));
	CHECK_EQ(word_in(chunk), 77);
	failing_none();
	/* With an object it is shared, in the pool it is nobody's: mapped all the same. */
	gpu_store_share(chunk);
	gpu_store_give(&store, chunk);
	gpu_store_give(&store, chunk);
	CHECK(is_mapped(addr));
	chunk = take(GPU_VMM_HOST, 2 * UNIT);
	CHECK_EQ(failing.calls, 0);
	CHECK_EQ(gpu_store_addr(chunk, serial_now()), addr);
	CHECK_EQ(word_in(chunk), 77);
	/* It has one user again, and two when it is shared. */
	gpu_store_share(chunk);
	gpu_store_give(&store, chunk);
	CHECK_EQ(bo_pool_kept(&store.host), 0);
	gpu_store_give(&store, chunk);
	CHECK_EQ(bo_pool_kept(&store.host), 2 * UNIT);
	gpu_store_trim(&store, 0);
	CHECK(!is_mapped(addr) && is_free(addr, 2 * UNIT));
}

/* By each way out: not kept, trimmed, too long in the pool, for another size. */
static void its_address_goes_with_it(void)
{
	for (unsigned way = 0; way < 4; way++) {
		struct gpu_chunk *chunk, *other = NULL;
		uint64_t addr;

		if (way == 0)
			start(0);
		bo_pool_set_bound(&store.host, way ? 4 * UNIT : 0);
		chunk = take(GPU_VMM_HOST, UNIT);
		addr = chunk->addr;
		gpu_store_give(&store, chunk);
		CHECK_EQ(is_mapped(addr), way > 0);
		if (way == 1)
			gpu_store_trim(&store, 0);
		for (unsigned i = 0; way == 2 && i < 1000; i++)
			gpu_store_tick(&store);
		if (way == 3) {
			failing_from(1, 1, CUDA_ERROR_OUT_OF_MEMORY);
			other = take(GPU_VMM_HOST, 2 * UNIT);
			failing_none();
		}
		/* The other may have got these very addresses. */
		CHECK(other ? other->addr <= addr : !is_mapped(addr) && is_free(addr, UNIT));
		CHECK_EQ(bo_pool_kept(&store.host), 0);
		if (other)
			gpu_store_give(&store, other);
	}
}

static void device_memory_and_pages_have_none(void)
{
	struct gpu_chunk *chunk;

	start(4 * UNIT);
	failing_none();
	chunk = take(GPU_VMM_DEVICE, UNIT);
	CHECK_EQ(failing.calls, 1);
	CHECK_EQ(gpu_store_addr(chunk, serial_now()), 0);
	gpu_store_give(&store, chunk);
	CHECK_EQ(gpu_store_take_pages(&store, UNIT, GPU_STORE_MORE, &chunk), 0);
	CHECK_EQ(gpu_store_addr(chunk, serial_now()), 0);
	gpu_store_give(&store, chunk);
}

static struct {
	uint64_t reserved_bytes; /* less what was given back */
	unsigned mapped;         /* likewise */
} balance;

static CUresult reserve_counted(CUdeviceptr *out_addr, size_t bytes, size_t align, CUdeviceptr hint,
				unsigned long long flags)
{
	CUresult res = failing_cuMemAddressReserve(out_addr, bytes, align, hint, flags);

	balance.reserved_bytes += res == CUDA_SUCCESS ? bytes : 0;
	return res;
}

static CUresult free_counted(CUdeviceptr addr, size_t bytes)
{
	CUresult res = failing_cuMemAddressFree(addr, bytes);

	balance.reserved_bytes -= res == CUDA_SUCCESS ? bytes : 0;
	return res;
}

static CUresult map_counted(CUdeviceptr addr, size_t bytes, size_t offset,
			    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult res = failing_cuMemMap(addr, bytes, offset, handle, flags);

	balance.mapped += res == CUDA_SUCCESS;
	return res;
}

static CUresult unmap_counted(CUdeviceptr addr, size_t bytes)
{
	CUresult res = failing_cuMemUnmap(addr, bytes);

	balance.mapped -= res == CUDA_SUCCESS;
	return res;
}

static void start_balanced(void)
{
	start(4 * UNIT);
	real.cuMemAddressReserve = reserve_counted;
	real.cuMemAddressFree = free_counted;
	real.cuMemMap = map_counted;
	real.cuMemUnmap = unmap_counted;
}

/* It serves as it did, and the next to take it gets it mapped. */
static void memory_that_is_not_mapped_is_memory(void)
{
	struct gpu_chunk *chunk;

	start_balanced();
	/* Made, an address, mapped, allowed. */
	for (unsigned at = 2; at <= 4; at++) {
		failing_from(at, at, CUDA_ERROR_OUT_OF_MEMORY);
		chunk = take(GPU_VMM_HOST, UNIT);
		CHECK_EQ(gpu_store_addr(chunk, serial_now()), 0);
		CHECK_EQ(balance.reserved_bytes, 0);
		CHECK_EQ(balance.mapped, 0);
		gpu_store_give(&store, chunk);
		failing_none();
		chunk = take(GPU_VMM_HOST, UNIT);
		CHECK_EQ(failing.calls, 3);
		SIM_OK(cuMemsetD32_v2(gpu_store_addr(chunk, serial_now()), at, UNIT / 4));
		CHECK_EQ(word_in(chunk), at);
		gpu_store_give(&store, chunk);
		gpu_store_trim(&store, 0);
		CHECK_EQ(balance.reserved_bytes, 0);
		CHECK_EQ(balance.mapped, 0);
	}
}

/* A step of giving back fails once: it is done all the same. Where it never goes nothing hangs. */
static void what_does_not_unmap_at_once_does_later(void)
{
	struct gpu_chunk *chunk;

	start_balanced();
	failing_from(5, 5, CUDA_ERROR_UNKNOWN);
	chunk = take(GPU_VMM_HOST, UNIT);
	gpu_store_give(&store, chunk);
	gpu_store_trim(&store, 0);
	CHECK(failing.calls > 5);
	CHECK_EQ(balance.mapped, 0);
	CHECK_EQ(balance.reserved_bytes, 0);
	failing_none();
	chunk = take(GPU_VMM_HOST, UNIT);
	gpu_store_give(&store, chunk);
	failing_from(1, 100, CUDA_ERROR_UNKNOWN);
	gpu_store_trim(&store, 0);
	CHECK_EQ(bo_pool_kept(&store.host), 0);
	/* Addresses with something behind them are not given back. */
	CHECK_EQ(balance.mapped, 1);
	CHECK_EQ(balance.reserved_bytes, UNIT);
}

static void context_anew(void)
{
	gpu_fence_ending(context);
	SIM_OK(cuDevicePrimaryCtxReset_v2(0));
	gpu_fence_ended(context, true);
	SIM_OK(cuDevicePrimaryCtxRetain(&context, 0));
	SIM_OK(cuCtxSetCurrent(context));
	gpu_fence_add_context(context, ord0, true);
}

/* What a driver did with the mappings when a context ended is not asked. */
static void an_address_is_of_a_context(void)
{
	struct gpu_chunk *chunk, *held;
	uint64_t before;

	start_balanced();
	chunk = take(GPU_VMM_HOST, UNIT);
	held = take(GPU_VMM_HOST, UNIT);
	gpu_store_give(&store, chunk);
	before = serial_now();
	context_anew();
	CHECK(serial_now() != before);
	CHECK_EQ(gpu_store_addr(held, serial_now()), 0);
	failing_none();
	CHECK(take(GPU_VMM_HOST, UNIT) == chunk);
	/* Unmapped, given back, and from the beginning. */
	CHECK_EQ(failing.calls, 5);
	SIM_OK(cuMemsetD32_v2(gpu_store_addr(chunk, serial_now()), 5, UNIT / 4));
	CHECK_EQ(word_in(chunk), 5);
	/* The driver has taken the mapping away by itself. */
	SIM_OK(cuMemUnmap(held->addr, UNIT));
	balance.mapped--;
	gpu_store_give(&store, held);
	context_anew();
	CHECK(take(GPU_VMM_HOST, UNIT) == held);
	CHECK_EQ(word_in(held), 0);
	gpu_store_give(&store, held);
	gpu_store_give(&store, chunk);
	gpu_store_trim(&store, 0);
	CHECK_EQ(balance.mapped, 0);
	/* Without a context nothing is mapped, and what was stays. */
	chunk = take(GPU_VMM_HOST, UNIT);
	gpu_store_give(&store, chunk);
	gpu_fence_ending(context);
	failing_none();
	CHECK(take(GPU_VMM_HOST, UNIT) == chunk);
	held = take(GPU_VMM_HOST, UNIT);
	CHECK_EQ(failing.calls, 1);
	gpu_fence_ended(context, false);
	CHECK(gpu_store_addr(chunk, serial_now()));
	CHECK_EQ(gpu_store_addr(held, serial_now()), 0);
}

enum { THREADS = 3, TIMES = BUILD_SANITIZED ? 200 : 1000 };

struct user {
	pthread_t thread;
	unsigned number, seed;
	CUstream stream;
};

/* At its own address the device writes what nobody else has. */
static void write_and_read(const struct user *user, const struct gpu_chunk *chunk, uint32_t word)
{
	uint64_t addr = gpu_store_addr(chunk, serial_now());
	uint32_t got[2] = { 0 };

	if (!addr)
		return;
	SIM_OK(cuMemsetD32Async(addr, word, 16, user->stream));
	SIM_OK(cuMemsetD32Async(addr + chunk->bytes - 64, word, 16, user->stream));
	SIM_OK(cuStreamSynchronize(user->stream));
	SIM_OK(cuMemcpyDtoHAsync_v2(&got[0], addr, 4, user->stream));
	SIM_OK(cuMemcpyDtoHAsync_v2(&got[1], addr + chunk->bytes - 64, 4, user->stream));
	SIM_OK(cuStreamSynchronize(user->stream));
	CHECK(got[0] == word && got[1] == word);
}

static void *use(void *arg)
{
	struct user *user = arg;
	struct gpu_chunk *chunks[2];

	SIM_OK(cuCtxSetCurrent(context));
	SIM_OK(cuStreamCreate(&user->stream, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < TIMES; i++) {
		for (unsigned k = 0; k < 2; k++) {
			chunks[k] = take(GPU_VMM_HOST,
					 (1 + (unsigned)rand_r(&user->seed) % 3) * UNIT);
			write_and_read(user, chunks[k], user->number << 24 | i << 1 | k);
		}
		if (rand_r(&user->seed) % 8 == 0)
			gpu_store_trim(&store, (unsigned)rand_r(&user->seed) % 8 * UNIT);
		gpu_store_tick(&store);
		for (unsigned k = 0; k < 2; k++)
			gpu_store_give(&store, chunks[k]);
	}
	return NULL;
}

/* Threads that take and give, and trim what others have given: each chunk is one's alone. */
static void threads_have_chunks_alone(void)
{
	struct user users[THREADS];

	start(8 * UNIT);
	real = failing.real;
	for (unsigned i = 0; i < THREADS; i++) {
		users[i] = (struct user){ .number = i + 1, .seed = i + 1 };
		CHECK_EQ(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(users[i].thread, NULL), 0);
	gpu_store_trim(&store, 0);
	CHECK_EQ(bo_pool_kept(&store.host), 0);
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
		fresh_test(host_memory_has_an_address_for_life),
		fresh_test(its_address_goes_with_it),
		fresh_test(device_memory_and_pages_have_none),
		fresh_test(memory_that_is_not_mapped_is_memory),
		fresh_test(what_does_not_unmap_at_once_does_later),
		fresh_test(an_address_is_of_a_context),
		fresh_test(threads_have_chunks_alone),
		fresh_test(what_is_kept_counts),
		fresh_test(what_is_not_had_does_not_count),
		fresh_test(pages_are_written_and_given_back),
		fresh_test(pages_in_place_of_what_goes_are_had),
		fresh_test(the_trial_leaves_nothing),
	};

	return cmocka_run_group_tests_name("gpu_store", tests, NULL, NULL);
}
