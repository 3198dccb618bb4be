#include "core/handle.h"

#include "fresh.h"

#include <pthread.h>

#define MIB (UINT64_C(1) << 20)
#define BASE UINT64_C(0x7f0000000000)

static const struct dev dev0 = { 0 }, dev1 = { 1 };

static struct handle_freed enter(uint64_t handle, struct dev dev, uint64_t bytes)
{
	struct handle_node *node = handle_prepare();
	struct handle_freed stale;

	CHECK(node);
	handle_enter(node, handle, dev, bytes, &stale);
	return stale;
}

/* What mapping it frees of device 0. */
static uint64_t map(uint64_t addr, uint64_t bytes, uint64_t handle)
{
	uint64_t freed[RATION_DEVICES] = { 0 };
	struct handle_node *node = handle_prepare();

	CHECK(node);
	handle_use(node, handle);
	handle_map(node, addr, bytes, freed);
	return freed[0];
}

static void retain(uint64_t handle, uint64_t addr)
{
	struct handle_node *node = handle_prepare();

	CHECK(node);
	handle_use_mapped(node, addr);
	CHECK_EQ(handle_retain(node, handle).bytes, 0);
}

/* The bytes that a release of `handle` frees. */
static uint64_t release(uint64_t handle)
{
	struct handle_node *node = handle_release(handle);

	CHECK(node);
	return handle_released(node).bytes;
}

/* The bytes of device 0 that an unmap frees. */
static uint64_t unmap(uint64_t addr, uint64_t bytes)
{
	uint64_t freed[RATION_DEVICES] = { 0 };

	handle_unmapped(handle_unmap(addr, bytes), freed);
	for (int d = 1; d < RATION_DEVICES; d++)
		CHECK_EQ(freed[d], 0);
	return freed[0];
}

static void a_handle_alone(void)
{
	struct handle_node *node;

	handle_init();
	CHECK(!handle_release(1));
	CHECK_EQ(enter(1, dev1, 2 * MIB).bytes, 0);
	node = handle_release(1);
	CHECK(node && !handle_release(1));
	struct handle_freed freed = handle_released(node);
	CHECK_EQ(freed.bytes, 2 * MIB);
	CHECK_EQ(freed.dev.v, 1);
	CHECK(!handle_release(1));
	handle_discard(NULL);
	handle_discard(handle_prepare());
}

static void mappings_keep_the_memory(void)
{
	handle_init();
	enter(1, dev0, 2 * MIB);
	map(BASE, 2 * MIB, 1);
	map(BASE + 16 * MIB, 2 * MIB, 1);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(unmap(BASE, 2 * MIB), 0);
	CHECK_EQ(unmap(BASE, 2 * MIB), 0);
	CHECK_EQ(unmap(BASE + 16 * MIB, 2 * MIB), 2 * MIB);
}

static void handles_keep_the_memory(void)
{
	handle_init();
	enter(1, dev0, 2 * MIB);
	map(BASE, 2 * MIB, 1);
	CHECK_EQ(unmap(BASE, 2 * MIB), 0);
	CHECK_EQ(release(1), 2 * MIB);
}

static void an_unmap_takes_whole_mappings(void)
{
	handle_init();
	for (uint64_t i = 0; i < 4; i++) {
		enter(10 + i, dev0, 2 * MIB);
		map(BASE + i * 2 * MIB, 2 * MIB, 10 + i);
		CHECK_EQ(release(10 + i), 0);
	}
	CHECK_EQ(unmap(BASE, MIB), 0);
	CHECK_EQ(unmap(BASE + MIB, 2 * MIB), 0);
	/* The second and third lie in it, the fourth only half. */
	CHECK_EQ(unmap(BASE + 2 * MIB, 5 * MIB), 4 * MIB);
	CHECK_EQ(unmap(BASE, 2 * MIB), 2 * MIB);
	CHECK_EQ(unmap(BASE, 64 * MIB), 2 * MIB);
	CHECK(!handle_unmap(0, UINT64_MAX));
}

static void retained_references_count(void)
{
	handle_init();
	enter(1, dev0, 2 * MIB);
	map(BASE, 2 * MIB, 1);
	retain(1, BASE);
	CHECK_EQ(unmap(BASE, 2 * MIB), 0);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(release(1), 2 * MIB);
}

/* A program that kept the mapping alone may ask for a handle again, in the middle of it. */
static void a_released_handle_can_be_retained(void)
{
	handle_init();
	enter(1, dev0, 4 * MIB);
	map(BASE, 4 * MIB, 1);
	CHECK_EQ(release(1), 0);
	retain(1, BASE + 3 * MIB);
	CHECK_EQ(unmap(BASE, 4 * MIB), 0);
	CHECK_EQ(release(1), 4 * MIB);
	/* As another value. */
	enter(1, dev0, 4 * MIB);
	map(BASE, 4 * MIB, 1);
	CHECK_EQ(release(1), 0);
	retain(2, BASE);
	retain(2, BASE);
	CHECK_EQ(unmap(BASE, 4 * MIB), 0);
	CHECK_EQ(release(2), 0);
	CHECK_EQ(release(2), 4 * MIB);
}

static void unknown_things_are_let_alone(void)
{
	handle_init();
	CHECK_EQ(map(BASE, 2 * MIB, 1), 0);
	retain(1, BASE);
	CHECK_EQ(unmap(BASE, 2 * MIB), 0);
	CHECK_EQ(release(1), 0);
	CHECK(!handle_release(1));
	CHECK_EQ(enter(1, dev0, 2 * MIB).bytes, 0);
	CHECK_EQ(release(1), 2 * MIB);
	enter(2, dev0, 2 * MIB);
	map(BASE, 2 * MIB, 2);
	retain(3, BASE - 1);
	retain(3, BASE + 2 * MIB);
	CHECK(!handle_release(3));
	CHECK_EQ(release(2), 0);
	CHECK_EQ(unmap(BASE, 2 * MIB), 2 * MIB);
}

/* The driver gave a value again: what had it was ended unseen. */
static void stale_ones_are_replaced(void)
{
	struct handle_freed stale;

	handle_init();
	enter(1, dev1, 6 * MIB);
	stale = enter(1, dev0, 2 * MIB);
	CHECK_EQ(stale.bytes, 6 * MIB);
	CHECK_EQ(stale.dev.v, 1);
	map(BASE, 2 * MIB, 1);
	CHECK_EQ(release(1), 0);
	enter(2, dev0, 4 * MIB);
	CHECK_EQ(map(BASE, 4 * MIB, 2), 2 * MIB);
	CHECK_EQ(release(2), 0);
	CHECK_EQ(unmap(BASE, 4 * MIB), 4 * MIB);
}

static void a_stale_handle_with_a_mapping(void)
{
	handle_init();
	enter(1, dev0, 6 * MIB);
	map(BASE, 6 * MIB, 1);
	CHECK_EQ(enter(1, dev0, 2 * MIB).bytes, 0);
	CHECK_EQ(unmap(BASE, 6 * MIB), 6 * MIB);
	CHECK_EQ(release(1), 2 * MIB);
}

static void what_failed_is_held_again(void)
{
	uint64_t freed[RATION_DEVICES] = { 0 };
	handle_init();
	enter(1, dev0, 2 * MIB);
	CHECK_EQ(handle_release_failed(handle_release(1)).bytes, 0);
	map(BASE, 2 * MIB, 1);
	retain(1, BASE);
	CHECK_EQ(handle_release_failed(handle_release(1)).bytes, 0);
	handle_unmap_failed(handle_unmap(BASE, 2 * MIB), freed);
	CHECK_EQ(freed[0], 0);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(unmap(BASE, 2 * MIB), 2 * MIB);
}

/* Another took the place of what was put back: that one is not lost in the count. */
static void what_failed_may_be_replaced(void)
{
	uint64_t freed[RATION_DEVICES] = { 0 };
	struct handle_node *node, *list;

	handle_init();
	enter(1, dev0, 2 * MIB);
	node = handle_release(1);
	enter(1, dev0, 4 * MIB);
	CHECK_EQ(handle_release_failed(node).bytes, 2 * MIB);
	map(BASE, 4 * MIB, 1);
	CHECK_EQ(release(1), 0);
	list = handle_unmap(BASE, 4 * MIB);
	enter(2, dev0, 6 * MIB);
	map(BASE, 6 * MIB, 2);
	handle_unmap_failed(list, freed);
	CHECK_EQ(freed[0], 4 * MIB);
	CHECK_EQ(release(2), 0);
	CHECK_EQ(unmap(BASE, 6 * MIB), 6 * MIB);
}

/* Two threads release two references; which of the calls fails is the driver's choice. */
static void releases_that_overlap(void)
{
	struct handle_node *one, *two;

	for (int fails = 0; fails < 4; fails++) {
		uint64_t freed = 0, left = fails == 3 ? 2 : fails ? 1 : 0;

		handle_init();
		enter(1, dev0, 2 * MIB);
		map(BASE, 2 * MIB, 1);
		retain(1, BASE);
		CHECK_EQ(unmap(BASE, 2 * MIB), 0);
		one = handle_release(1);
		two = handle_release(1);
		/* The value may be given again as soon as the driver has let the last one go. */
		CHECK(one && two && !handle_release(1));
		freed += (fails & 1 ? handle_release_failed(one) : handle_released(one)).bytes;
		freed += (fails & 2 ? handle_release_failed(two) : handle_released(two)).bytes;
		CHECK_EQ(freed, left ? 0 : 2 * MIB);
		for (; left; left--)
			CHECK_EQ(release(1), left == 1 ? 2 * MIB : 0);
		CHECK(!handle_release(1));
	}
}

/* As those, and the handle's value was given again in the middle of it. */
static void releases_that_overlap_with_a_new_handle(void)
{
	struct handle_node *one, *two;

	handle_init();
	enter(1, dev0, 2 * MIB);
	map(BASE, 2 * MIB, 1);
	retain(1, BASE);
	CHECK_EQ(unmap(BASE, 2 * MIB), 0);
	one = handle_release(1);
	CHECK_EQ(enter(1, dev0, 4 * MIB).bytes, 0);
	CHECK_EQ(handle_release_failed(one).bytes, 2 * MIB);
	map(BASE, 4 * MIB, 1);
	retain(1, BASE);
	one = handle_release(1);
	two = handle_release(1);
	/* It was retained again by its mapping while both were on their way. */
	retain(1, BASE);
	CHECK_EQ(handle_release_failed(one).bytes, 0);
	CHECK_EQ(handle_released(two).bytes, 0);
	CHECK_EQ(unmap(BASE, 4 * MIB), 0);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(release(1), 4 * MIB);
	CHECK(!handle_release(1));
}

/* What is used stays, and goes with the use. */
static void a_use_keeps_the_memory(void)
{
	struct handle_node *node = handle_prepare(), *other = handle_prepare();
	uint64_t freed[RATION_DEVICES] = { 0 };

	handle_init();
	enter(1, dev0, 2 * MIB);
	handle_use(node, 1);
	CHECK_EQ(release(1), 0);
	handle_map(node, BASE, 2 * MIB, freed);
	CHECK_EQ(freed[0], 0);
	handle_use_mapped(other, BASE + MIB);
	CHECK_EQ(unmap(BASE, 2 * MIB), 0);
	CHECK_EQ(handle_retain(other, 7).bytes, 0);
	node = handle_prepare();
	handle_use(node, 7);
	CHECK_EQ(release(7), 0);
	CHECK_EQ(handle_unuse(node).bytes, 2 * MIB);
	node = handle_prepare();
	handle_use(node, 7);
	CHECK_EQ(handle_unuse(node).bytes, 0);
}

/* A value that is used before its creation is entered, as another thread may guess it. */
static void a_use_may_come_before_the_memory(void)
{
	struct handle_node *node = handle_prepare();
	uint64_t freed[RATION_DEVICES] = { 0 };

	handle_init();
	map(BASE, 2 * MIB, 1);
	retain(1, BASE);
	handle_use(node, 1);
	CHECK_EQ(enter(1, dev0, 2 * MIB).bytes, 0);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(release(1), 0);
	CHECK(!handle_release(1));
	CHECK_EQ(unmap(BASE, 2 * MIB), 0);
	CHECK_EQ(handle_unuse(node).bytes, 2 * MIB);
	/* The use was of what had the value before: what is mapped is larger. */
	enter(1, dev1, 2 * MIB);
	node = handle_prepare();
	handle_use(node, 1);
	release(1);
	enter(1, dev0, 6 * MIB);
	handle_map(node, BASE, 6 * MIB, freed);
	CHECK_EQ(freed[1], 2 * MIB);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(unmap(BASE, 6 * MIB), 6 * MIB);
	/* And its creation is not entered yet. */
	enter(1, dev1, 2 * MIB);
	node = handle_prepare();
	handle_use(node, 1);
	release(1);
	handle_map(node, BASE, 6 * MIB, freed);
	CHECK_EQ(freed[1], 4 * MIB);
	enter(1, dev0, 6 * MIB);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(unmap(BASE, 6 * MIB), 6 * MIB);
}

static void a_child_has_nothing(void)
{
	int status;
	pid_t pid;

	handle_init();
	enter(1, dev0, 2 * MIB);
	map(BASE, 2 * MIB, 1);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(handle_release(1) || handle_unmap(BASE, 2 * MIB));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(release(1), 0);
	CHECK_EQ(unmap(BASE, 2 * MIB), 2 * MIB);
}

enum { THREADS = 4, ROUNDS = 2000 };

/* Each maps one handle that all have, and has handles of its own. */
static struct handle_freed enter_host(uint64_t handle)
{
	struct handle_node *node = handle_prepare();
	struct handle_freed stale;

	CHECK(node);
	handle_expect_host();
	CHECK(handle_has_host());
	handle_enter_host(node, handle, &stale);
	return stale;
}

/* By handle or mapped, whatever order it goes in; and nothing of it is charged. */
static void memory_of_the_host_is_known_of(void)
{
	struct handle_node *node;

	CHECK(!handle_has_host());
	handle_expect_host();
	CHECK(handle_has_host());
	handle_unexpect_host();
	CHECK(!handle_has_host());
	CHECK_EQ(enter_host(7).bytes, 0);
	CHECK_EQ(enter(8, dev0, 2 * MIB).bytes, 0);
	CHECK_EQ(map(BASE, 64 * MIB, 7), 0);
	CHECK_EQ(release(7), 0);
	CHECK(handle_has_host());
	retain(7, BASE);
	CHECK_EQ(unmap(BASE, 64 * MIB), 0);
	CHECK(handle_has_host());
	CHECK_EQ(release(7), 0);
	CHECK(!handle_has_host());
	/* Mapped before it is entered. */
	CHECK_EQ(map(BASE, 64 * MIB, 9), 0);
	CHECK_EQ(enter_host(9).bytes, 0);
	CHECK_EQ(release(9), 0);
	CHECK(handle_has_host());
	CHECK_EQ(unmap(BASE, 64 * MIB), 0);
	CHECK(!handle_has_host());
	/* Given twice for the same memory, as an import may be. */
	CHECK_EQ(enter_host(10).bytes, 0);
	node = handle_prepare();
	CHECK(node);
	handle_expect_host();
	handle_import_host(node, 10);
	CHECK_EQ(release(10), 0);
	CHECK(handle_has_host());
	CHECK_EQ(release(10), 0);
	CHECK(!handle_has_host());
	/* In the place of one that was released unseen, which was charged. */
	CHECK_EQ(enter_host(8).bytes, 2 * MIB);
	CHECK_EQ(release(8), 0);
	CHECK(!handle_has_host());
}

static void *use_handles(void *arg)
{
	uint64_t own = 100 + (uint64_t)(uintptr_t)arg, addr = BASE + own * 64 * MIB, freed = 0;

	for (int i = 0; i < ROUNDS; i++) {
		enter(own, dev0, 2 * MIB);
		map(addr, 2 * MIB, own);
		map(addr + 2 * MIB, 2 * MIB, 1);
		retain(1, addr + 2 * MIB);
		freed += release(own);
		freed += release(1);
		freed += unmap(addr, 4 * MIB);
	}
	return (void *)(uintptr_t)freed;
}

static void threads_share_handles(void)
{
	pthread_t threads[THREADS];

	handle_init();
	enter(1, dev0, 2 * MIB);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, use_handles, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++) {
		void *freed;

		pthread_join(threads[i], &freed);
		CHECK_EQ((uintptr_t)freed, ROUNDS * 2 * MIB);
	}
	CHECK_EQ(release(1), 2 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(a_handle_alone),
		fresh_test(mappings_keep_the_memory),
		fresh_test(handles_keep_the_memory),
		fresh_test(an_unmap_takes_whole_mappings),
		fresh_test(retained_references_count),
		fresh_test(a_released_handle_can_be_retained),
		fresh_test(unknown_things_are_let_alone),
		fresh_test(stale_ones_are_replaced),
		fresh_test(a_stale_handle_with_a_mapping),
		fresh_test(what_failed_is_held_again),
		fresh_test(what_failed_may_be_replaced),
		fresh_test(releases_that_overlap),
		fresh_test(releases_that_overlap_with_a_new_handle),
		fresh_test(a_use_keeps_the_memory),
		fresh_test(a_use_may_come_before_the_memory),
		fresh_test(memory_of_the_host_is_known_of),
		fresh_test(a_child_has_nothing),
		fresh_test(threads_share_handles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
