#include "shm/lifeline.h"

#include "mount.h"
#include "scratch.h"

#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#define MARK UINT32_C(0x12345678)

static struct lifeline line;

static enum lifeline_state look(void)
{
	return lifeline_look(line.number, line.namespace, MARK);
}

static void take(void)
{
	lifeline_take(MARK, &line);
	if (line.number == 0)
		child_skip("no System V shared memory here");
	CHECK(line.at && line.namespace && look() == LIFELINE_HELD);
}

/* What the test knows of a child's. */
static struct lifeline *shared;

static void body_stays(void *arg)
{
	(void)arg;
	take();
	*shared = line;
	child_say('k');
	child_hear();
}

/* A child that it leaves behind is not attached, however it was made. */
static void body_leaves_children(void *arg)
{
	(void)arg;
	take();
	for (int i = 0; i < 2; i++) {
		if ((i ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) != 0)
			continue;
		prctl(PR_SET_PDEATHSIG, 0);
		child_read(child_fd);
		_exit(0);
	}
	*shared = line;
	child_say('k');
	pause();
}

static void body_becomes_another(void *arg)
{
	(void)arg;
	take();
	*shared = line;
	child_say('k');
	child_hear();
	dup2(child_fd, 0);
	dup2(child_fd, 1);
	execlp("cat", "cat", NULL);
}

static void body_in_its_pid_namespace(void *arg)
{
	mount_other_pids(body_stays, arg);
}

/* Ready, or the test is skipped. */
static struct child begin(void (*body)(void *))
{
	struct child c = child_begin(body, NULL);

	line = *shared;
	return c;
}

static void test_goes_with_its_process(void **state)
{
	void (*const bodies[])(void *) = { body_stays, body_leaves_children };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct child c = begin(bodies[i]);

		assert_int_equal(look(), LIFELINE_HELD);
		kill(c.pid, SIGKILL);
		assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
		assert_int_equal(look(), LIFELINE_GONE);
		close(c.fd);
	}
}

static void test_a_process_that_nobody_waits_for(void **state)
{
	struct child c = begin(body_stays);
	siginfo_t info;

	(void)state;
	kill(c.pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(look(), LIFELINE_GONE);
	child_kill(&c);
}

static void test_another_program(void **state)
{
	struct child c = begin(body_becomes_another);

	(void)state;
	child_tell(&c, 'x');
	child_tell(&c, 'm');
	child_await(&c, 'm');
	assert_int_equal(look(), LIFELINE_GONE);
	child_kill(&c);
}

static void test_another_pid_namespace(void **state)
{
	struct child c = begin(body_in_its_pid_namespace);

	(void)state;
	assert_int_equal(look(), LIFELINE_HELD);
	child_tell(&c, 'x');
	child_end(&c);
	assert_int_equal(look(), LIFELINE_GONE);
}

static void body_number_again(void *arg)
{
	(void)arg;
	take();
	/* Somebody else's that has the number. */
	CHECK(lifeline_look(line.number, line.namespace, MARK + 1) == LIFELINE_GONE);
	CHECK(lifeline_look(0, line.namespace, MARK) == LIFELINE_UNKNOWN);
	CHECK(lifeline_look(UINT32_MAX, line.namespace, MARK) == LIFELINE_GONE);
	/* Who does not know where it was asks in vain, unless it is there. */
	CHECK(lifeline_look(line.number, 1, MARK + 1) == LIFELINE_UNKNOWN);
	CHECK(lifeline_look(line.number, 1, MARK) == LIFELINE_HELD);
	/* Nobody comes upon it by a list of keys. */
	CHECK(shmdt(line.at) == 0 && look() == LIFELINE_GONE);
}

static void test_numbers(void **state)
{
	(void)state;
	child_run(body_number_again, NULL);
}

static void body_other_ipc(void *arg)
{
	(void)arg;
	take();
	if ((geteuid() != 0 && !mount_become_root()) || unshare(CLONE_NEWIPC) < 0)
		child_skip("no IPC namespace can be made here");
	CHECK(look() == LIFELINE_UNKNOWN);
}

static void test_another_ipc_namespace(void **state)
{
	(void)state;
	child_run(body_other_ipc, NULL);
}

/* Without /proc it is known by one's own whether the namespace is the same. */
static void body_without_proc(void *arg)
{
	struct lifeline other;

	(void)arg;
	take();
	lifeline_take(MARK + 1, &other);
	if (geteuid() != 0 || chroot(scratch_path("")) < 0)
		child_skip("no other root can be had here");
	CHECK(look() == LIFELINE_HELD);
	CHECK(shmdt(line.at) == 0 && look() == LIFELINE_GONE);
	if (unshare(CLONE_NEWIPC) < 0)
		child_skip("no IPC namespace can be made here");
	CHECK(look() == LIFELINE_UNKNOWN);
}

static void test_without_proc(void **state)
{
	(void)state;
	child_run(body_without_proc, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_goes_with_its_process),
		cmocka_unit_test(test_a_process_that_nobody_waits_for),
		cmocka_unit_test(test_another_program),
		cmocka_unit_test(test_another_pid_namespace),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_another_ipc_namespace),
		scratch_test(test_without_proc),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
