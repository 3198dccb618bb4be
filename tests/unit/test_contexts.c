/*
 * Contexts on the model driver: what one costs is learnt, charged and taken off again, also where
 * the card cannot be asked and where others are in between.
 */
#include "base/log.h"
#include "core/learnt.h"
#include "hook/enter.h"

#include "member.h"
#include "model_driver.h"

#include <errno.h>
#include <fcntl.h>

#define MIB (UINT64_C(1) << 20)
#define CONTEXT MODEL_CONTEXT_BYTES

static CUcontext primary;

static void begin(const char *limit)
{
	model_start(256 * MIB);
	model_join(scratch_path("region"), limit);
}

static CUresult retain(void)
{
	return hook_cuDevicePrimaryCtxRetain(&primary, 0);
}

static CUcontext create(void)
{
	CUcontext ctx;

	CHECK(hook_cuCtxCreate_v2(&ctx, 0, 0) == CUDA_SUCCESS);
	return ctx;
}

static uint64_t overhead(void)
{
	return quota_held(dev0, QUOTA_CONTEXT) + quota_held(dev0, QUOTA_MODULE);
}

static void check_books(void)
{
	struct model_books books = model_look();

	CHECK_EQ(quota_held(dev0, QUOTA_DATA), books.blocks_bytes);
	CHECK_EQ(overhead(), books.overhead_bytes);
	CHECK_EQ(track_physical(dev0), books.blocks_bytes);
}

/* Each is charged by the learnt figure, as it was then, and that is what its end takes off. */
static void contexts_where_the_card_cannot_be_asked(void)
{
	CUcontext first, second;

	begin("100m");
	model_answer(-ENOTSUP);
	learnt_note_context(dev0, CONTEXT);
	CHECK(retain() == CUDA_SUCCESS);
	first = create();
	CHECK_EQ(overhead(), 2 * CONTEXT);
	learnt_note_context(dev0, 20 * MIB);
	second = create();
	CHECK_EQ(overhead(), 2 * CONTEXT + 20 * MIB);
	model_fail_next();
	CHECK(hook_cuCtxDestroy_v2(first) != CUDA_SUCCESS);
	CHECK_EQ(overhead(), 2 * CONTEXT + 20 * MIB);
	CHECK(hook_cuCtxDestroy_v2(first) == CUDA_SUCCESS);
	CHECK_EQ(overhead(), CONTEXT + 20 * MIB);
	CHECK(hook_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	CHECK_EQ(overhead(), 20 * MIB);
	model_fail_next();
	CHECK(hook_cuCtxCreate_v2(&first, 0, 0) != CUDA_SUCCESS);
	CHECK_EQ(overhead(), 20 * MIB);
	CHECK(hook_cuCtxDestroy_v2(second) == CUDA_SUCCESS);
	CHECK_EQ(quota_used(dev0), 0);
	/* A figure that does not fit cannot be proved wrong here. */
	learnt_note_context(dev0, 120 * MIB);
	CHECK(retain() == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(quota_used(dev0), 0);
	CHECK_EQ(model_look().overhead_bytes, 0);
}

/* Somebody wrote nonsense: it keeps nobody out for good. */
static void a_wrong_figure_is_found_out(void)
{
	begin("40m");
	learnt_note_context(dev0, 41 * MIB);
	CHECK(retain() == CUDA_SUCCESS);
	check_books();
	CHECK_EQ(learnt_context_bytes(dev0), CONTEXT);
	/* What was seen here is not raised by what is told. */
	learnt_note_context(dev0, 30 * MIB);
	hook_cuCtxDestroy_v2(create());
	CHECK_EQ(learnt_context_bytes(dev0), CONTEXT);
	CHECK(hook_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	CHECK_EQ(quota_used(dev0), 0);
}

/* A context really does not fit: it is tried once, and then known. */
static void a_limit_below_a_context(void)
{
	CUcontext ctx;

	begin("8m");
	learnt_note_context(dev0, 9 * MIB);
	for (int i = 0; i < 5; i++) {
		CHECK(retain() == CUDA_ERROR_OUT_OF_MEMORY);
		CHECK(hook_cuCtxCreate_v2(&ctx, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	}
	CHECK_EQ(model_look().contexts_made, 1);
	CHECK_EQ(model_look().overhead_bytes, 0);
	CHECK_EQ(quota_used(dev0), 0);
	CHECK_EQ(learnt_context_bytes(dev0), CONTEXT);
}

/* Where two processes have seen that, it is not tried: nothing passes the limit for a moment. */
static void a_limit_below_what_others_saw(void)
{
	begin("8m");
	learnt_note_context(dev0, CONTEXT);
	learnt_saw_context(dev0, 3 * CONTEXT, LEARNT_ONCE);
	learnt_saw_context(dev0, 2 * CONTEXT, LEARNT_AGAIN);
	CHECK_EQ(learnt_context_least(dev0), 0);
	learnt_saw_context(dev0, CONTEXT, LEARNT_ONCE);
	CHECK_EQ(learnt_context_least(dev0), CONTEXT);
	CHECK(retain() == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(model_look().contexts_made, 0);
	CHECK_EQ(quota_used(dev0), 0);
	/* One saw less, and it may be so again. */
	learnt_saw_context(dev0, 7 * MIB, LEARNT_AGAIN);
	CHECK(retain() == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(model_look().contexts_made, 1);
	/* What no card could hold nobody saw. */
	quota_device(dev0)->context_least_bytes = UINT64_MAX;
	CHECK_EQ(learnt_context_least(dev0), 0);
}

/* Where one was sure, no other tries. */
static void a_limit_below_what_one_surely_saw(void)
{
	begin("8m");
	learnt_note_context(dev0, CONTEXT);
	learnt_saw_context(dev0, CONTEXT, LEARNT_SURELY);
	CHECK(retain() == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(model_look().contexts_made, 0);
	CHECK_EQ(quota_used(dev0), 0);
}

/* What is seen here is left for the others; who had nothing on the card before is sure of it. */
static void what_is_seen_is_told(void)
{
	begin("100m");
	CHECK(retain() == CUDA_SUCCESS);
	hook_cuCtxDestroy_v2(create());
	CHECK_EQ(quota_device(dev0)->context_least_bytes, CONTEXT);
	CHECK_EQ(quota_device(dev0)->context_seers, LEARNT_SURELY);
}

static void load_meanwhile(void)
{
	unsigned char image[2] = { 32 };
	CUmodule module;

	model_set_current(primary);
	CHECK(hook_cuModuleLoadData(&module, image) == CUDA_SUCCESS);
}

/* Another thread loads a module while a context is made: that is not what a context costs. */
static void modules_are_not_in_the_cost(void)
{
	CUcontext ctx;

	begin("200m");
	CHECK(retain() == CUDA_SUCCESS);
	CHECK_EQ(learnt_context_bytes(dev0), CONTEXT);
	learnt_note_context(dev0, 0);
	model_after_next(load_meanwhile);
	ctx = create();
	CHECK_EQ(learnt_context_bytes(dev0), 0);
	check_books();
	CHECK(hook_cuCtxDestroy_v2(ctx) == CUDA_SUCCESS);
	check_books();
}

static void users_keep_a_context(void)
{
	CUcontext ctx, same;
	CUdeviceptr addr;

	begin("200m");
	ctx = create();
	CHECK(hook_cuCtxAttach(&same, 0) == CUDA_SUCCESS && same == ctx);
	CHECK(hook_cuMemAlloc_v2(&addr, 4 * MIB) == CUDA_SUCCESS);
	CHECK(hook_cuCtxDetach(ctx) == CUDA_SUCCESS);
	check_books();
	CHECK_EQ(quota_used(dev0), CONTEXT + 4 * MIB);
	model_fail_next();
	CHECK(hook_cuCtxDetach(ctx) != CUDA_SUCCESS);
	check_books();
	CHECK(hook_cuCtxDetach(ctx) == CUDA_SUCCESS);
	check_books();
	CHECK_EQ(quota_used(dev0), 0);
}

static void retain_meanwhile(void)
{
	CHECK(retain() == CUDA_SUCCESS);
}

/* The primary context is there again when its end is looked for. */
static void a_new_primary_context_in_the_middle(void)
{
	CUdeviceptr addr;

	begin("200m");
	CHECK(retain() == CUDA_SUCCESS);
	model_set_current(primary);
	CHECK(hook_cuMemAlloc_v2(&addr, 40 * MIB) == CUDA_SUCCESS);
	model_after_next(retain_meanwhile);
	CHECK(hook_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	check_books();
	CHECK_EQ(quota_used(dev0), CONTEXT);
	model_set_current(primary);
	CHECK(hook_cuMemAlloc_v2(&addr, 40 * MIB) == CUDA_SUCCESS);
	/* One reference of two: nothing ends. */
	CHECK(retain() == CUDA_SUCCESS);
	CHECK(hook_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	CHECK_EQ(quota_used(dev0), CONTEXT + 40 * MIB);
	CHECK(hook_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	check_books();
	CHECK_EQ(quota_used(dev0), 0);
}

/* What is said to standard error, as text that is kept until the next. */
static const char *said(void (*say)(void))
{
	static char text[65536];
	int fd = open(scratch_path("said"), O_CREAT | O_TRUNC | O_RDWR, 0600), old = dup(2);
	ssize_t n;

	CHECK(fd >= 0 && old >= 0 && dup2(fd, 2) == 2);
	say();
	CHECK(dup2(old, 2) == 2);
	n = pread(fd, text, sizeof(text) - 1, 0);
	CHECK(n >= 0);
	text[n] = '\0';
	close(fd);
	close(old);
	return text;
}

static int lines_said(void (*say)(void))
{
	int lines = 0;

	for (const char *at = said(say); *at; at++)
		lines += *at == '\n';
	return lines;
}

static void be_refused(void)
{
	for (int i = 0; i < 100; i++)
		CHECK(retain() == CUDA_ERROR_OUT_OF_MEMORY);
}

static void refusals_are_not_said_without_end(void)
{
	int lines;

	begin("8m");
	lines = lines_said(be_refused);
	CHECK(lines >= 1 && lines <= 8);
	CHECK_EQ(lines_said(be_refused), 0);
}

static void refuse_little(void)
{
	CHECK(enter_refused(-EDQUOT, dev0, 1000) == CUDA_ERROR_OUT_OF_MEMORY);
}

/* Sizes are said as they are, small ones too. */
static void refusals_name_the_sizes(void)
{
	begin("300k");
	log_set_level(LOG_WARN);
	CHECK(strstr(said(refuse_little), ": 1000 B refused: 0 B of 300 KiB are in use\n"));
	CHECK(strstr(said(be_refused),
		     ": a context needs 12 MiB and the limit leaves 300 KiB of 300 KiB\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(contexts_where_the_card_cannot_be_asked),
		fresh_test(a_wrong_figure_is_found_out),
		fresh_test(a_limit_below_a_context),
		fresh_test(a_limit_below_what_others_saw),
		fresh_test(a_limit_below_what_one_surely_saw),
		fresh_test(what_is_seen_is_told),
		fresh_test(modules_are_not_in_the_cost),
		fresh_test(users_keep_a_context),
		fresh_test(a_new_primary_context_in_the_middle),
		fresh_test(refusals_name_the_sizes),
		fresh_test(refusals_are_not_said_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
