#include "core/track.h"

#include "fresh.h"

#include <pthread.h>

#define MIB (UINT64_C(1) << 20)
#define BLOCK TRACK_BLOCK_BYTES
#define BASE UINT64_C(0x7f0000000000)

static const struct dev dev0 = { 0 }, dev1 = { 1 };

/* Enters an allocation; all it needs is allowed. */
static struct track_entered enter(const struct track *t)
{
	struct track_node *node = track_prepare();
	struct track_entered e;

	CHECK(node);
	CHECK(track_enter(node, t, UINT64_MAX, &e));
	return e;
}

/* As enter(); returns what is newly held with it. */
static uint64_t enter_at(uint64_t addr, uint64_t bytes)
{
	struct track t = { .addr = addr, .bytes = bytes, .dev = dev0 };
	struct track_entered e = enter(&t);

	CHECK_EQ(e.stale.bytes, 0);
	return e.new_bytes;
}

static uint64_t end_at(uint64_t addr)
{
	struct track t;
	struct track_node *node = track_take(addr, &t);

	CHECK(node);
	CHECK_EQ(t.addr, addr);
	return track_end(node).bytes;
}

static void what_is_held_is_the_blocks_touched(void)
{
	struct track t;

	track_init();
	CHECK(!track_take(BASE, &t));
	CHECK(!track_has_block(dev0));
	CHECK_EQ(enter_at(BASE, 2 * BLOCK), 2 * BLOCK);
	CHECK_EQ(enter_at(BASE + 2 * BLOCK, 1), BLOCK);
	CHECK_EQ(enter_at(BASE + 4 * BLOCK, 7 * BLOCK + 1), 8 * BLOCK);
	CHECK(track_has_block(dev0));
	CHECK(!track_has_block(dev1));
	CHECK_EQ(track_physical(dev0), 11 * BLOCK);
	/* Exactly the address: not one inside. */
	CHECK(!track_take(BASE + BLOCK, &t));
	CHECK_EQ(end_at(BASE), 2 * BLOCK);
	CHECK(!track_take(BASE, &t));
	CHECK_EQ(end_at(BASE + 4 * BLOCK), 8 * BLOCK);
	CHECK_EQ(end_at(BASE + 2 * BLOCK), BLOCK);
	CHECK_EQ(track_physical(dev0), 0);
	CHECK(!track_has_block(dev0));
}

static void blocks_are_shared(void)
{
	track_init();
	CHECK_EQ(enter_at(BASE, 512), BLOCK);
	CHECK_EQ(enter_at(BASE + 512, 512), 0);
	CHECK_EQ(enter_at(BASE + BLOCK - 512, 512), 0);
	/* Over the edge, and into a block that is there already on both sides. */
	CHECK_EQ(enter_at(BASE + BLOCK, 3 * BLOCK + 512), 4 * BLOCK);
	CHECK_EQ(enter_at(BASE + 4 * BLOCK + 512, 512), 0);
	CHECK_EQ(enter_at(BASE + 1024, BLOCK), 0);
	CHECK_EQ(track_physical(dev0), 5 * BLOCK);
	/* The large one goes: its inner blocks and no shared one. */
	CHECK_EQ(end_at(BASE + BLOCK), 2 * BLOCK);
	CHECK_EQ(end_at(BASE + 4 * BLOCK + 512), BLOCK);
	CHECK_EQ(end_at(BASE + 512), 0);
	CHECK_EQ(end_at(BASE), 0);
	CHECK_EQ(end_at(BASE + BLOCK - 512), 0);
	CHECK_EQ(end_at(BASE + 1024), 2 * BLOCK);
	CHECK_EQ(track_physical(dev0), 0);
	CHECK(!track_has_block(dev0));
}

static void no_more_is_entered_than_is_allowed(void)
{
	struct track t = { .addr = BASE + 512, .bytes = 2 * BLOCK, .dev = dev0 };
	struct track_node *node;
	struct track_entered e;

	track_init();
	node = track_prepare();
	CHECK(!track_enter(node, &t, 0, &e));
	CHECK_EQ(e.new_bytes, 3 * BLOCK);
	CHECK(!track_enter(node, &t, 3 * BLOCK - 1, &e));
	CHECK(!track_has_block(dev0));
	CHECK_EQ(track_physical(dev0), 0);
	/* Meanwhile another made one of the blocks. */
	enter_at(BASE, 512);
	CHECK(!track_enter(node, &t, BLOCK, &e));
	CHECK_EQ(e.new_bytes, 2 * BLOCK);
	CHECK(track_enter(node, &t, e.new_bytes, &e));
	CHECK_EQ(end_at(BASE), 0);
	CHECK_EQ(end_at(BASE + 512), 3 * BLOCK);
	node = track_prepare();
	t.bytes = 1;
	enter_at(BASE, 512);
	CHECK(track_enter(node, &t, 0, &e));
	CHECK_EQ(e.new_bytes, 0);
	CHECK_EQ(end_at(BASE), 0);
	CHECK_EQ(end_at(BASE + 512), BLOCK);
}

/*
 * The driver gave this address again, so what we knew of it was freed unseen. `*held` follows what
 * is charged.
 */
static void enter_again(const struct track *t, uint64_t *held)
{
	struct track_entered e = enter(t);

	*held += e.new_bytes - e.stale.bytes;
}

static void stale_addresses_are_replaced(void)
{
	struct track t = { .addr = BASE, .bytes = 6 * BLOCK, .dev = dev0 };
	uint64_t held = 0;

	track_init();
	enter_again(&t, &held);
	t.bytes = 2 * BLOCK;
	enter_again(&t, &held);
	CHECK_EQ(held, 2 * BLOCK);
	CHECK_EQ(track_physical(dev0), 2 * BLOCK);
	t.bytes = 512;
	enter_again(&t, &held);
	CHECK_EQ(held, BLOCK);
	t.bytes = 3 * BLOCK;
	enter_again(&t, &held);
	CHECK_EQ(held, 3 * BLOCK);
	CHECK_EQ(track_physical(dev0), 3 * BLOCK);
	/* Managed memory in the place of linear, and the other way. */
	t.bytes = 64 * MIB;
	t.is_managed = true;
	enter_again(&t, &held);
	CHECK_EQ(held, 64 * MIB);
	CHECK_EQ(track_physical(dev0), 0);
	t.bytes = BLOCK;
	t.is_managed = false;
	enter_again(&t, &held);
	CHECK_EQ(held, BLOCK);
	CHECK_EQ(end_at(BASE), BLOCK);
	CHECK_EQ(track_physical(dev0), 0);
	CHECK(!track_has_block(dev0));
}

static void what_is_put_back_is_held(void)
{
	struct track t;
	struct track_node *node;

	track_init();
	enter_at(BASE, 2 * BLOCK);
	node = track_take(BASE, &t);
	CHECK_EQ(t.bytes, 2 * BLOCK);
	/* Taken out, but not over: it still counts. */
	CHECK_EQ(track_physical(dev0), 2 * BLOCK);
	CHECK_EQ(track_put_back(node).bytes, 0);
	CHECK_EQ(track_physical(dev0), 2 * BLOCK);
	node = track_take(BASE, &t);
	enter_at(BASE, 1);
	CHECK_EQ(track_put_back(node).bytes, BLOCK);
	CHECK_EQ(track_physical(dev0), BLOCK);
	CHECK_EQ(end_at(BASE), BLOCK);
}

/* A block whose last allocation is being freed may be found by the next one already. */
static void a_block_lives_until_the_free_is_over(void)
{
	struct track t;
	struct track_node *node;

	track_init();
	enter_at(BASE, 512);
	node = track_take(BASE, &t);
	CHECK_EQ(enter_at(BASE, 512), 0);
	CHECK_EQ(track_end(node).bytes, 0);
	CHECK_EQ(track_physical(dev0), BLOCK);
	CHECK_EQ(end_at(BASE), BLOCK);
}

static void managed_memory_is_not_in_the_drivers_figure(void)
{
	struct track t = { .addr = BASE + 512, .bytes = 65536, .dev = dev0, .is_managed = true };

	track_init();
	CHECK_EQ(enter(&t).new_bytes, 65536);
	CHECK_EQ(track_physical(dev0), 0);
	CHECK(!track_has_block(dev0));
	CHECK_EQ(end_at(BASE + 512), 65536);
	CHECK_EQ(track_physical(dev0), 0);
}

static void devices_are_apart(void)
{
	struct track t = { .addr = BASE, .bytes = 4 * BLOCK, .dev = dev1 };

	track_init();
	enter_at(BASE + 8 * BLOCK, BLOCK);
	enter(&t);
	CHECK_EQ(track_physical(dev0), BLOCK);
	CHECK_EQ(track_physical(dev1), 4 * BLOCK);
	CHECK_EQ(end_at(BASE + 8 * BLOCK), BLOCK);
	CHECK(!track_has_block(dev0));
	CHECK(track_has_block(dev1));
	CHECK_EQ(end_at(BASE), 4 * BLOCK);
	CHECK_EQ(track_physical(dev1), 0);
}

static void a_context_takes_its_own_along(void)
{
	int a, b;
	uint64_t freed[RATION_DEVICES] = { 0 }, mark;
	struct track t = { .addr = BASE, .bytes = 2 * BLOCK, .dev = dev0, .ctx = &a };

	track_init();
	enter(&t);
	t.addr += 2 * BLOCK;
	t.dev = dev1;
	enter(&t);
	t.addr += 2 * BLOCK;
	t.ctx = &b;
	enter(&t);
	t = (struct track){ .addr = BASE + 8 * BLOCK, .bytes = 1, .dev = dev0, .ctx = &a };
	enter(&t);
	t.addr += 512;
	t.ctx = &b;
	enter(&t);
	mark = track_mark();
	/* The same address of a context, made anew: not what ended. */
	t = (struct track){ .addr = BASE + 9 * BLOCK, .bytes = 1, .dev = dev0, .ctx = &a };
	enter(&t);
	track_drop_context(&a, mark, freed);
	CHECK_EQ(freed[0], 2 * BLOCK); /* the block of the small one has one of b's */
	CHECK_EQ(freed[1], 2 * BLOCK);
	CHECK(!track_take(BASE, &t));
	CHECK_EQ(end_at(BASE + 4 * BLOCK), 2 * BLOCK);
	CHECK_EQ(end_at(BASE + 9 * BLOCK), BLOCK);
	CHECK_EQ(end_at(BASE + 8 * BLOCK + 512), BLOCK);
	CHECK_EQ(track_physical(dev0), 0);
	CHECK_EQ(track_physical(dev1), 0);
}

/* What is under way to its free belongs to its context still, and to no new one of that value. */
static void a_context_takes_what_is_being_freed_along(void)
{
	uint64_t freed[RATION_DEVICES] = { 0 }, mark;
	struct track_node *old[3], *young;
	struct track t;
	int ctx;

	track_init();
	for (uint64_t i = 0; i < 4; i++) {
		t = (struct track){
			.addr = BASE + i * BLOCK, .bytes = BLOCK, .ctx = &ctx, .dev = dev0
		};
		mark = track_mark();
		enter(&t);
	}
	for (uint64_t i = 0; i < 3; i++)
		old[i] = track_take(BASE + i * BLOCK, &t);
	young = track_take(BASE + 3 * BLOCK, &t);
	CHECK_EQ(track_end(old[1]).bytes, BLOCK);
	track_drop_context(&ctx, mark, freed);
	CHECK_EQ(freed[0], 0);
	CHECK_EQ(track_physical(dev0), 3 * BLOCK);
	CHECK_EQ(track_put_back(old[0]).bytes, BLOCK);
	CHECK_EQ(track_end(old[2]).bytes, BLOCK);
	CHECK_EQ(track_put_back(young).bytes, 0);
	CHECK_EQ(end_at(BASE + 3 * BLOCK), BLOCK);
	CHECK_EQ(track_physical(dev0), 0);
}

static void memory_tracked_elsewhere_is_added(void)
{
	track_init();
	track_physical_add(dev1, (int64_t)(6 * MIB));
	CHECK_EQ(track_physical(dev1), 6 * MIB);
	track_physical_add(dev1, -(int64_t)(8 * MIB));
	CHECK_EQ(track_physical(dev1), 0);
	track_discard(NULL);
	track_discard(track_prepare());
}

static void a_child_has_nothing(void)
{
	struct track t;
	int status;
	pid_t pid;

	track_init();
	enter_at(BASE, 2 * BLOCK);
	enter_at(BASE + 8 * MIB, 1);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(track_physical(dev0) || track_has_block(dev0) || track_mark() ||
		      track_take(BASE, &t));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(end_at(BASE), 2 * BLOCK);
	CHECK_EQ(end_at(BASE + 8 * MIB), BLOCK);
}

/* Threads with blocks in common: each enters and ends allocations in the same few blocks. */
enum { THREADS = 4, ROUNDS = 3000 };

static void *share_blocks(void *arg)
{
	uint64_t own = BASE + 512 * (uint64_t)(uintptr_t)arg, opened = 0, ended = 0;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t addr = own + i % 3 * BLOCK;

		opened += enter_at(addr, i % 2 ? 512 : BLOCK + 512);
		ended += end_at(addr);
	}
	return (void *)(uintptr_t)(opened - ended);
}

static void blocks_are_shared_by_threads(void)
{
	pthread_t threads[THREADS];
	uintptr_t sum = 0;

	track_init();
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, share_blocks, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++) {
		void *more;

		pthread_join(threads[i], &more);
		sum += (uintptr_t)more;
	}
	/* What was opened, by whomever, was ended, by whomever. */
	CHECK_EQ(sum, 0);
	CHECK_EQ(track_physical(dev0), 0);
	CHECK(!track_has_block(dev0));
}

/* What is no longer held when the allocation there ends; of it, what others might share. */
static void ends_with(uint64_t addr, uint64_t bytes, uint64_t shared_bytes)
{
	struct track t;
	struct track_gone gone = track_end(track_take(addr, &t));

	CHECK_EQ(gone.bytes, bytes);
	CHECK_EQ(gone.shared_bytes, shared_bytes);
}

static void what_is_not_filled_may_be_shared(void)
{
	track_init();
	enter_at(BASE, 2 * BLOCK);
	ends_with(BASE, 2 * BLOCK, 0);
	enter_at(BASE, BLOCK);
	ends_with(BASE, BLOCK, 0);
	enter_at(BASE, 2 * BLOCK + 1);
	ends_with(BASE, 3 * BLOCK, BLOCK);
	enter_at(BASE, MIB);
	enter_at(BASE + MIB, MIB);
	ends_with(BASE + MIB, 0, 0);
	ends_with(BASE, BLOCK, BLOCK);
	enter_at(BASE + MIB, MIB);
	ends_with(BASE + MIB, BLOCK, BLOCK);
	/* Inside two, which no driver was seen to do. */
	enter_at(BASE + MIB, BLOCK);
	ends_with(BASE + MIB, 2 * BLOCK, 2 * BLOCK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(what_is_held_is_the_blocks_touched),
		fresh_test(blocks_are_shared),
		fresh_test(no_more_is_entered_than_is_allowed),
		fresh_test(stale_addresses_are_replaced),
		fresh_test(what_is_put_back_is_held),
		fresh_test(a_block_lives_until_the_free_is_over),
		fresh_test(managed_memory_is_not_in_the_drivers_figure),
		fresh_test(devices_are_apart),
		fresh_test(a_context_takes_its_own_along),
		fresh_test(a_context_takes_what_is_being_freed_along),
		fresh_test(memory_tracked_elsewhere_is_added),
		fresh_test(a_child_has_nothing),
		fresh_test(blocks_are_shared_by_threads),
		fresh_test(what_is_not_filled_may_be_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
