#include "base/process.h"

#include "child.h"
#include "refuse.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct state {
	int value;
	char text[70000]; /* more than one page of any size */
	int last;
};

PROCESS_STATE(state, first);
PROCESS_STATE(state, second);

/* Beside the states: what no child may lose. */
static int neighbour = 7;

static void fill(void)
{
	first.s.value = second.s.value = 1;
	first.s.last = second.s.last = 2;
	memset(first.s.text, 'x', sizeof(first.s.text));
}

static bool is_filled(void)
{
	return first.s.value == 1 && first.s.last == 2 && second.s.value == 1 &&
	       second.s.last == 2 && first.s.text[0] == 'x' &&
	       first.s.text[sizeof(first.s.text) - 1] == 'x';
}

static bool is_wiped(void)
{
	for (size_t i = 0; i < sizeof(first.s.text); i++)
		if (first.s.text[i])
			return false;
	return first.s.value == 0 && first.s.last == 0 && second.s.value == 0 && second.s.last == 0;
}

/* Runs the check in a child made by `make` and answers whether it found what it wants. */
static int child_finds(pid_t (*make)(void), bool (*check)(void))
{
	int status;
	pid_t pid = make();

	if (pid == 0)
		_exit(check() && neighbour == 7 ? 0 : 1);
	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static pid_t raw_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static bool grandchild_is_wiped(void)
{
	if (!is_wiped())
		return false;
	fill();
	process_wipe_on_fork(&first, sizeof(first));
	process_wipe_on_fork(&second, sizeof(second));
	return child_finds(fork, is_wiped) && is_filled();
}

static void body_wipe(void *arg)
{
	(void)arg;
	fill();
	process_wipe_on_fork(&first, sizeof(first));
	process_wipe_on_fork(&second, sizeof(second));
	process_wipe_on_fork(&first, sizeof(first));
	CHECK(is_filled());
	CHECK(child_finds(fork, is_wiped));
	CHECK(child_finds(raw_clone, is_wiped));
	CHECK(child_finds(fork, grandchild_is_wiped));
	process_check();
	CHECK(is_filled());
}

static void test_children_find_nothing(void **state)
{
	(void)state;
	assert_int_equal((uintptr_t)&first % PROCESS_PAGE_BYTES, 0);
	assert_int_equal(sizeof(first) % PROCESS_PAGE_BYTES, 0);
	child_run(body_wipe, NULL);
}

static void *fork_in_thread(void *arg)
{
	CHECK(child_finds(fork, is_wiped));
	return arg;
}

static void body_thread(void *arg)
{
	pthread_t thread;

	(void)arg;
	fill();
	process_wipe_on_fork(&first, sizeof(first));
	process_wipe_on_fork(&second, sizeof(second));
	CHECK(pthread_create(&thread, NULL, fork_in_thread, NULL) == 0);
	pthread_join(thread, NULL);
	CHECK(is_filled());
}

static void test_fork_from_a_thread(void **state)
{
	(void)state;
	child_run(body_thread, NULL);
}

/* vfork shares the memory: it must stay the parent's. */
static void body_vfork(void *arg)
{
	static char program[] = "/bin/true";
	char *argv[] = { program, NULL };
	pid_t pid;
	int status;

	(void)arg;
	fill();
	process_wipe_on_fork(&first, sizeof(first));
	process_wipe_on_fork(&second, sizeof(second));
	CHECK(posix_spawn(&pid, program, NULL, NULL, argv, NULL) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(is_filled());
}

static void test_spawn_keeps_the_parents(void **state)
{
	(void)state;
	child_run(body_vfork, NULL);
}

static bool check_wipes(void)
{
	/* Nothing was wiped by the kernel, so the slow path has to. */
	if (!is_filled())
		return false;
	process_check();
	if (!is_wiped())
		return false;
	/* This process's own state stays. */
	fill();
	process_wipe_on_fork(&first, sizeof(first));
	process_wipe_on_fork(&second, sizeof(second));
	process_check();
	return is_filled();
}

static bool grandchild_is_checked(void)
{
	return check_wipes() && child_finds(fork, check_wipes) && is_filled();
}

/* The grandchild forks before its parent looked. */
static bool grandchild_of_unchecked(void)
{
	return child_finds(fork, check_wipes);
}

static void body_refused(void *arg)
{
	(void)arg;
	if (!refuse_call(SYS_madvise, 2, MADV_WIPEONFORK, EINVAL))
		child_skip("no seccomp filter can be set here");
	CHECK(madvise(&first, sizeof(first), MADV_WIPEONFORK) < 0);
	fill();
	process_check();
	CHECK(is_filled());
	process_wipe_on_fork(&first, sizeof(first));
	process_wipe_on_fork(&second, sizeof(second));
	process_wipe_on_fork(&first, sizeof(first));
	process_check();
	CHECK(is_filled());
	CHECK(child_finds(fork, check_wipes));
	CHECK(child_finds(raw_clone, check_wipes));
	CHECK(child_finds(fork, grandchild_is_checked));
	CHECK(child_finds(fork, grandchild_of_unchecked));
	CHECK(is_filled());
}

static void test_where_the_kernel_cannot_wipe(void **state)
{
	(void)state;
	child_run(body_refused, NULL);
}

static pthread_barrier_t both;

static void *keep_second(void *arg)
{
	pthread_barrier_wait(&both);
	process_wipe_on_fork(&second, sizeof(second));
	return arg;
}

/* Two threads come upon states of theirs at the same moment. */
static bool is_kept_by_both(void)
{
	pthread_t thread;

	fill();
	CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
	CHECK(pthread_create(&thread, NULL, keep_second, NULL) == 0);
	pthread_barrier_wait(&both);
	process_wipe_on_fork(&first, sizeof(first));
	CHECK(pthread_join(thread, NULL) == 0);
	return child_finds(fork, check_wipes);
}

static void body_refused_to_both(void *arg)
{
	(void)arg;
	if (!refuse_call(SYS_madvise, 2, MADV_WIPEONFORK, EINVAL))
		child_skip("no seccomp filter can be set here");
	for (int i = 0; i < 200; i++)
		CHECK(child_finds(fork, is_kept_by_both));
}

static void test_where_the_kernel_cannot_wipe_from_threads(void **state)
{
	(void)state;
	child_run(body_refused_to_both, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_children_find_nothing),
		cmocka_unit_test(test_fork_from_a_thread),
		cmocka_unit_test(test_spawn_keeps_the_parents),
		cmocka_unit_test(test_where_the_kernel_cannot_wipe),
		cmocka_unit_test(test_where_the_kernel_cannot_wipe_from_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
