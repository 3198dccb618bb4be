/*
 * A process that was killed has what it had until its exit is over, though its byte is free long
 * before that: nobody is given that, or its slot, or the region anew.
 */
#include "shm/leaver.h"

#include "base/clock.h"
#include "leaver.h"
#include "mount.h"
#include "shm/account.h"
#include "shm/lock.h"
#include "tenant.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

static char path[512];
static struct region region;
static struct slot slot;

static int make(void **state)
{
	if (scratch_make(state) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	return 0;
}

static void *stay(void *arg)
{
	pause();
	return arg;
}

/* Two threads; charges that many bytes to its slot. */
static void body_holds(void *bytes)
{
	struct account_holder h;
	pthread_t thread;

	tenant_join(&region, &slot, path);
	account_settle(&h, region.own, slot.index, 0);
	CHECK(account_add(&h, *(uint64_t *)bytes, 0) == 0);
	region.own->slots[slot.index].used_bytes[0] = h.bytes;
	region.own->residency[slot.index].host_bytes = h.bytes / 2;
	CHECK(pthread_create(&thread, NULL, stay, NULL) == 0);
	child_say('k');
	pause();
}

/* The same, in another pid namespace. */
static void body_holds_elsewhere(void *bytes)
{
	mount_other_pids(body_holds, bytes);
}

static struct child begin(void (*body)(void *), uint64_t bytes)
{
	return child_begin(body, &bytes);
}

/* Kills it, and has it leave until the thread that is returned is let go. */
static pid_t leave(struct child *c)
{
	pid_t thread = leaver_kill(c->pid);

	if (!thread) {
		child_kill(c);
		skip();
	}
	return thread;
}

static void test_its_bytes(void **state)
{
	struct child c = begin(body_holds, 500);
	struct region r;
	pid_t thread;

	(void)state;
	tenant_open(&r, path, NULL);
	thread = leave(&c);
	assert_int_equal(tenant_alive(&r, 0), 0);
	assert_true(slot_is_had(&r.own->slots[0], false));
	assert_int_equal(slot_look_free(r.own), OCCUPANT_LEAVING);
	for (int i = 0; i < 2; i++)
		assert_int_equal(slot_reap(&r, -1), 0);
	assert_int_equal(r.own->accounts[0].total_bytes, 500);
	assert_int_equal(leaver_bytes(r.own, 0), 500);
	assert_int_equal(leaver_bytes(r.own, 1), 0);
	assert_int_equal(leaver_bytes(r.own, RATION_DEVICES), 250);
	leaver_let_go(thread);
	/* Waited for or not. */
	assert_int_equal(waitid(P_PID, (id_t)c.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	assert_false(slot_is_had(&r.own->slots[0], false));
	assert_int_equal(slot_reap(&r, -1), 1);
	assert_int_equal(r.own->accounts[0].total_bytes, 0);
	assert_int_equal(leaver_bytes(r.own, 0), 0);
	child_kill(&c);
	region_close(&r);
}

/* Another process reaped it: nothing of it is waited for. */
static void test_reaped_by_another(void **state)
{
	struct child keeper = begin(body_holds, 1), c = begin(body_holds, 500);
	pid_t thread = leave(&c), pid;
	struct region r;
	int status;

	(void)state;
	tenant_open(&r, path, NULL);
	assert_int_equal(slot_reap(&r, -1), 0);
	assert_int_equal(leaver_bytes(r.own, 0), 500);
	leaver_let_go(thread);
	child_kill(&c);
	pid = fork();
	if (pid == 0) {
		tenant_open(&r, path, NULL);
		_exit(slot_reap(&r, -1) == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(leaver_bytes(r.own, 0), 0);
	child_kill(&keeper);
	region_close(&r);
}

static void open_region(struct region *r)
{
	struct region_setup setup = { .mem_spec = "1g", .mem_source = "test", .priority = 1 };
	struct region_error err;

	if (region_open(path, &setup, r, &err) < 0)
		fail_msg("%s", err.text);
}

static void test_its_slot(void **state)
{
	struct child keeper = begin(body_holds, 1), c = begin(body_holds, 500);
	pid_t thread = leave(&c);
	struct region r;

	(void)state;
	open_region(&r);
	assert_int_equal(r.own->generation, 1);
	/* However free it looks. */
	r.own->hint[1] = 0;
	assert_int_equal(slot_claim(&r, &slot), 0);
	assert_int_equal(slot.index, 2);
	assert_int_equal(r.own->accounts[0].total_bytes, 501);
	region_settle(&r);
	leaver_let_go(thread);
	child_kill(&c);
	child_kill(&keeper);
	if (slot.keep)
		munmap(slot.keep, (size_t)sysconf(_SC_PAGESIZE));
	else
		close(slot.fd);
	region_close(&r);
}

/* All other slots are in use, as far as their bytes say. */
static void body_needs_its_slot(void *arg)
{
	int fd;

	open_region(&region);
	fd = region_reopen(&region);
	CHECK(fd >= 0 && lock_try(fd, RATION_LOCK_SLOT + 2, HAMI_SLOTS - 2) == 0);
	child_say('r');
	CHECK(slot_claim(&region, &slot) == 0 && slot.index == 1);
	CHECK(region.own->accounts[0].total_bytes == 1);
	region_settle(&region);
	(void)arg;
}

static void test_all_slots(void **state)
{
	struct child keeper = begin(body_holds, 1), c = begin(body_holds, 500), other;
	pid_t thread;

	(void)state;
	thread = leave(&c);
	other = child_start(body_needs_its_slot, NULL);
	child_await(&other, 'r');
	leaver_let_go(thread);
	child_end(&other);
	child_kill(&c);
	child_kill(&keeper);
}

/* Who wants the region anew. Its first word would be that it has it. */
static void body_wants_it_anew(void *arg)
{
	struct region_setup setup = {
		.mem_spec = "2g", .mem_source = "test", .priority = 1, .must_be_new = true
	};
	struct region_error err;

	(void)arg;
	CHECK(region_open(path, &setup, &region, &err) == 0);
	CHECK(region.own->generation == 2 && !strcmp(region.own->mem_spec, "2g"));
	CHECK(region.own->accounts[0].total_bytes == 0);
	child_say('n');
}

static void test_its_region(void **state)
{
	struct child c = begin(body_holds, 500), other;
	struct region r;
	pid_t thread;

	(void)state;
	tenant_open(&r, path, NULL);
	thread = leave(&c);
	other = child_start(body_wants_it_anew, NULL);
	/* Whether it looks before or after that. */
	assert_int_equal(poll(&(struct pollfd){ .fd = other.fd, .events = POLLIN }, 1, 50), 0);
	assert_int_equal(r.own->accounts[0].total_bytes, 500);
	leaver_let_go(thread);
	child_await(&other, 'n');
	child_end(&other);
	child_kill(&c);
	region_close(&r);
}

/* With nothing in its slot there is nothing to wait for. */
static void test_who_holds_nothing(void **state)
{
	struct child c = begin(body_holds_elsewhere, 0);
	struct region r;

	(void)state;
	tenant_open(&r, path, NULL);
	child_kill(&c);
	while (tenant_alive(&r, 0) == 1)
		usleep(1000);
	assert_int_equal(slot_look_free(r.own), OCCUPANT_FADING);
	assert_int_equal(slot_reap(&r, -1), 1);
	assert_int_equal(r.own->hint[0], 0);
	region_close(&r);
}

/* A tenant whose last sign of life is long ago: nothing is waited for. */
static void test_a_container_comes_again_later(void **state)
{
	struct child c = begin(body_holds_elsewhere, 500);
	struct region r;
	int64_t now_ns;

	(void)state;
	tenant_open(&r, path, NULL);
	child_kill(&c);
	while (tenant_alive(&r, 0) == 1)
		usleep(1000);
	now_ns = clock_now_ns();
	r.own->reaped_ns = (uint64_t)now_ns - UINT64_C(5000000000);
	region_close(&r);
	open_region(&r);
	region_settle(&r);
	assert_int_equal(r.own->generation, 2);
	assert_int_equal(r.own->accounts[0].total_bytes, 0);
	region_close(&r);
}

static _Atomic bool is_over;
static _Atomic unsigned looks;

static void *look(void *arg)
{
	while (!atomic_load(&is_over)) {
		leaver_bytes(region.own, 0);
		atomic_fetch_add(&looks, 1);
	}
	return arg;
}

/* A child that is forked while a thread looks looks too. */
static void body_forks(void *arg)
{
	pthread_t thread;
	int status;

	(void)arg;
	tenant_join(&region, &slot, path);
	CHECK(pthread_create(&thread, NULL, look, NULL) == 0);
	for (int i = 0; i < 20; i++) {
		unsigned before = atomic_load(&looks);
		pid_t pid;

		while (atomic_load(&looks) == before)
			sched_yield();
		pid = fork();

		CHECK(pid >= 0);
		if (pid == 0) {
			alarm(20);
			_exit(leaver_bytes(region.own, 0) != 0);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	atomic_store(&is_over, true);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void test_a_child_of_who_looks(void **state)
{
	(void)state;
	child_run(body_forks, NULL);
}

#define leaver_test(f) cmocka_unit_test_setup_teardown(f, make, scratch_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: nobody has been seen to go. */
		leaver_test(test_a_child_of_who_looks),
		leaver_test(test_its_bytes),
		leaver_test(test_reaped_by_another),
		leaver_test(test_its_slot),
		leaver_test(test_all_slots),
		leaver_test(test_its_region),
		leaver_test(test_who_holds_nothing),
		leaver_test(test_a_container_comes_again_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
