/* Who lives, who leaves, who has gone and of whom nobody can say it. */
#include "shm/occupant.h"

#include "base/pid.h"
#include "leaver.h"
#include "mount.h"
#include "refuse.h"
#include "scratch.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* As in a region: written by the child, looked at by us. */
static struct ration_slot *slot;

/* What there is in a slot whose byte a mapping holds, or a descriptor, with or without lifeline. */
enum way { BY_MAPPING, BY_DESCRIPTOR, BY_DESCRIPTOR_ALONE, WAYS };

static void enter(enum way way)
{
	static struct occupant me;

	occupant_begin(&me, way != BY_MAPPING);
	if (way == BY_DESCRIPTOR && me.line.number == 0)
		child_skip("no System V shared memory here");
	if (way == BY_DESCRIPTOR_ALONE)
		me.line = (struct lifeline){ 0 };
	occupant_show(&me, slot);
}

static void *stay(void *arg)
{
	pause();
	return arg;
}

/* Two threads. */
static void body_lives(void *arg)
{
	pthread_t thread;

	enter(*(enum way *)arg);
	CHECK(pthread_create(&thread, NULL, stay, NULL) == 0);
	child_say('k');
	for (;;)
		pause();
}

static void body_main_thread_ends(void *arg)
{
	pthread_t thread;

	enter(*(enum way *)arg);
	CHECK(pthread_create(&thread, NULL, stay, NULL) == 0);
	child_say('k');
	pthread_exit(NULL);
}

static void body_exec(void *arg)
{
	enter(*(enum way *)arg);
	dup2(child_fd, 0);
	dup2(child_fd, 1);
	execlp("sh", "sh", "-c", "printf k; exec sleep 60", NULL);
}

static void body_other_namespace(void *arg)
{
	mount_other_pids(body_lives, arg);
}

static struct child begin(void (*body)(void *), enum way way)
{
	return child_begin(body, &way);
}

/* What is said of a free byte and of a held one. */
static void must_be(const char *when, enum way way, enum occupant_life life_free,
		    enum occupant_life life_held)
{
	enum occupant_life is_free = occupant_look(slot, OCCUPANT_BYTE_FREE);
	enum occupant_life is_held = occupant_look(slot, OCCUPANT_BYTE_HELD);

	if (is_free != life_free || is_held != life_held)
		fail_msg("%s, way %d: %d and %d, not %d and %d", when, (int)way, (int)is_free,
			 (int)is_held, (int)life_free, (int)life_held);
}

/* Of the mapping's ways a held byte is life. */
static enum occupant_life held(enum way way, enum occupant_life life)
{
	return way == BY_MAPPING ? OCCUPANT_ALIVE : life;
}

static void await_state(pid_t pid, char state)
{
	struct proc_stat stat;

	do
		usleep(1000);
	while (!proc_stat_read(pid, &stat) || stat.state != state);
}

/* Its program may have closed the descriptor; what holds a mapping's byte nobody can let go. */
static enum occupant_life robbed(enum way way)
{
	return way == BY_MAPPING ? OCCUPANT_DEAD : OCCUPANT_ALIVE;
}

static void live_and_stop(enum way way)
{
	struct child c = begin(body_lives, way);

	must_be("alive", way, robbed(way), OCCUPANT_ALIVE);
	kill(c.pid, SIGSTOP);
	await_state(c.pid, 'T');
	must_be("stopped", way, robbed(way), OCCUPANT_ALIVE);
	child_kill(&c);
}

static void leave_and_end(enum way way)
{
	struct child c = begin(body_lives, way);
	pid_t thread = leaver_kill(c.pid);
	siginfo_t info;

	if (!thread) {
		child_kill(&c);
		skip();
	}
	/* Without a lifeline it may be that the first thread alone has ended. */
	must_be("leaving", way, OCCUPANT_LEAVING,
		way == BY_DESCRIPTOR ? OCCUPANT_LEAVING : OCCUPANT_ALIVE);
	assert_false(occupant_seems_dead(slot));
	leaver_let_go(thread);
	assert_int_equal(waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOWAIT), 0);
	must_be("a zombie", way, OCCUPANT_DEAD, held(way, OCCUPANT_DEAD));
	assert_true(occupant_seems_dead(slot));
	child_kill(&c);
	must_be("ended", way, OCCUPANT_DEAD, held(way, OCCUPANT_DEAD));
	assert_true(occupant_seems_dead(slot));
}

static void go_on_without_main_thread(enum way way)
{
	struct child c = begin(body_main_thread_ends, way);

	await_state(c.pid, 'Z');
	must_be("without its main thread", way,
		way == BY_DESCRIPTOR ? OCCUPANT_ALIVE : OCCUPANT_LEAVING, OCCUPANT_ALIVE);
	assert_false(occupant_seems_dead(slot));
	child_kill(&c);
	must_be("ended", way, OCCUPANT_DEAD, held(way, OCCUPANT_DEAD));
}

static void go_through(void)
{
	for (enum way way = 0; way < WAYS; way++) {
		live_and_stop(way);
		leave_and_end(way);
		go_on_without_main_thread(way);
	}
}

static void test_ways_of_life(void **state)
{
	(void)state;
	go_through();
}

/* An older kernel, or a container that does not let it be asked. */
static void body_without_pidfd(void *arg)
{
	(void)arg;
	if (!refuse_call(SYS_pidfd_open, REFUSE_ANY, 0, ENOSYS))
		child_skip("no seccomp filter can be set here");
	go_through();
}

static void test_without_pidfd(void **state)
{
	(void)state;
	child_run(body_without_pidfd, NULL);
}

static void test_another_program(void **state)
{
	(void)state;
	for (enum way way = 0; way < WAYS; way++) {
		struct child c = begin(body_exec, way);

		/* Without a lifeline nobody can tell it from who closed the descriptor. */
		if (way == BY_DESCRIPTOR_ALONE)
			must_be("exec", way, OCCUPANT_ALIVE, OCCUPANT_ALIVE);
		else
			must_be("exec", way, OCCUPANT_DEAD, held(way, OCCUPANT_FADING));
		child_kill(&c);
	}
}

static void test_another_start(void **state)
{
	(void)state;
	for (enum way way = 0; way < WAYS; way++) {
		struct child c = begin(body_lives, way);

		slot->start_ticks++;
		must_be("another", way, OCCUPANT_DEAD, held(way, OCCUPANT_DEAD));
		child_kill(&c);
	}
}

static void test_another_pid_namespace(void **state)
{
	(void)state;
	for (enum way way = 0; way < WAYS; way++) {
		struct child c = begin(body_other_namespace, way);

		must_be("elsewhere", way, way == BY_DESCRIPTOR ? OCCUPANT_ALIVE : OCCUPANT_FADING,
			OCCUPANT_ALIVE);
		assert_false(occupant_seems_dead(slot));
		child_kill(&c);
		while (way == BY_DESCRIPTOR &&
		       occupant_look(slot, OCCUPANT_BYTE_FREE) == OCCUPANT_ALIVE)
			usleep(1000);
		must_be("ended elsewhere", way, OCCUPANT_FADING,
			way == BY_DESCRIPTOR ? OCCUPANT_FADING : OCCUPANT_ALIVE);
	}
}

/* Nobody's. */
static void test_nobody(void **state)
{
	(void)state;
	*slot = (struct ration_slot){ 0 };
	must_be("nobody", BY_MAPPING, OCCUPANT_DEAD, OCCUPANT_ALIVE);
	assert_false(occupant_seems_dead(slot));
	for (uint32_t pid = 0x80000000u; pid; pid <<= 1) {
		*slot = (struct ration_slot){ .pid = pid, .pid_namespace = pid_namespace() };
		if (pid > 4u << 20)
			must_be("no pid", BY_MAPPING, OCCUPANT_DEAD, OCCUPANT_ALIVE);
	}
}

/* /proc shows nothing: what there is says less, and never that somebody lives who has ended. */
static void body_without_proc(void *arg)
{
	struct ration_slot entered[WAYS];
	struct child c[WAYS];
	siginfo_t info;

	(void)arg;
	CHECK(pid_namespace() != 0);
	for (enum way way = 0; way < WAYS; way++) {
		c[way] = begin(body_lives, way);
		entered[way] = *slot;
	}
	mount_begin();
	mount_tmpfs("/proc", "size=1m");
	for (enum way way = 0; way < WAYS; way++) {
		*slot = entered[way];
		must_be("hidden", way, way == BY_MAPPING ? OCCUPANT_FADING : OCCUPANT_ALIVE,
			OCCUPANT_ALIVE);
		kill(c[way].pid, SIGKILL);
		CHECK(waitid(P_PID, (id_t)c[way].pid, &info, WEXITED | WNOWAIT) == 0);
		must_be("a hidden zombie", way, OCCUPANT_DEAD, held(way, OCCUPANT_DEAD));
		child_kill(&c[way]);
	}
}

static void test_without_proc(void **state)
{
	(void)state;
	child_run(body_without_proc, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ways_of_life),          cmocka_unit_test(test_without_pidfd),
		cmocka_unit_test(test_another_program),       cmocka_unit_test(test_another_start),
		cmocka_unit_test(test_another_pid_namespace), cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_without_proc),
	};

	slot = mmap(NULL, sizeof(*slot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
