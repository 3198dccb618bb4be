/*
 * Memory that descriptors hold when its own life has ended: charged until the last is closed. The
 * files stand for the driver's.
 */
#include "core/handed.h"
#include "core/lending.h"
#include "core/lent.h"
#include "core/pool.h"

#include "core/charge.h"

#include "member.h"
#include "mount.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define MIB MIB_BYTES(1)

static struct member member;

static void start(void)
{
	static const struct gpu_ops ops;

	member_join(&member, scratch_path("region"), "1g", RATION_FLAG_CONTEXT_FREE, 2);
	handed_init(&member.region, member.slot.index);
	track_init();
	handle_init();
	charge_init(&ops);
}

static int new_file(void)
{
	int fd = memfd_create("exported", MFD_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static void create(uint64_t handle, uint64_t bytes)
{
	struct charge c;

	CHECK_EQ(charge_reserve_handle(&c, dev0, bytes), 0);
	charge_commit_handle(&c, handle);
}

static void release(uint64_t handle)
{
	charge_begin();
	charge_freed_handle(handle_released(handle_release(handle)));
	charge_over();
}

static void map(uint64_t handle, uint64_t addr, uint64_t bytes)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };
	struct handle_node *node = handle_prepare();

	handle_use(node, handle);
	handle_map(node, addr, bytes, freed_bytes);
}

static void unmap(uint64_t addr, uint64_t bytes)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };

	charge_begin();
	handle_unmapped(handle_unmap(addr, bytes), freed_bytes);
	charge_freed_handles(freed_bytes);
	charge_over();
}

static void alloc(uint64_t addr, uint64_t bytes)
{
	struct charge c;

	CHECK_EQ(charge_reserve_linear(&c, dev0, NULL, bytes), 0);
	CHECK_EQ(charge_commit(&c, addr, bytes), 0);
}

static void free_at(uint64_t addr)
{
	struct dev dev;
	struct track_node *node = charge_take(addr, &dev);

	CHECK(node);
	charge_end(node, dev);
}

static int export_handle(uint64_t handle)
{
	struct lending l = { 0 };
	int fd = new_file();

	CHECK_EQ(lending_begin_handle(&l, handle), 0);
	lending_given(&l, fd);
	lending_end(&l);
	return fd;
}

static int export_range(uint64_t addr, uint64_t bytes)
{
	struct lending l = { 0 };
	int fd = new_file();

	CHECK_EQ(lending_begin_range(&l, addr, bytes), 0);
	lending_given(&l, fd);
	lending_end(&l);
	return fd;
}

static int export_as(uint64_t addr, uint64_t bytes, bool is_stored)
{
	struct lending l = { 0 };
	int fd = new_file();

	CHECK_EQ(lending_begin_address(&l, addr, dev0, bytes, is_stored), 0);
	lending_given(&l, fd);
	lending_end(&l);
	return fd;
}

static int export_address(uint64_t addr, uint64_t bytes)
{
	return export_as(addr, bytes, false);
}

static uint64_t used(void)
{
	handed_settle(dev0);
	return quota_used(dev0);
}

static void a_handle_is_held_by_its_descriptors(void)
{
	int a, b;

	start();
	create(0x100, 64 * MIB);
	a = export_handle(0x100);
	b = export_handle(0x100);
	CHECK_EQ(used(), 64 * MIB);
	release(0x100);
	CHECK_EQ(used(), 64 * MIB);
	/* Nobody finds room in it, and nobody is kept waiting for it. */
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, 1024 * MIB), -EDQUOT);
	close(a);
	CHECK_EQ(used(), 64 * MIB);
	close(b);
	CHECK(handed_await(dev0));
	CHECK_EQ(quota_used(dev0), 0);
	/* Closed before, it goes at once. */
	create(0x200, 2 * MIB);
	close(export_handle(0x200));
	release(0x200);
	CHECK_EQ(quota_used(dev0), 0);
}

/* Both have their own life still, and one descriptor of both, beside one of the first alone. */
static void one_descriptor_of_two(void)
{
	int both, first;

	start();
	create(0x100, 8 * MIB);
	create(0x200, 16 * MIB);
	map(0x100, 0x10000000, 8 * MIB);
	map(0x200, 0x10000000 + 8 * MIB, 16 * MIB);
	both = export_range(0x10000000 + 4 * MIB, 8 * MIB);
	first = export_range(0x10000000, 2 * MIB);
	release(0x100);
	release(0x200);
	CHECK_EQ(used(), 24 * MIB);
	unmap(0x10000000, 24 * MIB);
	CHECK_EQ(used(), 24 * MIB);
	close(both);
	CHECK_EQ(used(), 8 * MIB);
	close(first);
	CHECK_EQ(used(), 0);
	CHECK_EQ(lending_begin_range(&(struct lending){ 0 }, 0x10000000, MIB), -ENOENT);
}

/* Of a small allocation it is the whole block, which others may be in as well. */
static void an_allocation(void)
{
	int large, small;

	start();
	alloc(0x20000000, 32 * MIB);
	alloc(0x30000000, 4096);
	alloc(0x30001000, 4096);
	CHECK_EQ(used(), 34 * MIB);
	large = export_address(0x20000000, 0);
	small = export_address(0x30001000, 0);
	free_at(0x20000000);
	free_at(0x30001000);
	CHECK_EQ(used(), 36 * MIB);
	free_at(0x30000000);
	CHECK_EQ(used(), 34 * MIB);
	close(large);
	CHECK_EQ(used(), 2 * MIB);
	close(small);
	CHECK_EQ(used(), 0);
}

/* Another member, who imports and looks at each word. */
static void import_and_look(void *arg)
{
	struct member m;

	(void)arg;
	member_join(&m, scratch_path("region"), "1g", RATION_FLAG_CONTEXT_FREE, 2);
	handed_init(&m.region, m.slot.index);
	handed_import();
	child_say('c');
	while (child_hear()) {
		handed_looked();
		child_say('l');
	}
}

/* What others open by a name waits for those who may have it, as with a descriptor. */
static void a_handle_without_a_descriptor(void)
{
	struct lending l = { 0 };
	struct child other;

	start();
	other = child_start(import_and_look, NULL);
	CHECK_EQ(child_word(&other), 'c');
	create(0x100, 8 * MIB);
	create(0x200, 2 * MIB);
	CHECK_EQ(lending_begin_handle(&l, 0x100), 0);
	lending_named(&l);
	lending_end(&l);
	release(0x100);
	release(0x200);
	CHECK_EQ(used(), 8 * MIB);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(used(), 8 * MIB);
		child_tell(&other, 'l');
		CHECK_EQ(child_word(&other), 'l');
	}
	CHECK_EQ(used(), 0);
	child_kill(&other);
}

/* Memory in others' books: what a descriptor holds of it is charged for itself. */
static void what_others_are_charged_for(void)
{
	int fd;

	start();
	fd = export_address(0x40000000, 32 * MIB);
	CHECK_EQ(used(), 0);
	charge_lent_end(0x40000000);
	CHECK_EQ(used(), 32 * MIB);
	close(fd);
	CHECK_EQ(used(), 0);
	/* The address is another's by now. */
	charge_lent_end(0x40000000);
	CHECK_EQ(used(), 0);
}

/* It passes the limit only by what the card has given already. */
static void it_is_charged_whatever_the_limit(void)
{
	int fd;

	start();
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, 1024 * MIB), 0);
	fd = export_address(0x40000000, 32 * MIB);
	charge_lent_end(0x40000000);
	CHECK_EQ(used(), 1056 * MIB);
	quota_release(dev0, QUOTA_DATA, 40 * MIB);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, 10 * MIB), -EDQUOT);
	close(fd);
	CHECK_EQ(used(), 984 * MIB);
}

/* Nobody can say when such a descriptor is closed. */
static void one_that_cannot_be_marked(void)
{
	struct lending l = { 0 };
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	start();
	create(0x100, 4 * MIB);
	CHECK_EQ(lending_begin_handle(&l, 0x100), 0);
	lending_given(&l, fd);
	lending_end(&l);
	close(fd);
	release(0x100);
	CHECK_EQ(used(), 4 * MIB);
}

static void in_the_dark(void *arg)
{
	int fd;

	(void)arg;
	mount_begin();
	if (mount("/dev/null", "/proc/locks", NULL, MS_BIND, NULL) < 0)
		child_skip("nothing can be mounted there");
	start();
	create(0x100, 4 * MIB);
	fd = export_handle(0x100);
	release(0x100);
	CHECK_EQ(used(), 4 * MIB);
	close(fd);
	CHECK_EQ(used(), 4 * MIB);
}

/* As containers hide files of /proc: an empty list does not say that all are closed. */
static void where_the_locks_are_hidden(void)
{
	struct child child = child_start(in_the_dark, NULL);

	child_end(&child);
}

/* A child has neither the parent's memory nor its descriptors' charges. */
static void in_child(void *arg)
{
	(void)arg;
	CHECK(!lent_any(dev0) && !lent_is_fresh());
	lent_end(0x40000000);
	CHECK(!lent_is_fresh());
}

static void a_child_begins_with_nothing(void)
{
	struct child child;

	start();
	export_address(0x40000000, 2 * MIB);
	charge_lent_end(0x40000000);
	export_address(0x40000000, 2 * MIB);
	child = child_start(in_child, NULL);
	child_end(&child);
}

enum { THREADS = 4, ROUNDS = 50 };

static void *lend_and_end(void *arg)
{
	uint64_t handle = (uint64_t)(uintptr_t)arg << 32;
	int left = -1, fd;

	for (int i = 0; i < ROUNDS; i++, handle++) {
		create(handle, 2 * MIB);
		fd = export_handle(handle);
		if (i % 3 == 0)
			close(fd);
		release(handle);
		if (i % 3 == 1)
			close(fd);
		if (i % 3 == 2) {
			close(left);
			left = fd;
		}
		if (i % 7 == 0)
			handed_settle(dev0);
	}
	close(left);
	return NULL;
}

/* Each has charged what it holds, and all of it goes. */
static void threads_lend_at_once(void)
{
	pthread_t threads[THREADS];

	start();
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, lend_and_end, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(used(), 0);
	CHECK(!lent_any(dev0) && !lent_is_fresh());
}

static _Atomic bool is_over;

static void *settle_on_and_on(void *arg)
{
	(void)arg;
	while (!atomic_load(&is_over))
		handed_settle(dev0);
	return NULL;
}

static void *claim_on_and_on(void *arg)
{
	for (uint64_t handle = (uint64_t)(uintptr_t)arg << 32; !atomic_load(&is_over); handle++) {
		create(handle, 2 * MIB);
		close(export_handle(handle));
		release(handle);
	}
	return NULL;
}

static void begin(pthread_t threads[THREADS], void *(*body)(void *))
{
	atomic_store(&is_over, false);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, body, (void *)(i + 1)), 0);
}

static void end(const pthread_t threads[THREADS])
{
	atomic_store(&is_over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* Whoever else looks just now: who was refused finds what there is. */
static void what_another_thread_looks_for_is_waited_for(void)
{
	pthread_t threads[THREADS];
	int fd;

	start();
	begin(threads, settle_on_and_on);
	for (uint64_t handle = 1; handle < 1000; handle++) {
		create(handle, 2 * MIB);
		fd = export_handle(handle);
		release(handle);
		close(fd);
		handed_await(dev0);
		CHECK_EQ(quota_used(dev0), 0);
	}
	end(threads);
}

/* Nor is anything uncharged meanwhile that a descriptor holds. */
static void what_another_thread_claims_stays_charged(void)
{
	pthread_t threads[THREADS];
	int fd;

	start();
	begin(threads, claim_on_and_on);
	for (uint64_t handle = 1; handle < 1000; handle++) {
		create(handle, 64 * MIB);
		fd = export_handle(handle);
		release(handle);
		CHECK(quota_used(dev0) >= 64 * MIB);
		close(fd);
		handed_await(dev0);
	}
	end(threads);
	CHECK_EQ(used(), 0);
}

/* What was imported has the bytes of its mapping; who made it is charged while it lives here. */
static void an_import(void)
{
	int fd;

	start();
	handle_import(handle_prepare(), 0x300, dev0);
	map(0x300, 0x40000000, 64 * MIB);
	release(0x300);
	fd = export_range(0x40000000 + 2 * MIB, MIB);
	CHECK_EQ(used(), 0);
	unmap(0x40000000, 64 * MIB);
	CHECK_EQ(used(), 64 * MIB);
	close(fd);
	CHECK_EQ(used(), 0);
}

/* Nobody says when a graph's memory goes back into the store. */
static void a_graphs_memory(void)
{
	static const char store;
	uint64_t ticket;
	int fd;

	start();
	pool_init();
	CHECK(pool_enter(&store, dev0, POOL_STORE));
	CHECK_EQ(pool_reserve(&store, 96 * MIB), 0);
	CHECK_EQ(pool_settle(&store, pool_ask(), 96 * MIB, 96 * MIB), 0);
	fd = export_as(0x5000000, 32 * MIB, true);
	charge_lent_end(0x5000000);
	CHECK_EQ(used(), 96 * MIB);
	ticket = pool_ask();
	CHECK_EQ(pool_settle(&store, ticket, 32 * MIB, 0), 0);
	CHECK_EQ(used(), 64 * MIB);
	CHECK_EQ(pool_settle(&store, pool_ask(), 0, 0), 0);
	CHECK_EQ(used(), 32 * MIB);
	close(fd);
	CHECK_EQ(used(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(a_handle_is_held_by_its_descriptors),
		fresh_test(one_descriptor_of_two),
		fresh_test(an_allocation),
		fresh_test(a_handle_without_a_descriptor),
		fresh_test(what_others_are_charged_for),
		fresh_test(an_import),
		fresh_test(a_graphs_memory),
		fresh_test(it_is_charged_whatever_the_limit),
		fresh_test(one_that_cannot_be_marked),
		fresh_test(where_the_locks_are_hidden),
		fresh_test(a_child_begins_with_nothing),
		fresh_test(threads_lend_at_once),
		fresh_test(what_another_thread_looks_for_is_waited_for),
		fresh_test(what_another_thread_claims_stays_charged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
