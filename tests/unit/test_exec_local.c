#include "core/exec_local.h"

#include "core/context.h"
#include "fresh.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

static char exec, other, ctx[EXEC_LOCAL_PLACES + 1];

static struct exec_local_need need_of(const void *context, uint32_t thread_bytes)
{
	struct exec_local_need need = { .most_bytes = 0 };

	CHECK(exec_local_add(&need, context, thread_bytes));
	return need;
}

static void make(const void *handle, const void *context, uint32_t thread_bytes)
{
	struct exec_local_need need = need_of(context, thread_bytes);

	exec_local_enter(handle, exec_local_new(), &need);
}

static uint32_t most(const void *handle)
{
	struct exec_local_need need;

	return exec_local_find(handle, &need) ? need.most_bytes : 0;
}

static bool is_less(const void *handle)
{
	struct exec_local_need need;

	CHECK(exec_local_find(handle, &need));
	return need.is_less;
}

static void kernels_of_one_context_are_one_place(void)
{
	struct exec_local_need need = { .most_bytes = 0 };

	CHECK(exec_local_add(&need, &ctx[0], 2048) && exec_local_add(&need, &ctx[1], 8192));
	CHECK(exec_local_add(&need, &ctx[0], 4096) && exec_local_add(&need, &ctx[1], 1536));
	CHECK_EQ(need.count, 2);
	CHECK_EQ(need.most_bytes, 8192);
	CHECK_EQ(need.at[0].thread_bytes, 4096);
	CHECK_EQ(need.at[1].thread_bytes, 8192);
	for (int i = 2; i < EXEC_LOCAL_PLACES; i++)
		CHECK(exec_local_add(&need, &ctx[i], 2048));
	CHECK(!exec_local_add(&need, &ctx[EXEC_LOCAL_PLACES], 16384));
	CHECK(exec_local_add(&need, &ctx[0], 2048));
	CHECK_EQ(need.most_bytes, 8192);
}

/* Until the change is made, and where it was not, it may need either. */
static void a_change(void)
{
	struct exec_local_need less = need_of(&ctx[1], 2048), more = need_of(&ctx[1], 8192), none;

	exec_local_init();
	none = (struct exec_local_need){ .most_bytes = 0 };
	make(&exec, &ctx[0], 4096);
	CHECK(!is_less(&exec));
	CHECK_EQ(exec_local_raise(&exec, &more), 0);
	CHECK(most(&exec) == 8192 && is_less(&exec));
	exec_local_changed(&exec, 8192);
	CHECK(most(&exec) == 8192 && !is_less(&exec));
	CHECK_EQ(exec_local_raise(&exec, &less), 0);
	exec_local_changed(&exec, 2048);
	CHECK(most(&exec) == 8192 && is_less(&exec));
	exec_local_set(&exec, &less);
	CHECK(most(&exec) == 2048 && !is_less(&exec));
	CHECK_EQ(exec_local_raise(&exec, &none), 0);
	exec_local_set(&exec, &none);
	CHECK_EQ(most(&exec), 0);
	CHECK_EQ(exec_local_raise(&exec, &none), 0);
	CHECK_EQ(most(&exec), 0);
	CHECK_EQ(exec_local_raise(&exec, &less), 0);
	CHECK_EQ(most(&exec), 2048);
}

static void a_change_to_too_many_contexts_changes_nothing(void)
{
	struct exec_local_need more = { .most_bytes = 0 }, was;

	exec_local_init();
	make(&exec, &ctx[0], 4096);
	for (int i = 1; i <= EXEC_LOCAL_PLACES; i++)
		CHECK(exec_local_add(&more, &ctx[i], 8192));
	CHECK_EQ(exec_local_raise(&exec, &more), -ENOSPC);
	CHECK(exec_local_find(&exec, &was));
	CHECK_EQ(was.count, 1);
	CHECK_EQ(was.most_bytes, 4096);
}

static struct exec_local_run run_of(const void *handle)
{
	struct exec_local_need need;

	CHECK(exec_local_find(handle, &need));
	return (struct exec_local_run){
		.current = &ctx[0], .stream_ctx = &ctx[1], .epoch = 7, .change = need.change
	};
}

static void a_launch_counts_until_something_changes(void)
{
	struct exec_local_need need = need_of(&ctx[0], 4096);
	struct exec_local_run run, elsewhere;

	exec_local_init();
	make(&exec, &ctx[0], 4096);
	run = run_of(&exec);
	CHECK(!exec_local_has_run(&exec, &run));
	exec_local_launched(&exec, &run);
	CHECK(exec_local_has_run(&exec, &run) && !exec_local_has_run(&other, &run));
	elsewhere = run;
	elsewhere.stream_ctx = NULL;
	CHECK(!exec_local_has_run(&exec, &elsewhere));
	elsewhere = run;
	elsewhere.epoch++;
	CHECK(!exec_local_has_run(&exec, &elsewhere));
	CHECK_EQ(exec_local_raise(&exec, &need), 0);
	elsewhere = run_of(&exec);
	CHECK(!exec_local_has_run(&exec, &elsewhere));
	/* A launch that began before the change ends after it. */
	exec_local_launched(&exec, &run);
	CHECK(!exec_local_has_run(&exec, &elsewhere));
	make(&exec, &ctx[0], 4096);
	elsewhere = run_of(&exec);
	CHECK(!exec_local_has_run(&exec, &elsewhere) && !exec_local_has_run(&exec, &run));
}

static void ends(void)
{
	struct exec_local_need need;

	exec_local_init();
	make(&exec, &ctx[0], 4096);
	make(&other, &ctx[1], 2048);
	exec_local_end_context(&ctx[0], UINT64_MAX);
	CHECK(exec_local_find(&exec, &need) && need.count == 0 && need.most_bytes == 4096);
	CHECK(exec_local_find(&other, &need) && need.count == 1);
	exec_local_end(&exec);
	exec_local_end(&exec);
	CHECK(!exec_local_find(&exec, &need) && exec_local_find(&other, &need));
}

/* A context that was made meanwhile has the handle of one that ended: what came to it stays. */
static void what_is_anothers_by_now_stays(void)
{
	const struct dev dev0 = { 0 };
	struct exec_local_need need;
	uint64_t mark;

	exec_local_init();
	context_init();
	context_enter(&ctx[0], dev0, 0);
	make(&exec, &ctx[0], 4096);
	mark = context_mark();
	context_enter(&ctx[0], dev0, 0);
	make(&other, &ctx[0], 2048);
	exec_local_end_context(&ctx[0], mark);
	CHECK(exec_local_find(&exec, &need) && need.count == 0);
	CHECK(exec_local_find(&other, &need) && need.count == 1);
}

static void a_child_has_none(void)
{
	int status;
	pid_t pid;

	exec_local_init();
	make(&exec, &ctx[0], 4096);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(most(&exec) != 0);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK_EQ(most(&exec), 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(kernels_of_one_context_are_one_place),
		fresh_test(a_change),
		fresh_test(a_change_to_too_many_contexts_changes_nothing),
		fresh_test(a_launch_counts_until_something_changes),
		fresh_test(ends),
		fresh_test(what_is_anothers_by_now_stays),
		fresh_test(a_child_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
