#include "shm/slot.h"

#include "base/clock.h"
#include "base/units.h"
#include "judge.h"
#include "refuse.h"
#include "shm/account.h"
#include "shm/lock.h"
#include "tenant.h"

#include <stdatomic.h>
#include <sys/mman.h>

#ifndef MADV_DONTFORK
#define MADV_DONTFORK 10
#endif

static char path[512];

static int make(void **state)
{
	if (scratch_make(state) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	return 0;
}

/* Opens the region with the creation lock held and one device in it. */
static void open_locked(struct region *r)
{
	struct region_setup setup = { .mem_spec = "1g", .mem_source = "test", .priority = 1 };
	struct region_error err;

	if (region_open(path, &setup, r, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(region_add_device(r, TENANT_UUID, 16 * GIB), 0);
}

/* All that a monitor reads of a slot. */
static bool shows_nothing(const struct hami_slot *s)
{
	static const struct hami_used no_bytes[HAMI_DEVICES];
	static const struct hami_util no_work[HAMI_DEVICES];
	static const uint64_t no_monitored[HAMI_DEVICES];

	return s->pid == 0 && s->hostpid == 0 && s->status == HAMI_FREE && s->seqlock == 0 &&
	       !memcmp(s->used, no_bytes, sizeof(no_bytes)) &&
	       !memcmp(s->util, no_work, sizeof(no_work)) &&
	       !memcmp(s->monitorused_bytes, no_monitored, sizeof(no_monitored));
}

static void test_claim(void **state)
{
	struct region r;
	struct slot slot;
	char name[16] = "";

	(void)state;
	open_locked(&r);
	prctl(PR_GET_NAME, name);
	assert_ok(slot_claim(&r, &slot));
	region_settle(&r);
	assert_int_equal(slot.index, 0);
	assert_true(slot.keep || slot.fd > 2);
	assert_int_equal(r.hami->procs[0].pid, getpid());
	assert_int_equal(r.hami->procs[0].status, HAMI_RUNNING);
	assert_int_equal(r.hami->proc_num, 1);
	assert_int_equal(r.own->hint[0], 1);
	assert_int_equal(r.own->slots[0].pid, getpid());
	assert_true(r.own->slots[0].start_ticks == clock_process_start((int)getpid()));
	assert_memory_equal(r.own->slots[0].comm, name, sizeof(name));
	assert_int_equal(tenant_alive(&r, 0), 1);
	assert_int_equal(tenant_alive(&r, 1), 0);
	region_close(&r);
}

static void test_vacate(void **state)
{
	struct region r;
	struct slot slot;

	(void)state;
	open_locked(&r);
	assert_ok(slot_claim(&r, &slot));
	region_settle(&r);
	r.hami->procs[0].used[0].data_bytes = 5;
	r.hami->procs[0].used[0].total_bytes = 9;
	r.hami->procs[0].util[0].sm_pct = 3;
	slot_vacate(&r, &slot);
	assert_true(shows_nothing(&r.hami->procs[0]));
	/* Its bytes go at the reap, when the driver has let go. */
	assert_int_equal(r.own->hint[0], 1);
	assert_int_equal(tenant_alive(&r, 0), 1);
	region_close(&r);
}

static void test_keeper(void **state)
{
	struct region r;
	struct slot keeper, second;
	struct hami_region *before = malloc(sizeof(*before));

	(void)state;
	assert_non_null(before);
	open_locked(&r);
	assert_ok(slot_keep(&r, &keeper));
	assert_int_equal(keeper.index, HAMI_SLOTS);
	assert_int_equal(slot_keep(&r, &second), -EAGAIN);
	region_settle(&r);
	assert_int_equal(tenant_alive(&r, 0), 0);
	assert_int_equal(r.hami->proc_num, 0);
	/* It has no slot, so vacating it changes nothing. */
	memcpy(before, r.hami, sizeof(*before));
	slot_vacate(&r, &keeper);
	assert_memory_equal(before, r.hami, sizeof(*before));
	free(before);
	region_close(&r);
}

static void body_holder(void *arg)
{
	struct account_holder h;
	struct region r;
	struct slot slot;
	struct hami_slot *s;

	(void)arg;
	tenant_join(&r, &slot, path);
	account_settle(&h, r.own, slot.index, 0);
	CHECK(account_add(&h, 100 + slot.index, 0) == 0);
	r.own->slots[slot.index].used_bytes[0] = h.bytes;
	s = &r.hami->procs[slot.index];
	s->hostpid = 77;
	s->used[0].total_bytes = 100;
	s->used[0].context_bytes = 40;
	s->used[0].module_bytes = 30;
	s->used[0].data_bytes = 30;
	s->used[15].total_bytes = 1;
	s->used[0].offset_bytes = 4;
	s->util[0].sm_pct = 50;
	s->util[3].dec_pct = 1;
	s->util[3].enc_pct = 2;
	s->monitorused_bytes[0] = 100;
	s->seqlock = 7;
	child_say('k');
	child_hear();
}

static void test_killed_and_reaped(void **state)
{
	struct region r;
	struct slot slot;
	struct child c;

	(void)state;
	open_locked(&r);
	assert_ok(slot_claim(&r, &slot));
	region_settle(&r);
	c = child_start(body_holder, NULL);
	child_await(&c, 'k');
	assert_int_equal(tenant_alive(&r, 1), 1);
	assert_int_equal(slot_reap(&r, 0), 0);
	assert_int_equal(r.own->accounts[0].total_bytes, 101);
	/* A process that is stopped lives. */
	kill(c.pid, SIGSTOP);
	assert_int_equal(waitpid(c.pid, &(int){ 0 }, WUNTRACED), c.pid);
	assert_int_equal(tenant_alive(&r, 1), 1);
	assert_int_equal(slot_reap(&r, 0), 0);
	child_kill(&c);
	assert_int_equal(tenant_alive(&r, 1), 0);
	assert_int_equal(r.own->accounts[0].total_bytes, 101);
	assert_int_equal(slot_reap(&r, 0), 1);
	assert_int_equal(r.own->accounts[0].total_bytes, 0);
	assert_int_equal(r.own->slots[1].used_bytes[0], 0);
	assert_int_equal(r.own->hint[1], 0);
	assert_true(shows_nothing(&r.hami->procs[1]));
	assert_int_equal(slot_reap(&r, 0), 0);
	/* This process's own slot is not touched, named or not. */
	assert_int_equal(slot_reap(&r, -1), 0);
	assert_int_equal(r.hami->procs[0].pid, getpid());
	assert_judged(path);
	region_close(&r);
}

/* The slot is free as soon as the process is dead, waited for or not. */
static void test_a_zombie_is_dead(void **state)
{
	struct region r;
	struct child c;
	siginfo_t info;

	(void)state;
	open_locked(&r);
	region_settle(&r);
	c = child_start(body_holder, NULL);
	child_await(&c, 'k');
	kill(c.pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(slot_reap(&r, -1), 1);
	assert_int_equal(r.own->accounts[0].total_bytes, 0);
	child_status(&c);
	region_close(&r);
}

/* Slots are used again, those free first, and the next owner inherits nothing. */
static void test_slots_are_used_again(void **state)
{
	struct child c[4];
	struct region r;

	(void)state;
	open_locked(&r);
	region_settle(&r);
	for (int i = 0; i < 4; i++) {
		c[i] = child_start(body_holder, NULL);
		child_await(&c[i], 'k');
	}
	assert_int_equal(r.own->accounts[0].total_bytes, 100 + 101 + 102 + 103);
	child_kill(&c[1]);
	/* Not reaped yet: one that was never used is taken first, and then the dead one reaped. */
	c[1] = child_start(body_holder, NULL);
	child_await(&c[1], 'k');
	assert_int_equal(r.hami->procs[4].pid, c[1].pid);
	assert_int_equal(r.hami->procs[1].status, HAMI_FREE);
	assert_int_equal(slot_reap(&r, -1), 0);
	child_kill(&c[2]);
	assert_int_equal(slot_reap(&r, -1), 1);
	c[2] = child_start(body_holder, NULL);
	child_await(&c[2], 'k');
	assert_int_equal(r.hami->procs[1].pid, c[2].pid);
	assert_int_equal(r.own->accounts[0].total_bytes, 100 + 101 + 103 + 104);
	assert_int_equal(r.hami->proc_num, 5);
	for (int i = 0; i < 4; i++)
		child_kill(&c[i]);
	assert_int_equal(slot_reap(&r, -1), 4);
	assert_int_equal(r.own->accounts[0].total_bytes, 0);
	region_close(&r);
}

static void body_claim_all(void *arg)
{
	struct account_holder h;
	struct region_error err;
	struct region_setup setup = { .priority = 1 };
	struct region r;
	struct slot slot;

	(void)arg;
	CHECK(region_open(path, &setup, &r, &err) == 0);
	for (unsigned i = 0; i < HAMI_SLOTS; i++) {
		CHECK(slot_claim(&r, &slot) == 0);
		CHECK(slot.index == i);
		account_settle(&h, r.own, slot.index, 0);
		CHECK(account_add(&h, 3, 0) == 0);
	}
	CHECK(slot_claim(&r, &slot) == -EUSERS);
	CHECK(slot_claim(&r, &slot) == -EUSERS);
	CHECK(r.hami->proc_num == HAMI_SLOTS);
	region_settle(&r);
	child_say('k');
	child_hear();
}

static void test_all_slots(void **state)
{
	struct child c = { 0, 0 };
	struct region r;
	struct slot slot;

	(void)state;
	open_locked(&r);
	assert_ok(slot_keep(&r, &slot));
	region_settle(&r);
	c = child_start(body_claim_all, NULL);
	child_await(&c, 'k');
	open_locked(&r);
	assert_int_equal(slot_claim(&r, &slot), -EUSERS);
	assert_int_equal(slot_reap(&r, -1), 0);
	assert_int_equal(r.own->accounts[0].total_bytes, 3 * HAMI_SLOTS);
	child_kill(&c);
	/* All dead, none reaped: there is room again, and what its owner held is given back. */
	assert_ok(slot_claim(&r, &slot));
	assert_int_equal(r.own->accounts[0].total_bytes, 3 * (HAMI_SLOTS - 1));
	assert_int_equal(slot_reap(&r, (int)slot.index), HAMI_SLOTS - 1);
	assert_int_equal(r.own->accounts[0].total_bytes, 0);
	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		if (i != slot.index)
			assert_true(shows_nothing(&r.hami->procs[i]));
	region_settle(&r);
	region_close(&r);
}

/* What the processes of a crowd share. */
struct crowd {
	_Atomic int joined, refused, doubles, late;
	_Atomic int owners[HAMI_SLOTS];
	int go[2], stay[2]; /* pipes: nobody writes, who reads waits until they are closed */
};

static void join_crowd(struct crowd *crowd)
{
	struct region_setup setup = { .priority = 1 };
	struct region_error err;
	struct region r;
	struct slot slot;
	int tries = 0, rc;
	char c;

	close(crowd->go[1]);
	close(crowd->stay[1]);
	CHECK(read(crowd->go[0], &c, 1) == 0);
	/* A machine that has much else to do may need longer than one wait. */
	while ((rc = region_open(path, &setup, &r, &err)) == -ETIMEDOUT && ++tries < 10)
		crowd->late++;
	if (rc < 0) {
		fprintf(stderr, "%s\n", err.text);
		_exit(CHILD_FAILED);
	}
	rc = slot_claim(&r, &slot);
	region_settle(&r);
	CHECK(rc == 0 || rc == -EUSERS);
	if (rc == 0)
		crowd->doubles += crowd->owners[slot.index]++ != 0;
	atomic_fetch_add(rc == 0 ? &crowd->joined : &crowd->refused, 1);
	CHECK(read(crowd->stay[0], &c, 1) == 0);
	_exit(0);
}

/* Starts them; false where so many processes may not be. */
static bool start_crowd(struct crowd *crowd, int count)
{
	assert_int_equal(pipe(crowd->go), 0);
	assert_int_equal(pipe(crowd->stay), 0);
	fflush(NULL);
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid == 0)
			join_crowd(crowd);
		if (pid < 0)
			return false;
	}
	return true;
}

static bool some_ended(void)
{
	siginfo_t info = { .si_pid = 0 };

	waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
	return info.si_pid != 0;
}

static void end_crowd(struct crowd *crowd)
{
	int status;

	close(crowd->stay[1]);
	while (wait(&status) > 0)
		assert_int_equal(status, 0);
	close(crowd->go[0]);
	close(crowd->stay[0]);
}

/* One process more than there are slots, all at once: each slot has one owner, one process none. */
static void test_a_crowd(void **state)
{
	struct crowd *crowd = mmap(NULL, sizeof(*crowd), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	enum { CROWD = HAMI_SLOTS + 1 };
	struct region r;
	bool is_whole;

	(void)state;
	if (BUILD_SANITIZED)
		skip();
	assert_true(crowd != MAP_FAILED);
	open_locked(&r);
	region_settle(&r);
	is_whole = start_crowd(crowd, CROWD);
	close(crowd->go[1]);
	if (!is_whole) {
		end_crowd(crowd);
		skip();
	}
	while (crowd->joined + crowd->refused < CROWD && !some_ended())
		usleep(1000);
	assert_int_equal(crowd->joined, HAMI_SLOTS);
	assert_int_equal(crowd->refused, 1);
	assert_int_equal(crowd->doubles, 0);
	assert_int_equal(r.hami->proc_num, HAMI_SLOTS);
	assert_int_equal(slot_reap(&r, -1), 0);
	end_crowd(crowd);
	print_message("%d of %d waited in vain once\n", crowd->late, CROWD);
	assert_int_equal(slot_reap(&r, -1), HAMI_SLOTS);
	munmap(crowd, sizeof(*crowd));
	region_close(&r);
}

/* proc_num is what some monitors slice with: 0..1024 whatever stood there. */
static void test_proc_num(void **state)
{
	static const int32_t values[] = { -5, INT32_MIN, 1025, INT32_MAX, 0, 600, 1024 };

	(void)state;
	for (int i = 0; i < 7; i++) {
		struct region r;
		struct slot slot;

		open_locked(&r);
		r.hami->proc_num = values[i];
		assert_ok(slot_claim(&r, &slot));
		region_settle(&r);
		assert_in_range(r.hami->proc_num, slot.index + 1, HAMI_SLOTS);
		if (values[i] >= 1 && values[i] <= HAMI_SLOTS)
			assert_int_equal(r.hami->proc_num, values[i]);
		region_close(&r);
		if (slot.keep)
			munmap(slot.keep, (size_t)sysconf(_SC_PAGESIZE));
		else
			close(slot.fd);
	}
}

/* A wrong bound in the file must not leave the dead their bytes. */
static void test_reap_trusts_no_bound(void **state)
{
	struct region r;
	struct child c;

	(void)state;
	open_locked(&r);
	region_settle(&r);
	c = child_start(body_holder, NULL);
	child_await(&c, 'k');
	child_kill(&c);
	r.hami->proc_num = 0;
	assert_int_equal(slot_reap(&r, -1), 1);
	assert_int_equal(r.own->accounts[0].total_bytes, 0);
	region_close(&r);
}

static void test_region_is_gone(void **state)
{
	struct region r;
	struct slot slot;

	(void)state;
	open_locked(&r);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(slot_claim(&r, &slot), -ENOENT);
	assert_int_equal(slot_reap(&r, -1), -ENOENT);
	assert_int_equal(slot_keep(&r, &slot), -ENOENT);
	scratch_file("region", "", 0);
	assert_int_equal(slot_claim(&r, &slot), -ESTALE);
	assert_int_equal(slot_reap(&r, -1), -ESTALE);
	region_settle(&r);
	region_close(&r);
}

/* HAMi-core's lock range and the slots' bytes do not meet. */
static void test_slots_leave_hami_core_alone(void **state)
{
	struct region r;
	struct slot slot;
	int fd;

	(void)state;
	open_locked(&r);
	assert_ok(slot_claim(&r, &slot));
	region_settle(&r);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(lockf(fd, F_TLOCK, HAMI_REGION_BYTES), 0);
	close(fd);
	assert_int_equal(tenant_alive(&r, slot.index), 1);
	region_close(&r);
}

static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[1024];
	int n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, path) != NULL;
	fclose(f);
	return n;
}

/*
 * Where mappings cannot be kept from children, a descriptor holds the lock, and no mapping is left.
 */
static void body_no_dontfork(void *arg)
{
	struct region_error err;
	struct region_setup setup = { .priority = 1 };
	struct region r;
	struct slot slot;

	(void)arg;
	if (!refuse_call(SYS_madvise, 2, MADV_DONTFORK, EINVAL))
		child_skip("no seccomp filter can be set here");
	CHECK(region_open(path, &setup, &r, &err) == 0);
	CHECK(slot_claim(&r, &slot) == 0);
	region_settle(&r);
	CHECK(!slot.keep && slot.fd > 2);
	CHECK(fcntl(slot.fd, F_GETFD) == FD_CLOEXEC);
	CHECK(mappings() == 1);
	child_say('k');
	child_hear();
}

static void test_without_dontfork(void **state)
{
	struct child c = child_start(body_no_dontfork, NULL);
	struct region r;

	(void)state;
	if (child_word(&c) != 'k')
		child_end(&c);
	open_locked(&r);
	region_settle(&r);
	assert_int_equal(tenant_alive(&r, 0), 1);
	child_kill(&c);
	assert_int_equal(tenant_alive(&r, 0), 0);
	region_close(&r);
}

#define slot_test(f) cmocka_unit_test_setup_teardown(f, make, scratch_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		slot_test(test_claim),
		slot_test(test_vacate),
		slot_test(test_keeper),
		slot_test(test_killed_and_reaped),
		slot_test(test_a_zombie_is_dead),
		slot_test(test_slots_are_used_again),
		slot_test(test_all_slots),
		slot_test(test_a_crowd),
		slot_test(test_proc_num),
		slot_test(test_reap_trusts_no_bound),
		slot_test(test_region_is_gone),
		slot_test(test_slots_leave_hami_core_alone),
		slot_test(test_without_dontfork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
