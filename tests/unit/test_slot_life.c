/*
 * A slot lives exactly as long as its process, whatever the process does with children, programs,
 * descriptors and threads, on every kind of file system.
 */
#include "shm/slot.h"

#include "base/clock.h"
#include "mount.h"
#include "refuse.h"
#include "shm/account.h"
#include "shm/leaver.h"
#include "tenant.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static char path[512];

static int make(void **state)
{
	if (scratch_make(state) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	return 0;
}

static struct region region;
static struct slot slot;

/* In a child: takes a slot and charges 500 bytes to it. */
static void join(void)
{
	struct account_holder h;

	tenant_join(&region, &slot, path);
	account_settle(&h, region.own, slot.index, 0);
	CHECK(account_add(&h, 500, 0) == 0);
	region.own->slots[slot.index].used_bytes[0] = 500;
}

static void say_and_stay(void)
{
	child_say('k');
	child_hear();
}

/* In a grandchild that outlives its parent: stays until the test lets go of the socket. */
static void linger(void)
{
	prctl(PR_SET_PDEATHSIG, 0);
	child_read(child_fd);
	_exit(0);
}

static void body_alone(void *arg)
{
	(void)arg;
	join();
	say_and_stay();
}

static void body_fork(void *arg)
{
	(void)arg;
	join();
	if (fork() == 0)
		linger();
	say_and_stay();
}

static void body_raw_clone(void *arg)
{
	(void)arg;
	join();
	if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0)
		linger();
	say_and_stay();
}

static void *fork_in_thread(void *arg)
{
	if (fork() == 0)
		linger();
	return arg;
}

static void body_fork_in_thread(void *arg)
{
	pthread_t thread;

	(void)arg;
	join();
	CHECK(pthread_create(&thread, NULL, fork_in_thread, NULL) == 0);
	pthread_join(thread, NULL);
	say_and_stay();
}

/* A program started beside it lives on; it holds the socket, so that the test can end it. */
static void body_spawn(void *arg)
{
	char *argv[] = { (char *)"cat", NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	(void)arg;
	join();
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, child_fd, 0);
	CHECK(posix_spawnp(&pid, "cat", &actions, NULL, argv, NULL) == 0);
	posix_spawn_file_actions_destroy(&actions);
	child_say('k');
	/* The words to come are cat's. */
	pause();
}

static void body_vfork(void *arg)
{
	(void)arg;
	join();
	/* vfork() itself is what is tried. */
	if (vfork() == 0) { /* NOLINT */
		execlp("true", "true", NULL);
		_exit(1);
	}
	say_and_stay();
}

/* Closes every descriptor it knows nothing of, as daemons do. */
static void body_close_all(void *arg)
{
	(void)arg;
	join();
	for (int fd = 0; fd < 1024; fd++)
		if (fd != child_fd)
			close(fd);
	say_and_stay();
}

static void *stay(void *arg)
{
	say_and_stay();
	_exit(0);
	return arg;
}

static void body_main_thread_ends(void *arg)
{
	pthread_t thread;

	(void)arg;
	join();
	CHECK(pthread_create(&thread, NULL, stay, NULL) == 0);
	pthread_exit(NULL);
}

/* Opens and closes the file on its own account. */
static void body_opens_the_file(void *arg)
{
	int fd;

	(void)arg;
	join();
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && lockf(fd, F_TLOCK, 4096) == 0);
	close(fd);
	say_and_stay();
}

struct way {
	const char *name;
	void (*body)(void *);
};

static const struct way ways[] = {
	{ "alone", body_alone },
	{ "with a fork child", body_fork },
	{ "with a cloned child", body_raw_clone },
	{ "with a child forked by a thread", body_fork_in_thread },
	{ "with a spawned program", body_spawn },
	{ "after vfork", body_vfork },
	{ "after closing all descriptors", body_close_all },
	{ "after its main thread ended", body_main_thread_ends },
	{ "after opening and closing the file", body_opens_the_file },
};

static void test_alive_while_it_lives_and_no_longer(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		struct region r;
		struct child c = child_start(ways[i].body, NULL);

		child_await(&c, 'k');
		tenant_open(&r, path, NULL);
		if (tenant_alive(&r, 0) != 1 || slot_reap(&r, -1) != 0)
			fail_msg("%s: not alive", ways[i].name);
		kill(c.pid, SIGKILL);
		assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
		/* What it left behind still lives here: it hears nothing before the close. */
		if (tenant_alive(&r, 0) != 0 || slot_reap(&r, -1) != 1)
			fail_msg("%s: not dead", ways[i].name);
		assert_int_equal(r.own->accounts[0].total_bytes, 0);
		close(c.fd);
		region_close(&r);
	}
}

/* Another program has the pid now; it knows nothing of the slot. */
static void body_exec(void *arg)
{
	(void)arg;
	join();
	child_say('j');
	child_hear();
	dup2(child_fd, 0);
	dup2(child_fd, 1);
	execlp("cat", "cat", NULL);
}

static void test_exec_gives_the_slot_up(void **state)
{
	struct region r;
	struct child c = child_start(body_exec, NULL);

	(void)state;
	child_await(&c, 'j');
	tenant_open(&r, path, NULL);
	assert_int_equal(tenant_alive(&r, 0), 1);
	child_tell(&c, 'x');
	/* cat answers, so it runs. */
	child_tell(&c, 'm');
	child_await(&c, 'm');
	assert_int_equal(tenant_alive(&r, 0), 0);
	assert_int_equal(slot_reap(&r, -1), 1);
	assert_int_equal(r.own->accounts[0].total_bytes, 0);
	region_close(&r);
	close(c.fd);
	waitpid(c.pid, NULL, 0);
}

/* A child has nothing of its parent's, and takes a slot of its own. */
static void body_child_joins(void *arg)
{
	pid_t pid;
	int status;

	(void)arg;
	join();
	CHECK(slot.index == 0);
	pid = fork();
	if (pid == 0) {
		join();
		CHECK(slot.index == 1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(slot_reap(&region, 0) == 1);
	CHECK(region.own->accounts[0].total_bytes == 500);
}

static void test_a_child_takes_its_own(void **state)
{
	(void)state;
	child_run(body_child_joins, NULL);
}

/* In a child with its own mounts: the same life on this folder's file system. */
static void live_and_die_in(const char *folder)
{
	struct region_setup setup = { .priority = 1 };
	struct region_error err;
	struct region r;
	struct child c;
	int fd, status;

	snprintf(path, sizeof(path), "%s/region", folder);
	c = child_start(body_alone, NULL);
	CHECK(child_word(&c) == 'k');
	if (region_open(path, &setup, &r, &err) < 0)
		fprintf(stderr, "%s\n", err.text);
	CHECK(r.hami);
	region_settle(&r);
	fd = region_reopen(&r);
	CHECK(fd > 2);
	CHECK(r.own->generation == 1 && r.own->accounts[0].total_bytes == 500);
	CHECK(slot_alive(fd, 0) == 1);
	CHECK(slot_reap(&r, -1) == 0);
	/* A second one gets another slot, and the first keeps its own. */
	tenant_join(&region, &slot, path);
	CHECK(slot.index == 1 && slot_alive(fd, 0) == 1 && slot_alive(fd, 1) == 1);
	kill(c.pid, SIGKILL);
	CHECK(waitpid(c.pid, &status, 0) == c.pid);
	CHECK(slot_alive(fd, 0) == 0 && slot_alive(fd, 1) == 1);
	CHECK(slot_reap(&r, 1) == 1);
	CHECK(r.own->accounts[0].total_bytes == 0);
	close(fd);
	region_close(&r);
}

static void mount_overlay(const char *base)
{
	char lower[600], upper[600], work[600], merged[600], options[2048];

	snprintf(lower, sizeof(lower), "%s/lower", base);
	snprintf(upper, sizeof(upper), "%s/upper", base);
	snprintf(work, sizeof(work), "%s/work", base);
	snprintf(merged, sizeof(merged), "%s/merged", base);
	CHECK(mkdir(lower, 0755) == 0 && mkdir(upper, 0755) == 0);
	CHECK(mkdir(work, 0755) == 0 && mkdir(merged, 0755) == 0);
	snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s", lower, upper,
		 work);
	if (mount("overlay", merged, "overlay", 0, options) < 0)
		child_skip("no overlay can be mounted here");
}

/* A container's /tmp is on overlayfs, where a mapping does not hold the lock of its description. */
static void body_overlay(void *arg)
{
	char base[512], folder[600];

	(void)arg;
	snprintf(base, sizeof(base), "%s", scratch_path("base"));
	mount_begin();
	mount_tmpfs(base, "size=64m");
	mount_overlay(base);
	snprintf(folder, sizeof(folder), "%s/merged", base);
	live_and_die_in(folder);
	/* A descriptor holds it there; the program's children must not. */
	if (!slot.keep)
		CHECK(slot.fd > 2 && fcntl(slot.fd, F_GETFD) == FD_CLOEXEC);
}

static void test_overlay(void **state)
{
	(void)state;
	child_run(body_overlay, NULL);
}

/* The image brought a region along: it is copied up at the first open. */
static void body_overlay_lower(void *arg)
{
	struct region_setup setup = { .mem_spec = "3g", .mem_source = "image", .priority = 1 };
	char base[512], folder[600], lower[600];
	struct region_error err;
	struct region r;

	(void)arg;
	snprintf(base, sizeof(base), "%s", scratch_path("base"));
	mount_begin();
	mount_tmpfs(base, "size=64m");
	mount_overlay(base);
	snprintf(lower, sizeof(lower), "%s/lower/region", base);
	CHECK(region_open(lower, &setup, &r, &err) == 0);
	region_settle(&r);
	region_close(&r);
	snprintf(folder, sizeof(folder), "%s/merged/region", base);
	setup.mem_spec = NULL;
	CHECK(region_open(folder, &setup, &r, &err) == 0);
	CHECK(!strcmp(r.own->mem_spec, "3g") && r.own->generation == 2);
	CHECK(slot_claim(&r, &slot) == 0);
	region_settle(&r);
}

static void test_overlay_with_a_region_in_the_image(void **state)
{
	(void)state;
	child_run(body_overlay_lower, NULL);
}

/*
 * Where the system has no shared memory to tell who lives: a child has the descriptor that its
 * parent lost, with the lock. That is no other's slot.
 */
static void body_overlay_child_has_it(void *arg)
{
	char base[400];
	int status;
	pid_t pid;

	(void)arg;
	snprintf(base, sizeof(base), "%s", scratch_path("base"));
	mount_begin();
	mount_tmpfs(base, "size=64m");
	mount_overlay(base);
	if (!refuse_call(SYS_shmget, REFUSE_ANY, 0, ENOSYS))
		child_skip("no seccomp filter can be set here");
	snprintf(path, sizeof(path), "%s/merged/region", base);
	join();
	if (slot.keep)
		child_skip("a mapping holds the lock on this overlay");
	CHECK(slot.occupant.line.number == 0);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	close(slot.fd);
	for (int i = 0; i < 3; i++)
		CHECK(slot_check(&region, &slot) == 0);
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	CHECK(slot_check(&region, &slot) == 1 && slot_check(&region, &slot) == 0);
	/* Another has it. */
	close(slot.fd);
	region.own->slots[slot.index].pid += 1;
	pid = fork();
	if (pid == 0) {
		int fd = region_reopen(&region);

		CHECK(fd >= 0 && fcntl(fd, F_OFD_SETLK,
				       &(struct flock){ .l_type = F_WRLCK,
							.l_start = RATION_LOCK_SLOT + slot.index,
							.l_len = 1 }) == 0);
		child_say('l');
		pause();
		_exit(0);
	}
	child_hear();
	CHECK(slot_check(&region, &slot) == -ESTALE);
	/* Nobody has entered himself yet: it is not known whose it is. */
	region.own->slots[slot.index].pid = 0;
	CHECK(slot_check(&region, &slot) == -EAGAIN);
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	CHECK(slot_check(&region, &slot) == 1);
}

static void test_overlay_child_has_it(void **state)
{
	struct child c = child_start(body_overlay_child_has_it, NULL);

	(void)state;
	if (child_word(&c) == 'l')
		child_tell(&c, 'g');
	child_end(&c);
}

static void body_tmpfs(void *arg)
{
	char base[512];

	(void)arg;
	snprintf(base, sizeof(base), "%s", scratch_path("base"));
	mount_begin();
	mount_tmpfs(base, "size=64m");
	live_and_die_in(base);
	CHECK(slot.keep);
}

static void test_tmpfs(void **state)
{
	(void)state;
	child_run(body_tmpfs, NULL);
}

static void body_bind(void *arg)
{
	char one[512], two[512];
	struct region r;
	int fd;

	(void)arg;
	snprintf(one, sizeof(one), "%s", scratch_path("one"));
	snprintf(two, sizeof(two), "%s", scratch_path("two"));
	mount_begin();
	mount_tmpfs(one, "size=64m");
	CHECK(mkdir(two, 0755) == 0);
	CHECK(mount(one, two, NULL, MS_BIND, NULL) == 0);
	snprintf(path, sizeof(path), "%s/region", scratch_path("one"));
	join();
	/* The same file by another way, as in another container. */
	snprintf(path, sizeof(path), "%s/region", scratch_path("two"));
	tenant_open(&r, path, NULL);
	fd = region_reopen(&r);
	CHECK(slot_alive(fd, 0) == 1);
	CHECK(r.own->accounts[0].total_bytes == 500);
}

static void test_bind_mount(void **state)
{
	(void)state;
	child_run(body_bind, NULL);
}

/* Processes of other pid namespaces share pids, not slots. */
static void body_pid_namespace(void *arg)
{
	pid_t pid;
	int status;

	(void)arg;
	if ((geteuid() != 0 && !mount_become_root()) || unshare(CLONE_NEWPID) < 0)
		child_skip("no pid namespace can be made here");
	pid = fork();
	if (pid == 0) {
		CHECK(getpid() == 1);
		join();
		CHECK(region.hami->procs[slot.index].pid == 1);
		say_and_stay();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void test_pid_namespaces(void **state)
{
	struct child c[2];
	struct region r;

	(void)state;
	for (int i = 0; i < 2; i++) {
		c[i] = child_start(body_pid_namespace, NULL);
		if (child_word(&c[i]) != 'k') {
			child_end(&c[i]);
			fail_msg("the child said nothing");
		}
	}
	tenant_open(&r, path, NULL);
	assert_int_equal(r.hami->procs[0].pid, 1);
	assert_int_equal(r.hami->procs[1].pid, 1);
	assert_int_equal(r.own->accounts[0].total_bytes, 1000);
	assert_int_equal(tenant_alive(&r, 0), 1);
	assert_int_equal(tenant_alive(&r, 1), 1);
	child_tell(&c[0], 'x');
	child_end(&c[0]);
	/* Nobody here can say that all it had open is closed: that takes its time. */
	assert_int_equal(slot_reap(&r, -1), 0);
	assert_int_equal(r.own->accounts[0].total_bytes, 1000);
	assert_int_equal(leaver_bytes(r.own, 0), 500);
	while (slot_reap(&r, -1) == 0)
		usleep(10000);
	assert_int_equal(r.own->accounts[0].total_bytes, 500);
	child_tell(&c[1], 'x');
	child_end(&c[1]);
	region_close(&r);
}

static void *check_cancelled(void *out_rc)
{
	pthread_cancel(pthread_self());
	*(int *)out_rc = slot_check(&region, &slot);
	pthread_testcancel();
	return NULL;
}

/*
 * The descriptor that holds the slot was closed; who finds that, under a lock, is being cancelled.
 */
static void body_cancelled(void *arg)
{
	pthread_t thread;
	int rc = -1;

	(void)arg;
	join();
	if (slot.keep)
		munmap(slot.keep, (size_t)sysconf(_SC_PAGESIZE));
	if (slot.fd >= 0)
		close(slot.fd);
	slot.fd = 1000;
	CHECK(pthread_create(&thread, NULL, check_cancelled, &rc) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(rc == 1 && slot.fd >= 0);
}

static void test_cancelled(void **state)
{
	(void)state;
	child_run(body_cancelled, NULL);
}

/* How the owner that the other one judges by its start holds its byte. */
enum holding { BY_MAPPING, BY_DESCRIPTOR, LOST };

/* In a child of the body: takes a slot, and stays until it is killed. */
static void join_and_stay(enum holding holding, int fd)
{
	join();
	region.own->slots[slot.index].by_descriptor = holding != BY_MAPPING;
	if (holding == LOST) {
		if (slot.fd >= 0)
			close(slot.fd);
		if (slot.keep)
			munmap(slot.keep, (size_t)sysconf(_SC_PAGESIZE));
	}
	CHECK(write(fd, "k", 1) == 1);
	pause();
}

/* In the body: the owner lives, and is not reaped. Ends it. */
static void must_live(pid_t owner)
{
	struct region_setup setup = { .priority = 1 };
	struct region_error err;
	struct region r;
	int reaped;

	CHECK(region_open(path, &setup, &r, &err) == 0);
	region_settle(&r);
	reaped = slot_reap(&r, -1);
	CHECK(kill(owner, SIGKILL) == 0 && waitpid(owner, NULL, 0) == owner);
	CHECK(reaped == 0 && r.own->accounts[0].total_bytes == 500);
	/* And then it is dead. */
	CHECK(slot_reap(&r, -1) == 1 && r.own->accounts[0].total_bytes == 0);
}

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* The owner reads another time since the boot than we do. */
static void body_time_namespace(void *arg)
{
	enum holding holding = *(enum holding *)arg;
	int pipes[2];
	char word;
	pid_t pid;

	if ((geteuid() != 0 && !mount_become_root()) || unshare(CLONE_NEWTIME) < 0 ||
	    !mount_write("/proc/self/timens_offsets", "boottime 1000000 0"))
		child_skip("no time namespace can be made here");
	CHECK(pipe(pipes) == 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		join_and_stay(holding, pipes[1]);
	}
	CHECK(read(pipes[0], &word, 1) == 1);
	must_live(pid);
}

/*
 * In the first process of a pid namespace, under the outer /proc, which knows others by our
 * numbers.
 */
static void live_under_another_proc(enum holding holding)
{
	int pipes[2];
	char word = 0;
	pid_t pid = 0;

	mount_begin();
	CHECK(pipe(pipes) == 0);
	for (int i = 0; i < 64 && word != 'k'; i++) {
		pid = fork();
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (clock_process_start(getpid()) > 0)
				join_and_stay(holding, pipes[1]);
			CHECK(write(pipes[1], "n", 1) == 1);
			_exit(0);
		}
		CHECK(read(pipes[0], &word, 1) == 1);
	}
	if (word != 'k' || mount("proc", "/proc", "proc", 0, NULL) < 0)
		child_skip("no other /proc can be had here");
	must_live(pid);
	_exit(0);
}

static void body_another_proc(void *arg)
{
	int status;
	pid_t pid;

	if ((geteuid() != 0 && !mount_become_root()) || unshare(CLONE_NEWPID) < 0)
		child_skip("no pid namespace can be made here");
	pid = fork();
	if (pid == 0)
		live_under_another_proc(*(enum holding *)arg);
	CHECK(waitpid(pid, &status, 0) == pid);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void test_other_clock_mapping(void **state)
{
	enum holding holding = BY_MAPPING;

	(void)state;
	child_run(body_time_namespace, &holding);
}

static void test_other_clock_descriptor(void **state)
{
	enum holding holding = BY_DESCRIPTOR;

	(void)state;
	child_run(body_time_namespace, &holding);
}

static void test_other_clock_lost(void **state)
{
	enum holding holding = LOST;

	(void)state;
	child_run(body_time_namespace, &holding);
}

static void test_other_proc_mapping(void **state)
{
	enum holding holding = BY_MAPPING;

	(void)state;
	child_run(body_another_proc, &holding);
}

static void test_other_proc_descriptor(void **state)
{
	enum holding holding = BY_DESCRIPTOR;

	(void)state;
	child_run(body_another_proc, &holding);
}

static void test_other_proc_lost(void **state)
{
	enum holding holding = LOST;

	(void)state;
	child_run(body_another_proc, &holding);
}

#define life_test(f) cmocka_unit_test_setup_teardown(f, make, scratch_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		life_test(test_alive_while_it_lives_and_no_longer),
		life_test(test_exec_gives_the_slot_up),
		life_test(test_a_child_takes_its_own),
		life_test(test_overlay),
		life_test(test_overlay_with_a_region_in_the_image),
		life_test(test_overlay_child_has_it),
		life_test(test_tmpfs),
		life_test(test_bind_mount),
		life_test(test_pid_namespaces),
		life_test(test_cancelled),
		life_test(test_other_clock_mapping),
		life_test(test_other_clock_descriptor),
		life_test(test_other_clock_lost),
		life_test(test_other_proc_mapping),
		life_test(test_other_proc_descriptor),
		life_test(test_other_proc_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
