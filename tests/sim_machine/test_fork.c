/* Places of processes: fork, exec, closed descriptors, pid namespaces. */
#include "base/clock.h"
#include "machine_file.h"
#include "place.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

enum { SKIPPED = 77 };

struct stage {
	_Atomic uint32_t ready;
	_Atomic uint32_t go;
	_Atomic uint32_t child;
};

static int setup(void **state)
{
	place_make("mem=64m,count=2");
	*state = place_shared(sizeof(struct stage));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	place_remove();
	return 0;
}

static int be_child(void *arg)
{
	struct machine_process list[4];

	(void)arg;
	if (machine_count())
		return 1; /* it is attached to nothing yet */
	if (machine_open() || machine_count() != 2 || machine_used(0) != 10 * MIB)
		return 2;
	if (machine_take(0, 20 * MIB) || machine_processes(0, list, 4) != 2)
		return 3;
	machine_give(0, 64 * MIB); /* not its parent's */
	return machine_used(0) == 10 * MIB ? 0 : 4;
}

static int be_parent(void *arg)
{
	const struct machine_device *device;
	char uuid[sizeof(device->uuid)];

	if (machine_open() || machine_take(0, 10 * MIB))
		return 10;
	device = machine_device(0);
	memcpy(uuid, device->uuid, sizeof(uuid));
	for (int k = 0; k < 3; k++) {
		int status = place_run(be_child, arg);

		if (status)
			return status;
	}
	if (machine_used(0) != 10 * MIB || memcmp(uuid, device->uuid, sizeof(uuid)))
		return 11;
	machine_give(0, 10 * MIB);
	return machine_used(0) ? 12 : 0;
}

static void test_child_has_its_own_place(void **state)
{
	assert_int_equal(place_run(be_parent, *state), 0);
}

static int linger(void *arg)
{
	struct stage *stage = arg;

	prctl(PR_SET_PDEATHSIG, 0);
	atomic_store(&stage->child, (uint32_t)getpid());
	return place_await(&stage->go, 1) ? 0 : 1;
}

/* Its child outlives it and keeps nothing of it alive. */
static int die_before_child(void *arg)
{
	struct stage *stage = arg;

	if (machine_open() || machine_take(0, 10 * MIB))
		return 1;
	place_start(linger, stage);
	if (!place_await(&stage->child, 1))
		return 2;
	raise(SIGKILL);
	return 3;
}

static int look_after_death(void *arg)
{
	struct stage *stage = arg;
	bool is_free;

	if (machine_open() || place_run(die_before_child, stage) != 128 + SIGKILL)
		return 1;
	is_free = !machine_used(0) && !kill((pid_t)atomic_load(&stage->child), 0);
	atomic_store(&stage->go, 1);
	return is_free ? 0 : 2;
}

static void test_living_child_keeps_no_dead_parent(void **state)
{
	assert_int_equal(place_run(look_after_death, *state), 0);
}

static int hold(void *arg)
{
	struct stage *stage = arg;

	if (machine_open() || machine_take(0, 10 * MIB))
		return 1;
	atomic_store(&stage->ready, 1);
	return place_await(&stage->go, 1) ? 0 : 2;
}

static int close_everything(void *arg)
{
	if (machine_open())
		return 3;
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	return hold(arg);
}

static int look_at_closed(void *arg)
{
	struct stage *stage = arg;
	bool is_held;
	pid_t pid;

	if (machine_open())
		return 1;
	pid = place_start(close_everything, stage);
	if (!place_await(&stage->ready, 1))
		return 2;
	is_held = machine_used(0) == 10 * MIB;
	atomic_store(&stage->go, 1);
	if (place_wait(pid))
		return 3;
	return is_held && !machine_used(0) ? 0 : 4;
}

static void test_closed_descriptors_cost_nothing(void **state)
{
	assert_int_equal(place_run(look_at_closed, *state), 0);
}

/* On overlayfs a mapping does not keep the lock of its file: another way must. */
static int look_on_overlay(void *arg)
{
	static const char options[] =
		"lowerdir=/dev/shm/lower,upperdir=/dev/shm/upper,workdir=/dev/shm/work";
	struct stage *stage = arg;
	bool is_held;
	pid_t pid;

	if (!place_unshare(CLONE_NEWNS) || mount("ration", "/dev/shm", "tmpfs", 0, NULL) ||
	    mkdir("/dev/shm/lower", 0700) || mkdir("/dev/shm/upper", 0700) ||
	    mkdir("/dev/shm/work", 0700) || mkdir("/dev/shm/all", 0700) ||
	    mount("ration", "/dev/shm/all", "overlay", 0, options))
		return SKIPPED;
	setenv("RATION_SIM_FILE", "/dev/shm/all/machine", 1);
	if (machine_open() || machine_take(0, MIB))
		return 1;
	pid = place_start(hold, stage);
	if (!place_await(&stage->ready, 1))
		return 2;
	is_held = machine_used(0) == 11 * MIB;
	place_kill(pid);
	return is_held && machine_used(0) == MIB ? 0 : 3;
}

static void test_overlayfs(void **state)
{
	int status = place_run(look_on_overlay, *state);

	if (status == SKIPPED)
		skip();
	assert_int_equal(status, 0);
}

static int exec_after_taking(void *arg)
{
	(void)arg;
	if (machine_open() || machine_take(0, 10 * MIB))
		return 1;
	execl("/bin/sleep", "sleep", "60", (char *)NULL);
	return 2;
}

static int look_at_execed(void *arg)
{
	struct stage *stage = arg;
	pid_t pid = place_start(exec_after_taking, stage);
	char path[32], name[32] = "";
	bool is_execed = false;

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	for (int tries = 0; tries < 60000 && !is_execed; tries++) {
		FILE *file = fopen(path, "re");

		if (file && fgets(name, sizeof(name), file))
			is_execed = !strcmp(name, "sleep\n");
		if (file)
			fclose(file);
		usleep(1000);
	}
	if (machine_open())
		return 1;
	/* The new name is to be seen a moment before the old files are closed. */
	for (int tries = 0; tries < 60000 && machine_used(0); tries++)
		usleep(1000);
	is_execed = is_execed && !machine_used(0);
	place_kill(pid);
	return is_execed ? 0 : 2;
}

static void test_exec_gives_back(void **state)
{
	assert_int_equal(place_run(look_at_execed, *state), 0);
}

static int be_first_of_namespace(void *arg)
{
	struct stage *stage = arg;
	struct machine_process list[2];

	if (machine_open() || machine_take(1, MIB))
		return 1;
	if (getpid() != 1 || machine_processes(1, list, 2) != 1 || list[0].pid != 1)
		return 2;
	/* Who is outside has no pid here. */
	if (machine_processes(0, list, 2) != 1 || list[0].pid)
		return 3;
	atomic_store(&stage->ready, 1);
	return place_await(&stage->go, 1) ? 0 : 4;
}

static int make_namespace(void *arg)
{
	struct stage *stage = arg;
	struct machine_process list[2];
	int found, status;
	pid_t pid;

	if (!place_unshare(CLONE_NEWPID))
		return SKIPPED;
	if (machine_open() || machine_take(0, MIB))
		return 10;
	pid = fork();
	if (!pid) {
		if (!place_unshare(CLONE_NEWNS) || mount("proc", "/proc", "proc", 0, NULL))
			_exit(SKIPPED);
		_exit(be_first_of_namespace(stage));
	}
	while (!atomic_load(&stage->ready)) {
		if (waitpid(pid, &status, WNOHANG))
			return WIFEXITED(status) ? WEXITSTATUS(status) : 12;
		clock_sleep_ns(NSEC_PER_MSEC);
	}
	found = machine_processes(1, list, 2);
	atomic_store(&stage->go, 1);
	if (found != 1 || list[0].pid != (uint32_t)pid) {
		place_wait(pid);
		return 11;
	}
	return place_wait(pid);
}

static void test_pids_are_the_readers(void **state)
{
	int status = place_run(make_namespace, *state);

	if (status == SKIPPED)
		skip();
	assert_int_equal(status, 0);
}

static void *open_machine(void *arg)
{
	*(int *)arg = machine_open();
	return NULL;
}

/* Its first thread to touch the machine ends, and it lives on. */
static int outlive_a_thread(void *arg)
{
	struct stage *stage = arg;
	pthread_t thread;
	int err = -1;

	if (pthread_create(&thread, NULL, open_machine, &err) || pthread_join(thread, NULL) || err)
		return 20;
	if (machine_life_is_sure(&machine_self()->file->slot[machine_self()->slot].life))
		return 21;
	if (machine_take(0, 10 * MIB))
		return 22;
	atomic_store(&stage->ready, 1);
	pause();
	return 23;
}

static int look_at_one_without_its_thread(void *arg)
{
	struct machine_process list[2];
	struct stage *stage = arg;
	pid_t pid;

	if (machine_open() ||
	    !machine_life_is_sure(&machine_self()->file->slot[machine_self()->slot].life))
		return 1;
	pid = place_start(outlive_a_thread, stage);
	if (!place_await(&stage->ready, 1))
		return 2;
	for (int k = 0; k < 2; k++)
		if (machine_processes(0, list, 2) != 1 || list[0].pid != (uint32_t)pid ||
		    machine_used(0) != 10 * MIB)
			return 3;
	place_kill(pid);
	return machine_used(0) || machine_processes(0, list, 2) ? 4 : 0;
}

static void test_a_thread_is_not_the_process(void **state)
{
	assert_int_equal(place_run(look_at_one_without_its_thread, *state), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_child_has_its_own_place, setup, teardown),
		cmocka_unit_test_setup_teardown(test_living_child_keeps_no_dead_parent, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_closed_descriptors_cost_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_overlayfs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exec_gives_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_thread_is_not_the_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pids_are_the_readers, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
