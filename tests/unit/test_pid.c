/*
 * Processes of other pid namespaces, by the names that they have here.
 */
#include "base/clock.h"
#include "base/pid.h"
#include "child.h"
#include "scratch.h"

#include <sched.h>

static void test_our_own(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	assert_int_equal(pid_namespace(), st.st_ino);
	/* We have one name only. */
	assert_int_equal(pid_here(getpid(), pid_namespace(), 0), 0);
}

struct inner {
	uint64_t namespace, start_ticks;
	pid_t pid, found_self;
};

static bool proc_is_ours(void)
{
	char text[16] = "";

	return readlink("/proc/self", text, sizeof(text) - 1) > 0 && atoi(text) == getpid();
}

/*
 * Starts a process that is the first of a namespace below ours, and tells of it: its pid here, or
 * -1.
 */
static pid_t start_inner(int pipes[2], struct inner *out)
{
	pid_t pid;

	if (unshare(CLONE_NEWPID) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		struct inner me = { .pid = getpid() };

		/* /proc is still that of the outer namespace: it shows us under our outer name. */
		me.namespace = pid_namespace();
		me.found_self = pid_here(1, me.namespace, 0);
		CHECK(write(pipes[1], &me, sizeof(me)) == sizeof(me));
		pause();
	}
	CHECK(pid > 0 && read(pipes[0], out, sizeof(*out)) == sizeof(*out));
	out->start_ticks = clock_process_start(pid);
	return pid;
}

static void below(void *arg)
{
	uint64_t ours = pid_namespace();
	struct inner inner;
	int pipes[2], status;
	pid_t pid;

	(void)arg;
	CHECK(pipe(pipes) == 0);
	pid = start_inner(pipes, &inner);
	if (pid < 0)
		child_skip("no right to make a namespace");
	CHECK(inner.pid == 1 && inner.namespace && inner.namespace != ours);
	/* From the innermost: /proc is not its own. */
	CHECK(inner.found_self == 0);
	if (!proc_is_ours())
		child_skip("/proc is another namespace's");
	CHECK(inner.start_ticks > 0);
	CHECK(pid_here(1, inner.namespace, inner.start_ticks) == pid);
	CHECK(pid_here(1, inner.namespace, 0) == pid);
	CHECK(pid_here(2, inner.namespace, inner.start_ticks) == 0);
	CHECK(pid_here(1, inner.namespace + 1, inner.start_ticks) == 0);
	CHECK(pid_here(1, inner.namespace, inner.start_ticks + 1) == 0);
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	CHECK(pid_here(1, inner.namespace, inner.start_ticks) == 0);
}

static void test_below_ours(void **state)
{
	(void)state;
	child_run(below, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_our_own),
		cmocka_unit_test(test_below_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
