/*
 * Imported handles on the model driver: memory is charged once, until the last handle or mapping of
 * it is gone, whoever made it.
 */
#include "base/log.h"
#include "hook/enter.h"

#include "member.h"
#include "model_driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define MIB (UINT64_C(1) << 20)
#define CONTEXT MODEL_CONTEXT_BYTES
#define MAP_BASE UINT64_C(0x7f9000000000)

static CUcontext primary;

static void begin(bool have_same_value, uint64_t foreign_bytes)
{
	log_set_level((enum log_level)(LOG_ERROR - 1));
	model_start(256 * MIB);
	model_set_imports((struct model_imports){ have_same_value, foreign_bytes });
	model_join(scratch_path("region"), "64m");
	CHECK(hook_cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
	model_set_current(primary);
}

static uint64_t held(void)
{
	struct model_books books = model_look();

	return books.blocks_bytes + books.handles_bytes + books.overhead_bytes;
}

static CUresult create(CUmemGenericAllocationHandle *out_handle, uint64_t bytes)
{
	CUmemAllocationProp prop = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };

	return hook_cuMemCreate(out_handle, bytes, &prop, 0);
}

static CUresult import(CUmemGenericAllocationHandle *out_handle, CUmemGenericAllocationHandle of)
{
	return hook_cuMemImportFromShareableHandle(out_handle, (void *)(uintptr_t)of,
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static void release(CUmemGenericAllocationHandle handle)
{
	CHECK(hook_cuMemRelease(handle) == CUDA_SUCCESS);
	CHECK_EQ(quota_used(dev0), held());
}

/* The first handle goes; what was imported of it keeps the memory. */
static void imports_of_our_own(bool have_same_value)
{
	CUmemGenericAllocationHandle handle, kept[8];
	int n = 0;

	begin(have_same_value, 0);
	for (; create(&handle, 20 * MIB) == CUDA_SUCCESS; n++) {
		CHECK(n < 8 && import(&kept[n], handle) == CUDA_SUCCESS);
		CHECK_EQ(quota_used(dev0), CONTEXT + ((unsigned)n + 1) * 20 * MIB);
		release(handle);
		CHECK_EQ(quota_used(dev0), CONTEXT + ((unsigned)n + 1) * 20 * MIB);
	}
	CHECK_EQ(n, 2);
	/* And a mapping that, with nothing else left. */
	CHECK(hook_cuMemMap(MAP_BASE, 20 * MIB, 0, kept[0], 0) == CUDA_SUCCESS);
	release(kept[0]);
	CHECK_EQ(quota_used(dev0), CONTEXT + 40 * MIB);
	CHECK(hook_cuMemUnmap(MAP_BASE, 20 * MIB) == CUDA_SUCCESS);
	CHECK_EQ(quota_used(dev0), CONTEXT + 20 * MIB);
	release(kept[1]);
	CHECK_EQ(quota_used(dev0), CONTEXT);
	/* The other way round. */
	CHECK(create(&handle, 20 * MIB) == CUDA_SUCCESS &&
	      import(&kept[0], handle) == CUDA_SUCCESS);
	release(kept[0]);
	CHECK_EQ(quota_used(dev0), CONTEXT + 20 * MIB);
	release(handle);
	CHECK_EQ(quota_used(dev0), CONTEXT);
}

static void imports_with_a_value_of_their_own(void)
{
	imports_of_our_own(false);
}

static void imports_with_the_same_value(void)
{
	imports_of_our_own(true);
}

/* What other processes hold counts where the card counts it for this one too. */
static void imports_of_others(void)
{
	CUmemGenericAllocationHandle handle, own;

	begin(false, 30 * MIB);
	CHECK(import(&handle, 0) == CUDA_SUCCESS);
	CHECK_EQ(quota_used(dev0), CONTEXT + 30 * MIB);
	CHECK(import(&own, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(quota_used(dev0), CONTEXT + 30 * MIB);
	CHECK_EQ(held(), CONTEXT + 30 * MIB);
	/* Handles of our own end as ever. */
	CHECK(create(&own, 20 * MIB) == CUDA_SUCCESS);
	release(own);
	CHECK_EQ(quota_used(dev0), CONTEXT + 30 * MIB);
	release(handle);
	CHECK_EQ(quota_used(dev0), CONTEXT);
	model_fail_next();
	CHECK(import(&handle, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(quota_used(dev0), CONTEXT);
}

/* Where the card cannot be asked nothing stays charged for good. */
static void imports_where_the_card_cannot_be_asked(void)
{
	CUmemGenericAllocationHandle foreign, own;

	begin(false, 0);
	model_answer(-ENOTSUP);
	CHECK(import(&foreign, 0) == CUDA_SUCCESS);
	for (int i = 0; i < 10; i++) {
		CHECK(create(&own, 40 * MIB) == CUDA_SUCCESS);
		CHECK(hook_cuMemRelease(own) == CUDA_SUCCESS);
	}
	CHECK_EQ(quota_used(dev0), CONTEXT);
	CHECK(hook_cuMemRelease(foreign) == CUDA_SUCCESS);
	CHECK_EQ(quota_used(dev0), CONTEXT);
}

static _Atomic bool is_over;

static void *allocate_what_there_is(void *arg)
{
	(void)arg;
	model_set_current(primary);
	while (!atomic_load(&is_over)) {
		CUdeviceptr addr[32];
		int n = 0;

		while (n < 32 && hook_cuMemAlloc_v2(&addr[n], 2 * MIB) == CUDA_SUCCESS)
			n++;
		while (n)
			CHECK(hook_cuMemFree_v2(addr[--n]) == CUDA_SUCCESS);
	}
	return NULL;
}

/* While one thread passes its memory on from handle to handle, others find no room in it. */
static void imports_in_a_race(void)
{
	enum { ROUNDS = BUILD_SANITIZED ? 1000 : 10000 };
	CUmemGenericAllocationHandle handle, next;
	pthread_t thread;

	begin(false, 0);
	CHECK(pthread_create(&thread, NULL, allocate_what_there_is, NULL) == 0);
	while (create(&handle, 20 * MIB) != CUDA_SUCCESS)
		;
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(import(&next, handle) == CUDA_SUCCESS);
		CHECK(hook_cuMemRelease(handle) == CUDA_SUCCESS);
		CHECK(quota_used(dev0) <= 64 * MIB);
		handle = next;
	}
	CHECK(hook_cuMemRelease(handle) == CUDA_SUCCESS);
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	CHECK(model_look().most_bytes <= 64 * MIB - CONTEXT);
	CHECK_EQ(quota_used(dev0), CONTEXT);
	CHECK_EQ(held(), CONTEXT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(imports_with_a_value_of_their_own),
		fresh_test(imports_with_the_same_value),
		fresh_test(imports_of_others),
		fresh_test(imports_where_the_card_cannot_be_asked),
		fresh_test(imports_in_a_race),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
