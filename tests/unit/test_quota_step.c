/*
 * A member of a tenant is killed wherever it has changed something in the region while it joins,
 * reserves, commits, cancels, frees, is refused, counts overhead, pools and graphs, and leaves.
 * Whoever asks next gets all that the limit allows, at the first call, and the books are right.
 *
 * After every single machine instruction the books are looked at while it stands still, which is
 * what its death would leave. It is killed wherever it has just changed something, and with
 * RATION_SOAK after every instruction, or every so manieth of a long way.
 */
#include "base/clock.h"
#include "core/charge.h"
#include "core/graph.h"
#include "core/pool.h"
#include "shm/account.h"
#include "shm/lock.h"

#include "member.h"
#include "refuse.h"
#include "step_way.h"

#include <stdlib.h>

enum { FULL_KILLS = 1000, CHANGES_MAX = 1000 };

#define LIMIT_SPEC "1g"
#define LIMIT_BYTES (UINT64_C(1) << 30)
/* The pool's name. */
#define POOL ((const void *)0x1000)
#define GRAPH ((const void *)0x2000)

static char path[512];
static struct member own;
static int64_t longest_ns;

static int no_figure(const char *uuid, uint64_t *out_bytes)
{
	(void)uuid;
	(void)out_bytes;
	return -ENOTSUP;
}

static const struct gpu_ops ops = { .process_bytes = no_figure };

/* The test's own process is slot 0 and holds nothing. Once: a process joins one region. */
static int make(void **state)
{
	if (scratch_make(state) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	member_join(&own, path, LIMIT_SPEC, 0, 1);
	return own.slot.index == 0 ? 0 : -1;
}

static int drop(void **state)
{
	region_close(&own.region);
	return scratch_remove(state);
}

static struct member me; /* in the child: slot 1 */

/* The walk through /proc changes nothing, and would be a million steps. */
static void become_member(void)
{
	refuse_call(SYS_getdents64, REFUSE_ANY, 0, ENOSYS);
	member_join(&me, path, NULL, 0, 1);
	CHECK(me.slot.index == 1);
	charge_init(&ops);
}

static void body_joins(void)
{
	refuse_call(SYS_getdents64, REFUSE_ANY, 0, ENOSYS);
	step_from_here();
	member_join(&me, path, NULL, 0, 1);
	quota_charge(dev0, QUOTA_CONTEXT, MIB_BYTES(1));
}

static void body_allocates(void)
{
	struct track_node *node;
	struct charge c;
	struct dev dev;

	become_member();
	step_from_here();
	CHECK(charge_reserve_linear(&c, dev0, NULL, MIB_BYTES(5)) == 0);
	CHECK(charge_commit(&c, MIB_BYTES(100), MIB_BYTES(5)) == 0);
	CHECK(charge_reserve_managed(&c, dev0, NULL, MIB_BYTES(3), CHARGE_MAY_WAIT) == 0);
	charge_cancel(&c);
	CHECK(charge_reserve_handle(&c, dev0, MIB_BYTES(4)) == 0);
	charge_commit_handle(&c, 7);
	node = charge_take(MIB_BYTES(100), &dev);
	CHECK(node);
	charge_end(node, dev);
}

static void body_is_refused(void)
{
	become_member();
	CHECK(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(1)) == 0);
	step_from_here();
	CHECK(quota_reserve(dev0, QUOTA_DATA, LIMIT_BYTES) == -EDQUOT);
}

static void body_counts_overhead(void)
{
	become_member();
	step_from_here();
	quota_set_overhead(dev0, QUOTA_CONTEXT, MIB_BYTES(66));
	quota_raise_overhead(dev0, QUOTA_MODULE, MIB_BYTES(70));
	quota_move(dev0, QUOTA_CONTEXT, QUOTA_MODULE, MIB_BYTES(2));
	quota_set_overhead(dev0, QUOTA_MODULE, MIB_BYTES(10));
}

static void body_has_pools(void)
{
	become_member();
	CHECK(pool_enter(POOL, dev0, POOL_DEVICE));
	step_from_here();
	CHECK(pool_reserve(POOL, MIB_BYTES(64)) == 0);
	CHECK(pool_settle(POOL, pool_ask(), MIB_BYTES(32), MIB_BYTES(64)) == 0);
	CHECK(pool_reserve(POOL, MIB_BYTES(32)) == 0);
	pool_cancel(POOL, MIB_BYTES(32));
	pool_end(pool_take(POOL), true);
}

static void body_has_graphs(void)
{
	struct graph_memory memory = { .bytes = { MIB_BYTES(32) } };
	uint64_t reserved[RATION_DEVICES] = { MIB_BYTES(32) };
	struct graph_look looks[RATION_DEVICES] = { { 0 } };
	const void *store = graph_store(dev0);
	struct graph_flight flight;

	become_member();
	CHECK(pool_enter(store, dev0, POOL_STORE));
	step_from_here();
	CHECK(pool_reserve(store, MIB_BYTES(32)) == 0);
	CHECK(graph_enter(GRAPH, &memory, reserved));
	CHECK(graph_fly(&flight, GRAPH, NULL, looks));
	CHECK(graph_go(&flight, looks));
	graph_landed(&flight, true, reserved);
	pool_settle(store, pool_ask(), MIB_BYTES(32), reserved[0]);
	graph_end(graph_take(GRAPH), reserved);
	graph_trim_end(dev0, graph_trim_begin(dev0), true, 0);
	pool_settle(store, pool_ask(), 0, 0);
}

static void body_leaves(void)
{
	become_member();
	CHECK(quota_charge(dev0, QUOTA_DATA, MIB_BYTES(9)) == 0);
	step_from_here();
	quota_leave();
}

/* What slot 1 and the sum are made of. */
struct part {
	struct hami_slot hami;
	struct ration_slot own;
	struct ration_account account;
	uint8_t hint;
};

static void look(struct part *p)
{
	memset(p, 0, sizeof(*p));
	p->hami = own.region.hami->procs[1];
	p->own = own.region.own->slots[1];
	p->account = own.region.own->accounts[0];
	p->hint = own.region.own->hint[1];
}

static uint64_t held(unsigned slot)
{
	struct account_holder h;

	account_settle(&h, own.region.own, slot, 0);
	return h.bytes;
}

static void check_books(long where)
{
	uint64_t total = own.region.own->accounts[0].total_bytes;

	if (total > LIMIT_BYTES || total != held(0) + held(1))
		fail_msg("killed at %ld: the sum is %llu, of %llu and %llu", where,
			 (unsigned long long)total, (unsigned long long)held(0),
			 (unsigned long long)held(1));
}

/* The next one gets everything, and then nothing is left of the dead. */
static void go_on(long where)
{
	static const struct hami_used nothing[HAMI_DEVICES];
	int64_t start_ns = clock_now_ns(), ns;

	assert_int_equal(quota_reserve(dev0, QUOTA_DATA, LIMIT_BYTES), 0);
	ns = clock_now_ns() - start_ns;
	longest_ns = ns > longest_ns ? ns : longest_ns;
	assert_true(slot_reap(&own.region, 0) >= 0);
	check_books(where);
	assert_int_equal(held(1), 0);
	assert_memory_equal(own.region.hami->procs[1].used, nothing, sizeof(nothing));
	assert_int_equal(own.region.hami->procs[1].pid, 0);
	quota_release(dev0, QUOTA_DATA, LIMIT_BYTES);
	assert_int_equal(own.region.own->accounts[0].total_bytes, 0);
}

static bool is_full(void)
{
	return getenv("RATION_SOAK") != NULL;
}

/* What was seen along a body's whole way. */
static struct {
	struct step_way way;
	long changes[CHANGES_MAX]; /* places of the way behind a change; the first is its begin */
	int change_count;
	uint64_t least_bytes, most_bytes; /* in the account */
} seen;

static void note_change(void)
{
	assert_true(seen.change_count < CHANGES_MAX);
	seen.changes[seen.change_count++] = seen.way.count;
}

/* Looks at the books after every instruction. */
static void look_everywhere(void (*body)(void))
{
	pid_t pid = step_start(body);
	struct part last, now;

	step_way_begin(&seen.way);
	seen.change_count = 0;
	note_change();
	look(&last);
	seen.least_bytes = seen.most_bytes = own.region.own->accounts[0].total_bytes;
	step_way_note(&seen.way, pid);
	while (step_one_whole(pid)) {
		uint64_t total = own.region.own->accounts[0].total_bytes;

		check_books(seen.way.count);
		seen.least_bytes = total < seen.least_bytes ? total : seen.least_bytes;
		seen.most_bytes = total > seen.most_bytes ? total : seen.most_bytes;
		look(&now);
		if (memcmp(&now, &last, sizeof(now)) != 0)
			note_change();
		last = now;
		step_way_note(&seen.way, pid);
	}
	step_kill(pid);
	go_on(seen.way.count);
}

/* Kills the child at the nth place of the way. False: it was over. */
static bool run_killed(void (*body)(void), long n)
{
	pid_t pid = step_start(body);

	step_way_go(&seen.way, pid, n);
	return step_kill(pid);
}

/* After every change, or in the full run after every instruction. */
static void kill_everywhere(void (*body)(void), int kills_least)
{
	long kills = 0, places, stride = 1;

	if (!step_is_possible())
		SKIP(STEP_REASON);
	longest_ns = 0;
	look_everywhere(body);
	places = is_full() ? seen.way.count : seen.change_count;
	if (is_full())
		stride += seen.way.count / FULL_KILLS;
	for (long i = 0; i < places; i += stride) {
		long n = is_full() ? i : seen.changes[i];

		kills += run_killed(body, n);
		check_books(n);
		go_on(n);
	}
	print_message("%ld instructions, %ld kills, the next one went on after %lld us at most\n",
		      seen.way.count, kills, (long long)(longest_ns / NSEC_PER_USEC));
	/* It was stepped through the body itself. */
	assert_true(kills > kills_least);
}

static void test_joining(void **state)
{
	(void)state;
	kill_everywhere(body_joins, 8);
}

static void test_allocating(void **state)
{
	(void)state;
	kill_everywhere(body_allocates, 32);
}

static void test_being_refused(void **state)
{
	(void)state;
	kill_everywhere(body_is_refused, 0);
	/* Nothing of what is refused is ever in the account, not for one instruction. */
	assert_true(seen.way.count > 100);
	assert_int_equal(seen.least_bytes, MIB_BYTES(1));
	assert_int_equal(seen.most_bytes, MIB_BYTES(1));
}

static void test_counting_overhead(void **state)
{
	(void)state;
	kill_everywhere(body_counts_overhead, 30);
}

static void test_pools(void **state)
{
	(void)state;
	kill_everywhere(body_has_pools, 30);
}

static void test_graphs(void **state)
{
	(void)state;
	kill_everywhere(body_has_graphs, 10);
}

static void test_leaving(void **state)
{
	(void)state;
	kill_everywhere(body_leaves, 3);
}

/* Bytes of the file that anybody locks, one after another. */
static const struct {
	const char *name;
	int64_t at, bytes;
} locks[] = {
	{ "creation", 0, HAMI_REGION_BYTES },
	{ "slot", RATION_LOCK_SLOT + 5, 1 },
	{ "keeper", RATION_LOCK_KEEPER, 1 },
	{ "reap", RATION_LOCK_REAP + 5, 1 },
};
static int lock_index;

static void body_locks(void)
{
	int fd = region_reopen(&own.region);

	CHECK(fd >= 0);
	step_from_here();
	CHECK(lock_wait(fd, locks[lock_index].at, locks[lock_index].bytes, NSEC_PER_SEC) == 0);
	CHECK(lock_held(fd, locks[lock_index].at, locks[lock_index].bytes, NULL) == 0);
	lock_drop(fd, locks[lock_index].at, locks[lock_index].bytes);
}

/* True when the child had it when it was killed. */
static bool kill_locker(const struct step_way *way, long n)
{
	int64_t at = locks[lock_index].at, bytes = locks[lock_index].bytes;
	int fd = region_reopen(&own.region);
	pid_t pid = step_start(body_locks);
	bool was_held;

	assert_true(fd >= 0);
	step_way_go(way, pid, n);
	was_held = lock_held(fd, at, bytes, NULL) == 1;
	step_kill(pid);
	/* At the first try: the kernel has dropped it. */
	assert_int_equal(lock_try(fd, at, bytes), 0);
	close(fd);
	return was_held;
}

static void walk_locker(struct step_way *way)
{
	pid_t pid = step_start(body_locks);

	step_way_begin(way);
	do
		step_way_note(way, pid);
	while (step_one_whole(pid));
	step_kill(pid);
}

static void test_every_lock(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	for (lock_index = 0; lock_index < (int)(sizeof(locks) / sizeof(*locks)); lock_index++) {
		int held_when_killed = 0;

		walk_locker(&seen.way);
		for (long n = 0; n < seen.way.count; n += is_full() ? 1 : 11)
			held_when_killed += kill_locker(&seen.way, n);
		if (held_when_killed < 3)
			fail_msg("%s: killed %d times while it was held", locks[lock_index].name,
				 held_when_killed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_joining),       cmocka_unit_test(test_allocating),
		cmocka_unit_test(test_being_refused), cmocka_unit_test(test_counting_overhead),
		cmocka_unit_test(test_pools),         cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_leaving),       cmocka_unit_test(test_every_lock),
	};

	return cmocka_run_group_tests(tests, make, drop);
}
