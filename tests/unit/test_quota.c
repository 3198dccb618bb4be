#include "core/quota.h"

#include "base/clock.h"
#include "core/doubt.h"
#include "core/learnt.h"
#include "core/root.h"
#include "member.h"
#include "shm/spec.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static const struct dev dev20 = { 20 };

/* The clock of this program, where it is set. */
static int64_t fake_now_ns;

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!fake_now_ns)
		return (int)syscall(SYS_clock_gettime, id, t);
	t->tv_sec = fake_now_ns / NSEC_PER_SEC;
	t->tv_nsec = fake_now_ns % NSEC_PER_SEC;
	return 0;
}

static void what_is_reserved_is_held(void)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1g", 0, 1);
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(1024));
	CHECK_EQ(quota_left(dev0), MIB_BYTES(1024));
	CHECK_EQ(quota_reserve(dev0, QUOTA_CONTEXT, MIB_BYTES(300)), 0);
	CHECK_EQ(quota_reserve(dev0, QUOTA_MODULE, MIB_BYTES(24)), 0);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(600)), 0);
	CHECK_EQ(quota_held(dev0, QUOTA_CONTEXT), MIB_BYTES(300));
	CHECK_EQ(quota_held(dev0, QUOTA_MODULE), MIB_BYTES(24));
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), MIB_BYTES(600));
	CHECK_EQ(quota_used(dev0), MIB_BYTES(924));
	CHECK_EQ(quota_left(dev0), MIB_BYTES(100));
	CHECK_EQ(m.region.own->slots[m.slot.index].used_bytes[0], MIB_BYTES(924));
	CHECK(strcmp(quota_uuid(dev0), member_uuid(0)) == 0);
	CHECK_EQ(learnt_context_bytes(dev0), 0);
	learnt_note_context(dev0, MIB_BYTES(518));
	CHECK_EQ(learnt_context_bytes(dev0), MIB_BYTES(518));
	/* More than the card has was written by a stranger. */
	learnt_note_context(dev0, UINT64_C(1) << 60);
	CHECK_EQ(learnt_context_bytes(dev0), 0);
}

/* Refused to the byte, and a refusal takes nothing. */
static void the_limit_is_hard(void)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1g", 0, 1);
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(1024) + 1) == -EDQUOT);
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, UINT64_MAX) == -EDQUOT);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(1024)), 0);
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, 1) == -EDQUOT);
	CHECK_EQ(quota_left(dev0), 0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(1024));
	quota_release(dev0, QUOTA_DATA, 1);
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, 2) == -EDQUOT);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, 1), 0);
	/* A limit that was lowered meanwhile. */
	region_set_limit(m.region.hami, m.region.own, 0, MIB_BYTES(512));
	CHECK_EQ(quota_left(dev0), 0);
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, 1) == -EDQUOT);
	/* A word that was cleared lifts nothing: the limit as configured holds. */
	region_set_limit(m.region.hami, m.region.own, 0, 0);
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(1024));
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, 1) == -EDQUOT);
	region_set_limit(m.region.hami, m.region.own, 0, MIB_BYTES(2048));
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(1024)), 0);
}

/* As `ration limit` does it. */
static void change_limit(struct member *m, const char *spec, uint64_t limit_bytes)
{
	spec_begin(m->region.own, LIMITS_MEM);
	region_set_limit(m->region.hami, m->region.own, 0, limit_bytes);
	spec_end(m->region.own, LIMITS_MEM, spec, "test");
}

/* A cleared word leads to what is configured now, not to what was when the process joined. */
static void a_limit_that_was_changed_is_the_one_that_holds(void)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1g", 0, 1);
	change_limit(&m, "2g", MIB_BYTES(2048));
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(2048));
	region_set_limit(m.region.hami, m.region.own, 0, 0);
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(2048));
	change_limit(&m, "0:512m", 0);
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(512));
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(512) + 1) == -EDQUOT);
	/* In the midst of a change, and after one that nobody ended, what was read last holds. */
	spec_begin(m.region.own, LIMITS_MEM);
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(512));
	spec_end(m.region.own, LIMITS_MEM, "256m", "test");
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(256));
	/* So it does under a text that is none, or has no end. */
	change_limit(&m, "nonsense", 0);
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(256));
	change_limit(&m, "1g", 0);
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(1024));
	m.region.own->spec_change += 2;
	memset(m.region.own->mem_spec, '1', sizeof(m.region.own->mem_spec));
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(1024));
	/* The word goes before the text. */
	region_set_limit(m.region.hami, m.region.own, 0, MIB_BYTES(3));
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(3));
}

/* Who joins after a change that nobody ended falls back on what was in force then. */
static void a_change_that_was_cut_off_lifts_no_limit(void)
{
	struct region_setup setup = { .mem_spec = "1g", .mem_source = "test" };
	struct region_error err;
	struct member m;

	CHECK(region_open(scratch_path("region"), &setup, &m.region, &err) == 0);
	CHECK(region_add_device(&m.region, member_uuid(0), UINT64_C(16) << 30) == 0);
	CHECK(slot_claim(&m.region, &m.slot) == 0);
	region_settle(&m.region);
	spec_begin(m.region.own, LIMITS_MEM);
	quota_init(&m.region, &m.slot);
	region_set_limit(m.region.hami, m.region.own, 0, 0);
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(1024));
	spec_end(m.region.own, LIMITS_MEM, "2g", "test");
	CHECK_EQ(quota_limit(dev0), MIB_BYTES(2048));
}

static void no_more_is_released_than_is_held(void)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1g", 0, 1);
	quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(10));
	quota_reserve(dev0, QUOTA_MODULE, MIB_BYTES(5));
	quota_release(dev0, QUOTA_DATA, MIB_BYTES(11));
	CHECK_EQ(quota_used(dev0), MIB_BYTES(5));
	quota_release(dev0, QUOTA_DATA, MIB_BYTES(1));
	quota_release(dev0, QUOTA_CONTEXT, MIB_BYTES(1));
	CHECK_EQ(quota_used(dev0), MIB_BYTES(5));
	quota_release(dev0, QUOTA_MODULE, MIB_BYTES(5));
	CHECK_EQ(quota_used(dev0), 0);
}

static void overhead_is_what_the_card_says(void)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1g", 0, 1);
	quota_set_overhead(dev0, QUOTA_CONTEXT, MIB_BYTES(500));
	quota_set_overhead(dev0, QUOTA_MODULE, MIB_BYTES(530));
	CHECK_EQ(quota_held(dev0, QUOTA_CONTEXT), MIB_BYTES(500));
	CHECK_EQ(quota_held(dev0, QUOTA_MODULE), MIB_BYTES(30));
	quota_set_overhead(dev0, QUOTA_MODULE, MIB_BYTES(530));
	CHECK_EQ(quota_used(dev0), MIB_BYTES(530));
	/* Less: of the kind that is named first, the rest of the other. */
	quota_set_overhead(dev0, QUOTA_MODULE, MIB_BYTES(520));
	CHECK_EQ(quota_held(dev0, QUOTA_MODULE), MIB_BYTES(20));
	quota_set_overhead(dev0, QUOTA_MODULE, MIB_BYTES(400));
	CHECK_EQ(quota_held(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(quota_held(dev0, QUOTA_CONTEXT), MIB_BYTES(400));
	/* The card has given it: the limit does not matter, but counts for what comes. */
	quota_set_overhead(dev0, QUOTA_MODULE, MIB_BYTES(1100));
	CHECK_EQ(quota_used(dev0), MIB_BYTES(1100));
	CHECK_EQ(quota_left(dev0), 0);
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, 1) == -EDQUOT);
	quota_set_overhead(dev0, QUOTA_CONTEXT, 0);
	CHECK_EQ(quota_used(dev0), 0);
}

static void the_monitors_see_it(void)
{
	struct member m;
	const struct hami_used *u;

	member_join(&m, scratch_path("region"), "1g", 0, 21);
	u = member_shown(&m, 0);
	quota_reserve(dev0, QUOTA_CONTEXT, 100);
	quota_reserve(dev0, QUOTA_MODULE, 20);
	quota_reserve(dev0, QUOTA_DATA, 3);
	CHECK_EQ(u->context_bytes, 100);
	CHECK_EQ(u->module_bytes, 20);
	CHECK_EQ(u->data_bytes, 3);
	CHECK_EQ(u->total_bytes, 123);
	quota_release(dev0, QUOTA_MODULE, 20);
	CHECK_EQ(u->module_bytes, 0);
	CHECK_EQ(u->total_bytes, 103);
	CHECK_EQ(m.region.hami->procs[m.slot.index].seqlock & 1, 0);
	/* A device that HAMi's layout has no place for. */
	region_set_limit(m.region.hami, m.region.own, 20, MIB_BYTES(8));
	CHECK_EQ(quota_limit(dev20), MIB_BYTES(8));
	CHECK_EQ(quota_reserve(dev20, QUOTA_DATA, MIB_BYTES(8)), 0);
	CHECK((int)quota_reserve(dev20, QUOTA_DATA, 1) == -EDQUOT);
	CHECK_EQ(m.region.own->slots[m.slot.index].used_bytes[20], MIB_BYTES(8));
	CHECK_EQ(u->total_bytes, 103);
}

static void take_all(void *arg)
{
	struct member m;

	(void)arg;
	member_join(&m, scratch_path("region"), "1g", 0, 1);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(1000)), 0);
	child_say('h');
	child_hear();
}

/* A process that was killed is reaped before the next one is refused; a living one is not. */
static void the_dead_are_reaped_before_a_refusal(void)
{
	struct child other = child_start(take_all, NULL);
	struct member m;

	CHECK(child_word(&other) == 'h');
	member_join(&m, scratch_path("region"), "1g", 0, 1);
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(25)) == -EDQUOT);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(24)), 0);
	child_kill(&other);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(1000)), 0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(1024));
}

/* Another process that takes 1000 MiB, and is killed. */
static void take_all_and_die(void)
{
	struct child other = child_start(take_all, NULL);

	CHECK(child_word(&other) == 'h');
	child_kill(&other);
}

static void a_look_takes_the_dead_off(void)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1g", 0, 1);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(10)), 0);
	take_all_and_die();
	fake_now_ns = 100 * NSEC_PER_SEC;
	CHECK_EQ(quota_used(dev0), MIB_BYTES(1010));
	quota_settle(dev0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(10));
	/* Not at every look of a program that asks all the time, but soon. */
	take_all_and_die();
	quota_settle(dev0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(1010));
	fake_now_ns += NSEC_PER_MSEC - 1;
	quota_settle(dev0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(1010));
	fake_now_ns++;
	quota_settle(dev0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(10));
}

static void contexts_may_be_free(void)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1g", RATION_FLAG_CONTEXT_FREE, 1);
	CHECK(!quota_counts_contexts());
}

static void contexts_count(void)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1g", 0, 1);
	CHECK(quota_counts_contexts());
}

/* What a call may take counts at once; how it came out is known after it. */
static void what_is_in_doubt_counts_until_it_is_back(void)
{
	struct ration_slot *slot;
	struct member m;

	member_join(&m, scratch_path("region"), "100m", 0, 2);
	slot = &m.region.own->slots[m.slot.index];
	CHECK_EQ(quota_doubt(dev0, QUOTA_DATA, MIB_BYTES(60)), 0);
	CHECK_EQ(quota_doubt((struct dev){ 1 }, QUOTA_DATA, MIB_BYTES(10)), 0);
	CHECK_EQ(slot->doubted_bytes, MIB_BYTES(70));
	CHECK_EQ(slot->doubted_devices, 3);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(60));
	CHECK_EQ(quota_left(dev0), MIB_BYTES(40));
	CHECK((int)quota_doubt(dev0, QUOTA_DATA, MIB_BYTES(41)) == -EDQUOT);
	CHECK((int)quota_doubt(dev0, QUOTA_DATA, UINT64_MAX) == -EDQUOT);
	CHECK_EQ(slot->doubted_bytes, MIB_BYTES(70));
	/* It took 20 of them. */
	quota_doubt_over(dev0, QUOTA_DATA, MIB_BYTES(60), MIB_BYTES(40));
	CHECK_EQ(quota_used(dev0), MIB_BYTES(20));
	CHECK_EQ(slot->doubted_bytes, MIB_BYTES(10));
	CHECK_EQ(slot->doubted_devices, 2);
	CHECK_EQ(doubt_left_at_best(dev0, 0), MIB_BYTES(80));
	CHECK_EQ(quota_doubt(dev0, QUOTA_DATA, MIB_BYTES(30)), 0);
	CHECK_EQ(quota_left(dev0), MIB_BYTES(50));
	CHECK_EQ(doubt_left_at_best(dev0, MIB_BYTES(40)), MIB_BYTES(50));
	CHECK(doubt_left_at_best(dev0, 0) >= MIB_BYTES(80));
	quota_doubt_over(dev0, QUOTA_DATA, MIB_BYTES(30), MIB_BYTES(30));
	quota_doubt_over((struct dev){ 1 }, QUOTA_DATA, MIB_BYTES(10), MIB_BYTES(10));
	CHECK_EQ(slot->doubted_bytes + slot->doubted_devices, 0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(20));
}

static _Atomic bool is_back;

static void *be_in_doubt_for_a_while(void *arg)
{
	clock_sleep_ns(20 * NSEC_PER_MSEC);
	quota_doubt_over(dev0, QUOTA_DATA, MIB_BYTES(60), *(uint64_t *)arg);
	is_back = true;
	return arg;
}

/* What it is about to be refused for comes back before the second try. */
static int take_second(int *tries)
{
	if (++*tries == 2)
		quota_doubt_over(dev0, QUOTA_DATA, MIB_BYTES(60), MIB_BYTES(60));
	return quota_take(dev0, QUOTA_MODULE, MIB_BYTES(100));
}

/* Nobody is refused for what is given back in a moment; what is gone is refused. */
static void others_wait_for_what_is_in_doubt(void)
{
	uint64_t back_bytes = MIB_BYTES(60);
	int64_t end_ns = 0;
	int tries = 0, rc;
	pthread_t thread;
	struct member m;

	member_join(&m, scratch_path("region"), "100m", 0, 1);
	CHECK_EQ(quota_doubt(dev0, QUOTA_DATA, MIB_BYTES(60)), 0);
	CHECK_EQ(DOUBT_TRY(dev0, MIB_BYTES(100), take_second(&tries)), 0);
	CHECK_EQ(tries, 2);
	quota_release(dev0, QUOTA_MODULE, MIB_BYTES(100));
	for (int i = 0; i < 5; i++) {
		is_back = false;
		CHECK_EQ(quota_doubt(dev0, QUOTA_DATA, MIB_BYTES(60)), 0);
		CHECK(pthread_create(&thread, NULL, be_in_doubt_for_a_while, &back_bytes) == 0);
		/* On a busy machine the other may take longer than anybody waits. */
		while ((rc = quota_reserve(dev0, QUOTA_MODULE, MIB_BYTES(100))) == -EDQUOT &&
		       !is_back)
			;
		CHECK(rc == 0 || quota_reserve(dev0, QUOTA_MODULE, MIB_BYTES(100)) == 0);
		pthread_join(thread, NULL);
		quota_release(dev0, QUOTA_MODULE, MIB_BYTES(100));
	}
	/* Nobody waits for what would not do. */
	CHECK_EQ(quota_doubt(dev0, QUOTA_DATA, MIB_BYTES(60)), 0);
	CHECK(!doubt_await(dev0, MIB_BYTES(101), &end_ns) && end_ns == 0);
	CHECK(doubt_await(dev0, MIB_BYTES(100), &end_ns) && end_ns > 0);
	end_ns = 1;
	CHECK(!doubt_await(dev0, MIB_BYTES(100), &end_ns));
	back_bytes = 0;
	CHECK(pthread_create(&thread, NULL, be_in_doubt_for_a_while, &back_bytes) == 0);
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(100)) == -EDQUOT);
	pthread_join(thread, NULL);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(60));
}

static void die_in_doubt(const char *path)
{
	struct member m;

	member_join(&m, path, "100m", 0, 1);
	CHECK_EQ(quota_doubt(dev0, QUOTA_DATA, MIB_BYTES(100)), 0);
	_exit(0);
}

static void who_dies_in_doubt_is_reaped(void)
{
	const char *path = scratch_path("region");
	struct member m;
	pid_t pid;
	int status;

	member_join(&m, path, "100m", 0, 1);
	pid = fork();
	if (pid == 0)
		die_in_doubt(path);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(100));
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(100)), 0);
	CHECK_EQ(doubt_left_at_best(dev0, 0), 0);
}

enum { THREADS = 4, ROUNDS = 2000, UNIT = 1 << 20, LIMIT = 8 };

static struct {
	struct member m;
	_Atomic bool is_over;
	_Atomic int has_passed;
} crowd;

static void *reserve_and_release(void *arg)
{
	enum quota_kind kind = (enum quota_kind)((uintptr_t)arg % QUOTA_KINDS);
	unsigned seed = (unsigned)(uintptr_t)arg;
	int held = 0;

	for (int i = 0; i < ROUNDS; i++) {
		if (rand_r(&seed) % 2 && quota_reserve(dev0, kind, UNIT) == 0) {
			held++;
		} else if (held) {
			quota_release(dev0, kind, UNIT);
			held--;
		}
	}
	quota_release(dev0, kind, (uint64_t)held * UNIT);
	return NULL;
}

/* What anybody may read at any time: never over the limit, total never below its parts. */
static void *watch(void *arg)
{
	const struct hami_slot *slot = &crowd.m.region.hami->procs[crowd.m.slot.index];
	const struct hami_used *u = &slot->used[0];

	while (!atomic_load(&crowd.is_over)) {
		uint64_t seq = __atomic_load_n(&slot->seqlock, __ATOMIC_ACQUIRE), parts, total;

		if (quota_used(dev0) > (uint64_t)LIMIT * UNIT)
			atomic_store(&crowd.has_passed, 1);
		parts = __atomic_load_n(&u->context_bytes, __ATOMIC_ACQUIRE) +
			__atomic_load_n(&u->module_bytes, __ATOMIC_ACQUIRE) +
			__atomic_load_n(&u->data_bytes, __ATOMIC_ACQUIRE);
		total = __atomic_load_n(&u->total_bytes, __ATOMIC_ACQUIRE);
		if (!(seq & 1) && __atomic_load_n(&slot->seqlock, __ATOMIC_ACQUIRE) == seq &&
		    parts != total)
			atomic_store(&crowd.has_passed, 2);
	}
	return arg;
}

static void threads_stay_within_the_limit(void)
{
	pthread_t threads[THREADS], watcher;

	member_join(&crowd.m, scratch_path("region"), "8m", 0, 1);
	CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, reserve_and_release, (void *)(i + 1)) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&crowd.is_over, true);
	pthread_join(watcher, NULL);
	CHECK_EQ(atomic_load(&crowd.has_passed), 0);
	CHECK_EQ(quota_used(dev0), 0);
	CHECK_EQ(member_shown(&crowd.m, 0)->total_bytes, 0);
}

static void a_child_holds_nothing(void)
{
	struct member m, own;
	int status;
	pid_t pid;

	member_join(&m, scratch_path("region"), "1g", 0, 1);
	quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(512));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		member_join(&own, scratch_path("region"), NULL, 0, 1);
		CHECK(own.slot.index != m.slot.index);
		CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
		CHECK_EQ(quota_used(dev0), MIB_BYTES(512));
		quota_release(dev0, QUOTA_DATA, MIB_BYTES(512));
		CHECK_EQ(quota_used(dev0), MIB_BYTES(512));
		CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(512)), 0);
		CHECK((int)quota_reserve(dev0, QUOTA_DATA, 1) == -EDQUOT);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), MIB_BYTES(512));
	/* The child's end gave back what it had. */
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(512)), 0);
}

/* The program closed what held our slot. */
static void let_go(struct member *m)
{
	if (m->slot.keep)
		munmap(m->slot.keep, (size_t)sysconf(_SC_PAGESIZE));
	if (m->slot.fd >= 0)
		close(m->slot.fd);
	m->slot.fd = 1000;
}

/* By one who cannot tell that we live. */
static void be_reaped(struct member *m)
{
	CHECK(slot_reap(&m->region, -1) == 1);
	CHECK_EQ(m->region.own->accounts[0].total_bytes, 0);
}

/* What we hold is charged again, whatever is done first: all of it and no more. */
static void a_slot_that_was_lost_is_charged_again(void)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1g", 0, 1);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(100)), 0);
	let_go(&m);
	be_reaped(&m);
	quota_release(dev0, QUOTA_DATA, MIB_BYTES(30));
	CHECK_EQ(quota_used(dev0), MIB_BYTES(70));
	let_go(&m);
	be_reaped(&m);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(5)), 0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(75));
	let_go(&m);
	be_reaped(&m);
	quota_set_overhead(dev0, QUOTA_MODULE, MIB_BYTES(10));
	CHECK_EQ(quota_used(dev0), MIB_BYTES(85));
	let_go(&m);
	quota_hold_slot();
	CHECK_EQ(quota_used(dev0), MIB_BYTES(85));
	CHECK(slot_alive(m.slot.fd, m.slot.index) == 0 && m.slot.fd != 1000);
}

static _Atomic bool is_over, has_begun, may_hold;

static void no_wake(void)
{
}

/* As the worker does. */
static void *hold(void *arg)
{
	root_serve_here(no_wake);
	atomic_store(&has_begun, true);
	while (!atomic_load(&is_over)) {
		root_serve();
		if (atomic_load(&may_hold))
			quota_hold_slot();
	}
	return arg;
}

/* From another root directory nothing is given until it was taken back by who has the old one. */
static void a_slot_is_taken_back_from_the_old_root(void)
{
	pthread_t thread;
	struct member m;
	int rc;

	if (geteuid() != 0)
		return;
	member_join(&m, scratch_path("region"), "1g", 0, 1);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(100)), 0);
	CHECK(pthread_create(&thread, NULL, hold, NULL) == 0);
	while (!atomic_load(&has_begun))
		;
	CHECK(chroot(scratch_path("")) == 0);
	let_go(&m);
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(5)) == -ESTALE);
	quota_release(dev0, QUOTA_DATA, MIB_BYTES(30));
	atomic_store(&may_hold, true);
	while ((rc = quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(5))) == -ESTALE)
		;
	CHECK_EQ(rc, 0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(75));
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(what_is_reserved_is_held),
		fresh_test(the_limit_is_hard),
		fresh_test(a_limit_that_was_changed_is_the_one_that_holds),
		fresh_test(a_change_that_was_cut_off_lifts_no_limit),
		fresh_test(no_more_is_released_than_is_held),
		fresh_test(overhead_is_what_the_card_says),
		fresh_test(the_monitors_see_it),
		fresh_test(the_dead_are_reaped_before_a_refusal),
		fresh_test(a_look_takes_the_dead_off),
		fresh_test(contexts_may_be_free),
		fresh_test(contexts_count),
		fresh_test(what_is_in_doubt_counts_until_it_is_back),
		fresh_test(others_wait_for_what_is_in_doubt),
		fresh_test(who_dies_in_doubt_is_reaped),
		fresh_test(threads_stay_within_the_limit),
		fresh_test(a_child_holds_nothing),
		fresh_test(a_slot_that_was_lost_is_charged_again),
		fresh_test(a_slot_is_taken_back_from_the_old_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
