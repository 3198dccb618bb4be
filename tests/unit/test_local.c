#include "core/local.h"

#include "core/charge.h"
#include "core/function.h"
#include "core/library.h"
#include "member.h"

#include <errno.h>

#define THREADS UINT64_C(32768)
#define AREA(thread) (((uint64_t)(thread)-LOCAL_STACK_BYTES) * THREADS)
#define CONTEXT_BYTES MIB_BYTES(64)

/* The card: what the driver says this process holds. */
static struct {
	uint64_t bytes;
	int error; /* answered instead, while not 0 */
} card;

static int card_bytes(const char *uuid, uint64_t *out_bytes)
{
	(void)uuid;
	if (card.error)
		return card.error;
	*out_bytes = card.bytes;
	return 0;
}

static const struct gpu_ops ops = { .process_bytes = card_bytes };
static struct member member;
static char ctx, other_ctx, function, kernel, library;

static uint64_t held(void)
{
	return quota_held(dev0, QUOTA_CONTEXT) + quota_held(dev0, QUOTA_MODULE);
}

/* A tenant of 1 GiB with a context. */
static void start(void)
{
	member_join(&member, scratch_path("region"), "1g", 0, 1);
	charge_init(&ops);
	card.bytes = CONTEXT_BYTES;
	CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
	local_open(&ctx, dev0);
}

static int reserve(struct local_growth *g, const void *context, uint32_t thread_bytes,
		   const void *handle)
{
	struct local_use use = {
		.ctx = context, .dev = dev0, .threads = THREADS, .thread_bytes = thread_bytes
	};

	return local_reserve(g, &use, handle);
}

/* A launch that goes well; the card gives what it takes. */
static void launch(const void *context, uint32_t thread_bytes, uint64_t takes_bytes)
{
	struct local_growth g;

	CHECK_EQ(reserve(&g, context, thread_bytes, NULL), 0);
	card.bytes += takes_bytes;
	local_finish(&g, LOCAL_GREW);
}

static void the_most_counts(void)
{
	start();
	launch(&ctx, 512, 0);
	CHECK_EQ(held(), CONTEXT_BYTES);
	launch(&ctx, 4096, AREA(4096));
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(4096));
	launch(&ctx, 4096, 0);
	launch(&ctx, 2048, 0);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(4096));
	launch(&ctx, 8192, AREA(8192) - AREA(4096));
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(8192));
}

static void too_large_is_refused(void)
{
	struct local_growth g;

	start();
	CHECK_EQ(reserve(&g, &ctx, 65536, &function), -EDQUOT);
	CHECK_EQ(g.bytes, AREA(65536));
	CHECK_EQ(held(), CONTEXT_BYTES);
	CHECK(!function_is_settled(&function));
	launch(&ctx, 4096, AREA(4096));
	CHECK_EQ(reserve(&g, &ctx, 65536, &function), -EDQUOT);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(4096));
}

/* No look at the card takes off what is reserved; what the driver refused is off at once. */
static void what_is_reserved_stays_until_it_is_over(void)
{
	struct local_growth g;

	start();
	CHECK_EQ(reserve(&g, &ctx, 4096, &function), 0);
	CHECK(g.is_growing);
	CHECK_EQ(charge_watch(dev0), -EAGAIN);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(4096));
	CHECK(!function_is_settled(&function));
	local_finish(&g, LOCAL_FAILED);
	CHECK_EQ(held(), CONTEXT_BYTES);
	CHECK(!function_is_settled(&function));
	CHECK_EQ(reserve(&g, &ctx, 4096, &function), 0);
	card.bytes += AREA(4096);
	local_finish(&g, LOCAL_GREW);
	CHECK(function_is_settled(&function));
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(4096));
}

/* Two at once need one area between them, also if one of them fails. */
static void two_at_once(void)
{
	struct local_growth first, second;

	start();
	CHECK_EQ(reserve(&first, &ctx, 4096, NULL), 0);
	CHECK_EQ(reserve(&second, &ctx, 8192, NULL), 0);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(8192));
	local_finish(&second, LOCAL_FAILED);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(8192));
	card.bytes += AREA(4096);
	local_finish(&first, LOCAL_GREW);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(4096));
}

/* What may not have grown is not taken to be there. */
static void perhaps(void)
{
	struct local_growth g;

	start();
	CHECK_EQ(reserve(&g, &ctx, 4096, NULL), 0);
	local_finish(&g, LOCAL_PERHAPS);
	CHECK_EQ(held(), CONTEXT_BYTES);
	CHECK_EQ(reserve(&g, &ctx, 4096, NULL), 0);
	CHECK(g.is_growing);
	card.bytes += AREA(4096);
	local_finish(&g, LOCAL_PERHAPS);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(4096));
	CHECK_EQ(reserve(&g, &ctx, 4096, NULL), 0);
	CHECK(!g.is_growing);
}

static void each_context_has_its_own(void)
{
	start();
	function_enter(&kernel, FUNCTION_KERNEL, NULL);
	local_tell(&kernel, NULL, 4096);
	CHECK(!function_is_settled(&kernel));
	launch(&ctx, 4096, AREA(4096));
	CHECK(function_is_settled(&kernel));
	local_open(&other_ctx, dev0);
	CHECK(!function_is_settled(&kernel));
	launch(&other_ctx, 4096, AREA(4096));
	CHECK(function_is_settled(&kernel));
	CHECK_EQ(held(), CONTEXT_BYTES + 2 * AREA(4096));
	/* One that did not end after all still has it. */
	local_put_back(local_take(&other_ctx));
	launch(&other_ctx, 4096, 0);
	CHECK_EQ(held(), CONTEXT_BYTES + 2 * AREA(4096));
	CHECK_EQ(local_end(local_take(&other_ctx), UINT64_MAX), AREA(4096));
	CHECK(!local_take(&other_ctx));
	/* And one of the same handle begins anew. */
	card.bytes -= AREA(4096);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
	local_open(&other_ctx, dev0);
	launch(&other_ctx, 4096, AREA(4096));
	CHECK_EQ(held(), CONTEXT_BYTES + 2 * AREA(4096));
}

static void launch_kernel(const void *context, uint32_t thread_bytes, uint64_t takes_bytes)
{
	struct local_growth g;

	CHECK_EQ(reserve(&g, context, thread_bytes, &kernel), 0);
	card.bytes += takes_bytes;
	local_finish(&g, LOCAL_GREW);
}

/* A library's kernel may run where its library is, and is settled where that is everywhere. */
static void kernels_of_libraries(void)
{
	start();
	function_enter(&kernel, FUNCTION_KERNEL, &library);
	local_tell(&kernel, NULL, 64);
	CHECK(!function_is_settled(&kernel));
	launch_kernel(&ctx, 64, 0);
	CHECK(!function_is_settled(&kernel) && !function_has_place(&kernel, &ctx));
	library_enter(&library, &ctx, dev0, LIBRARY_CODE);
	launch_kernel(&ctx, 64, 0);
	CHECK(function_is_settled(&kernel));
	local_open(&other_ctx, dev0);
	CHECK(!function_is_settled(&kernel) && !function_has_place(&kernel, &other_ctx));
	launch_kernel(&ctx, 64, 0);
	CHECK(!function_is_settled(&kernel) && function_has_place(&kernel, &ctx));
	library_enter(&library, &other_ctx, dev0, LIBRARY_CODE);
	launch_kernel(&other_ctx, 64, 0);
	CHECK(function_is_settled(&kernel));
	/* Another of the same handle. */
	local_open(&other_ctx, dev0);
	launch_kernel(&ctx, 64, 0);
	CHECK(!function_is_settled(&kernel));
	/* One that needs more than one of them has. */
	library_enter(&library, &other_ctx, dev0, LIBRARY_CODE);
	launch_kernel(&ctx, 4096, AREA(4096));
	launch_kernel(&ctx, 4096, 0);
	CHECK(!function_is_settled(&kernel) && function_has_place(&kernel, &ctx));
	CHECK(!function_has_place(&kernel, &other_ctx));
	launch_kernel(&other_ctx, 4096, AREA(4096));
	launch_kernel(&other_ctx, 4096, 0);
	CHECK(function_is_settled(&kernel));
	local_end(local_take(&other_ctx), UINT64_MAX);
	CHECK(function_is_settled(&kernel));
}

static void a_smaller_stack(void)
{
	struct local_use use = { .ctx = &ctx, .dev = dev0, .thread_bytes = 512 };
	struct local_growth g;

	start();
	CHECK_EQ(reserve(&g, &ctx, 4096, &function), 0);
	local_finish(&g, LOCAL_GREW);
	CHECK(function_is_settled(&function));
	local_shrink(&use);
	CHECK(!function_is_settled(&function));
	CHECK_EQ(reserve(&g, &ctx, 4096, &function), 0);
	CHECK(g.is_growing);
	CHECK_EQ(g.bytes, AREA(4096));
	local_finish(&g, LOCAL_FAILED);
}

/* Without the card's figure the prediction stands until the context ends. */
static void a_card_that_cannot_say(void)
{
	struct local_growth g;

	start();
	card.error = -ENOTSUP;
	launch(&ctx, 4096, 0);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(4096));
	CHECK_EQ(reserve(&g, &ctx, 8192, NULL), 0);
	local_finish(&g, LOCAL_FAILED);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(4096));
	CHECK_EQ(reserve(&g, &ctx, 8192, NULL), 0);
	local_finish(&g, LOCAL_PERHAPS);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(8192));
	CHECK_EQ(local_end(local_take(&ctx), UINT64_MAX), AREA(8192));
}

/* Where the device does not say how many threads it has, the card's figure alone counts. */
static void unknown_threads(void)
{
	struct local_use use = { .ctx = &ctx, .dev = dev0, .thread_bytes = 4096 };
	struct local_growth g;

	start();
	CHECK_EQ(local_reserve(&g, &use, &function), 0);
	CHECK_EQ(held(), CONTEXT_BYTES);
	card.bytes += AREA(4096);
	local_finish(&g, LOCAL_GREW);
	CHECK_EQ(held(), CONTEXT_BYTES + AREA(4096));
	CHECK(function_is_settled(&function));
}

/* Of a call that may have let either grow, the card says whether both have. */
static void two_by_one_call(void)
{
	struct local_growth both[2];

	for (int grown = 0; grown < 3; grown++) {
		start();
		local_open(&other_ctx, dev0);
		CHECK_EQ(reserve(&both[0], &ctx, 4096, NULL), 0);
		CHECK_EQ(reserve(&both[1], &other_ctx, 4096, NULL), 0);
		CHECK_EQ(held(), CONTEXT_BYTES + 2 * AREA(4096));
		card.bytes += (uint64_t)grown * AREA(4096);
		local_finish_all(both, 2, LOCAL_GREW);
		CHECK_EQ(held(), CONTEXT_BYTES + (uint64_t)grown * AREA(4096));
		CHECK_EQ(reserve(&both[0], &ctx, 4096, NULL), 0);
		CHECK_EQ(reserve(&both[1], &other_ctx, 4096, NULL), 0);
		CHECK_EQ(both[0].is_growing, grown < 2);
		CHECK_EQ(both[1].is_growing, grown < 2);
		local_finish_all(both, 2, LOCAL_FAILED);
		CHECK_EQ(held(), CONTEXT_BYTES + (uint64_t)grown * AREA(4096));
	}
}

/* One that may need less has grown only if all of it is there. */
static void wholly(void)
{
	struct local_growth g;

	start();
	CHECK_EQ(reserve(&g, &ctx, 4096, NULL), 0);
	card.bytes += AREA(4096) - TRACK_BLOCK_BYTES;
	local_finish(&g, LOCAL_WHOLLY);
	CHECK_EQ(reserve(&g, &ctx, 4096, NULL), 0);
	CHECK(g.is_growing);
	card.bytes += AREA(4096);
	local_finish(&g, LOCAL_WHOLLY);
	CHECK_EQ(reserve(&g, &ctx, 4096, NULL), 0);
	CHECK(!g.is_growing);
}

static void an_epoch_turns_when_room_is_lost(void)
{
	struct local_use use = { .ctx = &ctx, .dev = dev0, .thread_bytes = 1024 };
	uint64_t epoch;

	start();
	launch(&ctx, 4096, AREA(4096));
	epoch = local_epoch();
	launch(&ctx, 8192, AREA(8192) - AREA(4096));
	CHECK_EQ(local_epoch(), epoch);
	local_shrink(&use);
	CHECK(local_epoch() != epoch);
	epoch = local_epoch();
	local_open(&other_ctx, dev0);
	CHECK(local_epoch() != epoch);
	epoch = local_epoch();
	local_end(local_take(&other_ctx), UINT64_MAX);
	CHECK(local_epoch() != epoch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(the_most_counts),
		fresh_test(too_large_is_refused),
		fresh_test(what_is_reserved_stays_until_it_is_over),
		fresh_test(two_at_once),
		fresh_test(perhaps),
		fresh_test(each_context_has_its_own),
		fresh_test(kernels_of_libraries),
		fresh_test(a_smaller_stack),
		fresh_test(a_card_that_cannot_say),
		fresh_test(unknown_threads),
		fresh_test(two_by_one_call),
		fresh_test(wholly),
		fresh_test(an_epoch_turns_when_room_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
