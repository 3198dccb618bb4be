#include "core/function.h"

#include "core/context.h"
#include "core/gate.h"

#include "fresh.h"

#include "base/process.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char handles[2000], module, library, ctx, other_ctx;

/* True while the calling thread's launches go the slow way. */
static bool is_watched(void)
{
	gate_leave(gate_enter());
	return gate_is_watched();
}

static void one_that_was_never_launched_is_watched_for(void)
{
	function_init();
	CHECK(!function_any() && !is_watched());
	CHECK(function_is_settled(NULL));
	CHECK(!function_is_settled(&handles[0]));
	function_enter(&handles[0], FUNCTION_OF_CONTEXT, &module);
	function_enter(&handles[1], FUNCTION_OF_CONTEXT, &module);
	CHECK(function_any() && is_watched());
	function_tell(&handles[0], &ctx, 64, true);
	CHECK(function_is_settled(&handles[0]) && !function_is_settled(&handles[1]));
	CHECK(is_watched());
	function_tell(&handles[1], &ctx, 4096, false);
	CHECK(!function_is_settled(&handles[1]) && is_watched());
	function_room(&ctx, 2048, 1024);
	CHECK(!function_is_settled(&handles[1]));
	function_room(&ctx, 4096, 1024);
	CHECK(function_is_settled(&handles[1]));
	CHECK(!function_any() && !is_watched());
	CHECK_EQ(function_most(), 4096);
}

/* A watch for something else goes on. */
static void other_watchers_stay(void)
{
	function_init();
	gate_watch(GATE_METERING, true);
	function_enter(&handles[0], FUNCTION_OF_CONTEXT, &module);
	function_tell(&handles[0], &ctx, 64, true);
	CHECK(!function_any() && is_watched());
	function_enter(&handles[1], FUNCTION_OF_CONTEXT, &module);
	gate_watch(GATE_METERING, false);
	CHECK(is_watched());
	function_end(&handles[1]);
	CHECK(!is_watched());
}

static void a_handle_is_given_again(void)
{
	uint32_t bytes = 0;

	function_init();
	function_enter(&handles[0], FUNCTION_OF_CONTEXT, &module);
	function_tell(&handles[0], &ctx, 64, true);
	/* The same one: what is known stays. */
	function_enter(&handles[0], FUNCTION_OF_CONTEXT, &module);
	CHECK(function_is_settled(&handles[0]));
	CHECK(function_thread_bytes(&handles[0], &bytes));
	CHECK_EQ(bytes, 64);
	/* Another's. */
	function_enter(&handles[0], FUNCTION_KERNEL, &library);
	CHECK(!function_is_settled(&handles[0]));
	CHECK(!function_thread_bytes(&handles[0], &bytes));
	CHECK(function_kind(&handles[0]) == FUNCTION_KERNEL);
	CHECK(function_owner(&handles[0]) == &library);
	/* Of the same owner's address, after that ended. */
	function_tell(&handles[0], NULL, 64, true);
	function_end_owner(&library);
	CHECK(!function_thread_bytes(&handles[0], &bytes));
	function_enter(&handles[0], FUNCTION_KERNEL, &library);
	CHECK(!function_is_settled(&handles[0]) && function_any());
}

/* A kernel runs in any context, a function in its own. */
static void kernels_want_room_in_every_context(void)
{
	function_init();
	function_enter(&handles[0], FUNCTION_KERNEL, NULL);
	function_enter(&handles[1], FUNCTION_OF_CONTEXT, &module);
	function_tell(&handles[0], &ctx, 4096, false);
	function_tell(&handles[1], &ctx, 4096, false);
	function_room(&other_ctx, 8192, 1024);
	CHECK(!function_is_settled(&handles[0]) && !function_is_settled(&handles[1]));
	function_room(&ctx, 8192, 1024);
	CHECK(!function_is_settled(&handles[0]) && function_is_settled(&handles[1]));
	function_room(&ctx, 8192, 8192);
	CHECK(function_is_settled(&handles[0]));
	/* A new context has less; one that lost its room, too. */
	function_room(&other_ctx, 1024, 1024);
	CHECK(!function_is_settled(&handles[0]) && function_is_settled(&handles[1]));
	function_room(&ctx, 1024, 1024);
	CHECK(!function_is_settled(&handles[1]));
	function_end_context(&ctx, UINT64_MAX);
	CHECK(function_any());
	function_end(&handles[0]);
	CHECK(!function_any());
}

/* A context that was made meanwhile has the handle of one that ended: what came to it stays. */
static void what_is_anothers_by_now_stays(void)
{
	const struct dev dev0 = { 0 };
	uint32_t bytes;
	uint64_t mark;

	function_init();
	context_init();
	context_enter(&ctx, dev0, 0);
	function_enter(&handles[0], FUNCTION_OF_CONTEXT, &module);
	function_tell(&handles[0], &ctx, 4096, false);
	mark = context_mark();
	context_enter(&ctx, dev0, 0);
	function_enter(&handles[1], FUNCTION_OF_CONTEXT, &library);
	function_tell(&handles[1], &ctx, 4096, false);
	function_end_context(&ctx, mark);
	CHECK(!function_thread_bytes(&handles[0], &bytes));
	CHECK(function_thread_bytes(&handles[1], &bytes) && !function_is_settled(&handles[1]));
	function_end_context(&ctx, UINT64_MAX);
	CHECK(!function_any());
}

/* An owner that did not go has what it had; what its handles are others' by then is theirs. */
static void an_owner_that_stays(void)
{
	uint32_t bytes;
	char going;

	function_init();
	function_enter(&handles[0], FUNCTION_OF_CONTEXT, &module);
	function_enter(&handles[1], FUNCTION_OF_CONTEXT, &module);
	function_tell(&handles[1], &ctx, 4096, false);
	function_rename_owner(&module, &going);
	function_rename_owner(NULL, &going);
	function_rename_owner(&going, &module);
	CHECK(!function_is_settled(&handles[0]) && !function_is_settled(&handles[1]));
	CHECK(function_thread_bytes(&handles[1], &bytes) && bytes == 4096);
	CHECK(function_owner(&handles[1]) == &module);
	function_rename_owner(&module, &going);
	function_enter(&handles[0], FUNCTION_OF_CONTEXT, &module);
	function_end_owner(&going);
	CHECK(!function_is_settled(&handles[0]) && function_owner(&handles[0]) == &module);
	CHECK(!function_thread_bytes(&handles[1], &bytes));
}

/* A library's kernel also wants its library there, of which only who tells of it knows. */
static void kernels_of_libraries_have_places(void)
{
	function_init();
	function_enter(&handles[0], FUNCTION_KERNEL, &library);
	function_enter(&handles[1], FUNCTION_OF_CONTEXT, &module);
	function_tell(&handles[0], NULL, 64, false);
	function_tell(&handles[1], &ctx, 64, true);
	CHECK(!function_has_place(&handles[0], &ctx));
	function_place(&handles[0], &ctx);
	CHECK(function_has_place(&handles[0], &ctx));
	CHECK(!function_has_place(&handles[0], &other_ctx));
	CHECK(!function_has_place(&handles[0], NULL) && !function_has_place(NULL, &ctx));
	/* Room came or went somewhere: its launch looks again, and nothing else settles it. */
	function_room(&other_ctx, 4096, 1024);
	CHECK(!function_has_place(&handles[0], &ctx) && !function_is_settled(&handles[0]));
	function_tell(&handles[0], NULL, 64, true);
	CHECK(function_is_settled(&handles[0]) && !function_any());
	function_context_came();
	CHECK(!function_is_settled(&handles[0]) && function_is_settled(&handles[1]));
	function_place(&handles[1], &ctx);
	CHECK(!function_has_place(&handles[1], &ctx));
	/* The handle is another's now. */
	function_place(&handles[0], &ctx);
	function_end_owner(&library);
	CHECK(!function_has_place(&handles[0], &ctx));
	function_enter(&handles[0], FUNCTION_KERNEL, &library);
	CHECK(!function_has_place(&handles[0], &ctx));
	function_place(&handles[0], &ctx);
	function_enter(&handles[0], FUNCTION_KERNEL, &module);
	CHECK(!function_has_place(&handles[0], &ctx));
}

/* Many more than the table begins with; modules come and go. */
static void many_functions(void)
{
	enum { ALL = sizeof(handles) };

	function_init();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < ALL; i++)
			function_enter(&handles[i], FUNCTION_OF_CONTEXT,
				       i % 2 ? &module : &library);
		for (int i = 0; i < ALL; i += 2)
			function_tell(&handles[i], &ctx, (uint32_t)i, true);
		for (int i = 0; i < ALL; i++)
			CHECK_EQ(function_is_settled(&handles[i]), i % 2 == 0);
		function_end_owner(&library);
		CHECK(function_any());
		function_end_owner(&module);
		CHECK(!function_any() && !is_watched());
	}
}

/* A thread with handles of its own, while others make the table grow. */
static void *give_and_launch(void *arg)
{
	char *own = arg;

	for (int i = 0; i < 500; i++) {
		function_enter(&own[i], FUNCTION_OF_CONTEXT, &module);
		CHECK(function_any() && !function_is_settled(&own[i]));
		gate_leave(gate_enter());
		CHECK(gate_is_watched());
		function_tell(&own[i], &ctx, 64, true);
		CHECK(function_is_settled(&own[i]) && function_is_settled(&own[0]));
	}
	return NULL;
}

static void threads_at_once(void)
{
	pthread_t threads[4];

	function_init();
	for (int t = 0; t < 4; t++)
		CHECK(!pthread_create(&threads[t], NULL, give_and_launch, &handles[500 * t]));
	for (int t = 0; t < 4; t++)
		CHECK(!pthread_join(threads[t], NULL));
	CHECK(!function_any() && !is_watched());
}

static void a_child_has_none(void)
{
	int status;
	pid_t pid;

	function_init();
	function_enter(&handles[0], FUNCTION_OF_CONTEXT, &module);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		process_check();
		_exit(function_any() || is_watched());
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(function_any());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(one_that_was_never_launched_is_watched_for),
		fresh_test(other_watchers_stay),
		fresh_test(a_handle_is_given_again),
		fresh_test(kernels_want_room_in_every_context),
		fresh_test(kernels_of_libraries_have_places),
		fresh_test(what_is_anothers_by_now_stays),
		fresh_test(an_owner_that_stays),
		fresh_test(many_functions),
		fresh_test(threads_at_once),
		fresh_test(a_child_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
