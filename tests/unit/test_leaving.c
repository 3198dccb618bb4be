/* Who would be refused for want of what a process has that leaves waits until it has left. */
#include "core/leaving.h"

#include "core/backing.h"
#include "core/charge.h"
#include "core/local.h"
#include "core/quota.h"
#include "leaver.h"
#include "member.h"
#include "scratch.h"
#include "shm/leaver.h"
#include "shm/residency.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MIB = 1 << 20, LIMIT = 100 * MIB };

static const struct dev dev = { 0 };
static struct member own;

static void *stay(void *arg)
{
	pause();
	return arg;
}

/* Another process of the tenant, of two threads, has 80 MiB of the device and of host memory. */
static void body_holds(void *arg)
{
	static struct member member;
	pthread_t thread;

	(void)arg;
	member_join(&member, scratch_path("region"), "100m", 0, 1);
	CHECK(quota_reserve(dev, QUOTA_DATA, 80 * MIB) == 0);
	CHECK(residency_add(member.region.own, member.slot.index, RESIDENCY_HOST, 80 * MIB,
			    LIMIT) == 0);
	CHECK(pthread_create(&thread, NULL, stay, NULL) == 0);
	child_say('k');
	pause();
}

/* It is killed, and leaves until the thread that is returned is let go. */
static pid_t begin_leaving(struct child *c)
{
	pid_t thread;

	*c = child_start(body_holds, NULL);
	CHECK(child_word(c) == 'k');
	thread = leaver_kill(c->pid);
	if (!thread)
		child_skip("nothing can be traced here");
	return thread;
}

static void begin(void)
{
	member_join(&own, scratch_path("region"), "100m", 0, 1);
	leaving_init(&own.region);
}

static void *reserve(void *out_rc)
{
	*(int *)out_rc = quota_reserve(dev, QUOTA_DATA, 50 * MIB);
	return NULL;
}

static void *reserve_host(void *out_rc)
{
	const struct backing_bounds bounds = { .own = own.region.own,
					       .slot = own.slot.index,
					       .may_spill = true };

	own.region.own->host_bytes = LIMIT;
	leaving_await_host(&bounds, 50 * MIB);
	*(int *)out_rc = residency_add(own.region.own, own.slot.index, RESIDENCY_HOST, 50 * MIB,
				       LIMIT);
	return NULL;
}

/* Others ask at once; `call` once it leaves, and it has left when that is over. */
static void await(void *(*call)(void *))
{
	struct child c;
	pthread_t thread;
	pid_t leaver;
	int rc = 1;

	begin();
	leaver = begin_leaving(&c);
	CHECK(pthread_create(&thread, NULL, call, &rc) == 0);
	usleep(50000);
	CHECK(own.region.own->accounts[0].total_bytes == 80 * MIB);
	leaver_let_go(leaver);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(rc == 0);
	CHECK(leaver_bytes(own.region.own, 0) == 0);
	child_kill(&c);
}

static void body_of_the_device(void *arg)
{
	(void)arg;
	await(reserve);
}

static void test_of_the_device(void **state)
{
	(void)state;
	child_run(body_of_the_device, NULL);
}

static void body_of_the_host(void *arg)
{
	(void)arg;
	await(reserve_host);
}

static void test_of_the_host(void **state)
{
	(void)state;
	child_run(body_of_the_host, NULL);
}

static int no_card(const char *uuid, uint64_t *out_bytes)
{
	(void)uuid;
	(void)out_bytes;
	return -ENOTSUP;
}

static const struct gpu_ops ops = { .process_bytes = no_card };
static char ctx, function;
static _Atomic int local_rc = 1;

/* A launch whose context's local memory is to grow by 50 MiB. */
static void *reserve_local(void *arg)
{
	const struct local_use use = { .ctx = &ctx,
				       .dev = dev,
				       .threads = 32 << 10,
				       .thread_bytes = LOCAL_STACK_BYTES + 1600 };
	struct local_growth growth;

	atomic_store(&local_rc, local_reserve(&growth, &use, NULL));
	if (atomic_load(&local_rc) == 0)
		local_finish(&growth, LOCAL_GREW);
	return arg;
}

/* A launch that waits is in no other's way; nor does who must not wait. */
static void body_of_local_memory(void *arg)
{
	struct child c;
	struct charge charge;
	pthread_t thread;
	pid_t leaver;

	(void)arg;
	begin();
	charge_init(&ops);
	local_init();
	local_open(&ctx, dev);
	leaver = begin_leaving(&c);
	CHECK(pthread_create(&thread, NULL, reserve_local, NULL) == 0);
	while (leaver_bytes(own.region.own, 0) == 0)
		usleep(1000);
	local_tell(&function, &ctx, LOCAL_STACK_BYTES);
	CHECK(charge_reserve_managed(&charge, dev, &ctx, 50 * MIB, CHARGE_AT_ONCE) == -EDQUOT);
	CHECK(atomic_load(&local_rc) == 1);
	leaver_let_go(leaver);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(atomic_load(&local_rc) == 0);
	child_kill(&c);
}

static void test_of_local_memory(void **state)
{
	(void)state;
	child_run(body_of_local_memory, NULL);
}

/* What would not fit without it either is refused; so is what it does not leave in time. */
static void body_in_vain(void *arg)
{
	struct child c;
	pid_t leaver;

	(void)arg;
	begin();
	leaver = begin_leaving(&c);
	CHECK(quota_reserve(dev, QUOTA_DATA, 101 * MIB) == -EDQUOT);
	CHECK(quota_reserve(dev, QUOTA_DATA, 10 * MIB) == 0);
	CHECK(quota_reserve(dev, QUOTA_DATA, 50 * MIB) == -EDQUOT);
	CHECK(own.region.own->accounts[0].total_bytes == 90 * MIB);
	leaver_let_go(leaver);
	child_kill(&c);
	CHECK(quota_reserve(dev, QUOTA_DATA, 50 * MIB) == 0);
	CHECK(own.region.own->accounts[0].total_bytes == 60 * MIB);
}

static void test_in_vain(void **state)
{
	(void)state;
	child_run(body_in_vain, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_of_the_device),
		scratch_test(test_of_the_host),
		scratch_test(test_of_local_memory),
		scratch_test(test_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
