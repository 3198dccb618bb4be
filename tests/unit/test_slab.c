#include "core/slab.h"

#include "check.h"

#include <errno.h>
#include <malloc.h>

#define KIB(n) (UINT64_C(n) << 10)
#define MIB(n) (UINT64_C(n) << 20)
#define BASE (UINT64_C(1) << 40)

static struct slab *slab;
static int owner;

static int begin(void **state)
{
	(void)state;
	slab = slab_open();
	return slab ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	slab_close(slab);
	return 0;
}

static struct slab_piece grow(uint64_t bytes)
{
	struct slab_piece extent;

	assert_ok(slab_grow_begin(slab, bytes, &extent));
	slab_grow_commit(slab, &extent);
	return extent;
}

static uint64_t alloc(uint64_t bytes)
{
	uint64_t addr = 0;

	assert_ok(slab_alloc(slab, bytes, &addr));
	assert_int_equal(addr % SLAB_ALIGN_BYTES, 0);
	return addr;
}

static void what_belongs_into_a_slab(void **state)
{
	uint64_t addr;

	(void)state;
	assert_false(slab_takes(0));
	assert_true(slab_takes(1));
	assert_true(slab_takes(MIB(1)));
	assert_true(slab_takes(KIB(1700)));
	/* Blocks of its own waste an eighth of it at most: it has them. */
	assert_false(slab_takes(KIB(1900)));
	assert_false(slab_takes(MIB(2)));
	assert_true(slab_takes(MIB(2) + 1));
	assert_false(slab_takes(MIB(20)));
	assert_true(slab_takes(MIB(14) + KIB(200)));
	for (uint64_t bytes = MIB(16); bytes < MIB(40); bytes += KIB(100) + 1)
		assert_false(slab_takes(bytes));
	assert_false(slab_takes(UINT64_MAX));
	for (uint64_t bytes = 1; bytes < MIB(40); bytes += 4321) {
		uint64_t own = (bytes + SLAB_BLOCK_BYTES - 1) / SLAB_BLOCK_BYTES * SLAB_BLOCK_BYTES;

		assert_int_equal(slab_takes(bytes), own - bytes > bytes / 8);
	}
	assert_int_equal(slab_alloc(slab, 0, &addr), -EINVAL);
	assert_int_equal(slab_alloc(slab, MIB(2), &addr), -EINVAL);
	assert_int_equal(slab_alloc(slab, UINT64_MAX, &addr), -EINVAL);
}

static void memory_comes_in_extents(void **state)
{
	struct slab_piece first, second;
	uint64_t addr;

	(void)state;
	assert_int_equal(slab_alloc(slab, 512, &addr), -ENOSPC);
	assert_int_equal(slab_grow_begin(slab, 512, &first), -ENOSPC);
	assert_int_equal(slab_add(slab, BASE, 0, NULL), -EINVAL);
	assert_int_equal(slab_add(slab, BASE, MIB(130), NULL), -EINVAL);
	assert_int_equal(slab_add(slab, BASE, MIB(3), NULL), -EINVAL);
	assert_int_equal(slab_add(slab, BASE + MIB(1), MIB(2), NULL), -EINVAL);
	assert_ok(slab_add(slab, BASE, SLAB_REGION_BYTES, &owner));
	assert_int_equal(slab_add(slab, BASE + MIB(126), MIB(4), NULL), -EINVAL);
	/* Addresses alone are no room. */
	assert_int_equal(slab_alloc(slab, 512, &addr), -ENOSPC);
	assert_ok(slab_grow_begin(slab, 512, &first));
	assert_int_equal(slab_alloc(slab, 512, &addr), -ENOSPC);
	/* Two that grow at once are not told the same place. */
	assert_ok(slab_grow_begin(slab, MIB(3), &second));
	assert_int_equal(first.addr, BASE);
	assert_int_equal(first.bytes, MIB(2));
	assert_ptr_equal(first.region_owner, &owner);
	assert_int_equal(second.addr, BASE + MIB(2));
	assert_int_equal(second.bytes, MIB(4));
	assert_int_equal(second.region_addr, BASE);
	assert_int_equal(second.region_bytes, SLAB_REGION_BYTES);
	slab_grow_commit(slab, &second);
	assert_int_equal(slab_stats(slab).held, MIB(4));
	assert_int_equal(alloc(MIB(3)), BASE + MIB(2));
	assert_false(slab_grow_cancel(slab, &first));
	assert_int_equal(slab_alloc(slab, KIB(1300), &addr), -ENOSPC);
	/* A run goes on from one extent into the next. */
	assert_int_equal(grow(1).addr, BASE);
	assert_int_equal(grow(1).addr, BASE + MIB(6));
	assert_int_equal(alloc(MIB(2) + KIB(512)), BASE + MIB(5));
	assert_int_equal(slab_stats(slab).empty, MIB(2));
}

static void what_is_freed_wrongly(void **state)
{
	uint64_t one, two, before;

	(void)state;
	assert_ok(slab_add(slab, BASE, MIB(2), NULL));
	grow(1);
	one = alloc(KIB(10) + 1);
	two = alloc(1);
	assert_int_equal(two, one + KIB(10) + 512);
	before = slab_stats(slab).taken;
	assert_int_equal(before, KIB(10) + 1024);
	/* Not ours; inside of ours; nothing there; beside an address. */
	assert_int_equal(slab_free(slab, BASE - 1, 0), -ENOENT);
	assert_int_equal(slab_free(slab, BASE + MIB(2), 0), -ENOENT);
	assert_int_equal(slab_free(slab, one + 512, 0), -EINVAL);
	assert_int_equal(slab_free(slab, one + 1, 0), -EINVAL);
	assert_int_equal(slab_free(slab, two + 512, 0), -EINVAL);
	assert_int_equal(slab_free(slab, BASE + MIB(2) - 512, 7), -EINVAL);
	assert_int_equal(slab_stats(slab).taken, before);
	/* Twice, in quarantine and after it. */
	assert_ok(slab_free(slab, one, 1));
	assert_int_equal(slab_free(slab, one, 1), -EINVAL);
	assert_int_equal(slab_free(slab, one, 0), -EINVAL);
	assert_false(slab_poll(slab, 1));
	assert_int_equal(slab_free(slab, one, 2), -EINVAL);
	assert_ok(slab_free(slab, two, 0));
	assert_int_equal(slab_free(slab, two, 0), -EINVAL);
	assert_int_equal(slab_stats(slab).taken, 0);
	assert_int_equal(slab_stats(slab).quarantine, 0);
}

static void an_address_belongs_to(void **state)
{
	struct slab_piece piece = { .addr = 1 };
	uint64_t one, two;

	(void)state;
	assert_ok(slab_add(slab, BASE, MIB(8), &owner));
	assert_int_equal(slab_find(slab, BASE, &piece), -ENOENT);
	grow(MIB(4) + KIB(100));
	one = alloc(MIB(4) + KIB(100));
	two = alloc(700);
	assert_ok(slab_find(slab, one + MIB(4) + KIB(100) - 1, &piece));
	assert_int_equal(piece.addr, one);
	assert_int_equal(piece.bytes, MIB(4) + KIB(100));
	assert_int_equal(piece.region_addr, BASE);
	assert_int_equal(piece.region_bytes, MIB(8));
	assert_ptr_equal(piece.region_owner, &owner);
	assert_ok(slab_find(slab, two + 1023, &piece));
	assert_int_equal(piece.addr, two);
	assert_int_equal(piece.bytes, 1024);
	assert_int_equal(slab_find(slab, two + 1024, &piece), -ENOENT);
	assert_int_equal(slab_find(slab, BASE + MIB(7), &piece), -ENOENT);
	assert_int_equal(slab_find(slab, BASE + MIB(8), &piece), -ENOENT);
	assert_ok(slab_free(slab, one, 1));
	assert_int_equal(slab_find(slab, one + 5, &piece), -ENOENT);
	assert_ok(slab_find(slab, two, &piece));
}

/* What was freed last is had again at once by who asks for just as much; to all it is free. */
static void what_was_freed_last_is_kept_for_the_like(void **state)
{
	uint64_t first, second;
	struct slab_piece piece;

	(void)state;
	assert_ok(slab_add(slab, BASE, SLAB_REGION_BYTES, &owner));
	grow(KIB(1000));
	first = alloc(KIB(1000));
	second = alloc(KIB(900));
	assert_ok(slab_free(slab, first, 0));
	assert_ok(slab_free(slab, second, 0));
	assert_int_equal(slab_free(slab, second, 0), -EINVAL);
	assert_int_equal(slab_find(slab, first, &piece), -ENOENT);
	assert_int_equal(alloc(KIB(900)), second);
	assert_ok(slab_find(slab, second + 1, &piece));
	assert_int_equal(piece.addr, second);
	assert_ok(slab_free(slab, second, 0));
	/* Nobody is told that there is no room while there is some. */
	assert_int_equal(alloc(KIB(1700)), first);
	assert_ok(slab_free(slab, first, 0));
	assert_int_equal(slab_stats(slab).taken, 0);
	assert_int_equal(slab_stats(slab).empty, MIB(2));
	first = alloc(KIB(4));
	assert_ok(slab_free(slab, first, 0));
	assert_true(slab_shrink_begin(slab, 0, &piece));
	assert_int_equal(piece.bytes, MIB(2));
	assert_true(slab_shrink_end(slab, &piece));
}

static void freed_memory_waits_for_its_fence(void **state)
{
	uint64_t one, two, addr;
	struct slab_stats stats;

	(void)state;
	assert_ok(slab_add(slab, BASE, MIB(2), NULL));
	grow(1);
	one = alloc(MIB(1));
	two = alloc(KIB(1000));
	assert_ok(slab_free(slab, one, 10));
	assert_ok(slab_free(slab, two, 12));
	stats = slab_stats(slab);
	assert_int_equal(stats.quarantine, MIB(1) + KIB(1000));
	assert_int_equal(stats.taken, 0);
	assert_int_equal(stats.empty, 0);
	assert_int_equal(stats.first_fence, 10);
	assert_int_equal(stats.last_fence, 12);
	assert_false(slab_poll(slab, 9));
	assert_int_equal(slab_alloc(slab, KIB(100), &addr), -ENOSPC);
	assert_false(slab_poll(slab, 11));
	assert_int_equal(slab_stats(slab).first_fence, 12);
	assert_int_equal(alloc(MIB(1)), one);
	assert_int_equal(slab_alloc(slab, KIB(1000), &addr), -ENOSPC);
	assert_false(slab_poll(slab, 12));
	assert_int_equal(slab_stats(slab).first_fence, 0);
	assert_int_equal(alloc(KIB(1000)), two);
	/* Nothing to wait for. */
	assert_ok(slab_free(slab, two, 0));
	assert_int_equal(alloc(KIB(1000)), two);
}

/* Much that is due is released in several calls; each says whether there is more. */
static void a_poll_is_bounded(void **state)
{
	enum { PIECES = 4096 };
	uint64_t before, calls = 0;
	bool is_more = true;

	(void)state;
	assert_ok(slab_add(slab, BASE, MIB(2), NULL));
	grow(1);
	for (uint64_t i = 0; i < PIECES; i++)
		assert_int_equal(alloc(512), BASE + i * 512);
	for (uint64_t i = 0; i < PIECES; i++)
		assert_ok(slab_free(slab, BASE + i * 512, 1));
	for (; is_more; calls++) {
		before = slab_stats(slab).quarantine;
		assert_true(before > 0);
		is_more = slab_poll(slab, 1);
		assert_true(before - slab_stats(slab).quarantine <= 512 * 512);
	}
	assert_true(calls >= PIECES / 512);
	assert_int_equal(slab_stats(slab).quarantine, 0);
	assert_int_equal(slab_stats(slab).empty, MIB(2));
}

static void what_is_empty_goes_back(void **state)
{
	struct slab_piece extent, other;
	uint64_t one, two;

	(void)state;
	assert_ok(slab_add(slab, BASE, MIB(4), &owner));
	grow(1);
	grow(1);
	one = alloc(MIB(1));
	two = alloc(KIB(1700));
	assert_int_equal(two, one + MIB(1));
	assert_false(slab_shrink_begin(slab, 0, &extent));
	/* The second extent has the end of the second piece. */
	assert_ok(slab_free(slab, one, 0));
	assert_false(slab_shrink_begin(slab, 0, &extent));
	assert_ok(slab_free(slab, two, 3));
	assert_false(slab_shrink_begin(slab, 0, &extent));
	assert_false(slab_poll(slab, 3));
	assert_int_equal(slab_stats(slab).empty, MIB(4));
	assert_false(slab_shrink_begin(slab, MIB(4), &extent));
	assert_true(slab_shrink_begin(slab, MIB(2), &extent));
	assert_int_equal(extent.addr, BASE + MIB(2));
	assert_int_equal(extent.bytes, MIB(2));
	assert_ptr_equal(extent.region_owner, &owner);
	assert_int_equal(slab_stats(slab).held, MIB(2));
	assert_false(slab_shrink_begin(slab, MIB(2), &other));
	/*
	 * Its memory is being taken away: nobody gives it other memory, and nothing is served from
	 * it.
	 */
	assert_int_equal(slab_grow_begin(slab, 1, &other), -ENOSPC);
	assert_int_equal(slab_alloc(slab, MIB(2) + KIB(500), &one), -ENOSPC);
	slab_shrink_cancel(slab, &extent);
	one = alloc(MIB(2) + KIB(500));
	assert_ok(slab_free(slab, one, 0));
	assert_true(slab_shrink_begin(slab, 0, &extent));
	assert_true(slab_shrink_begin(slab, 0, &other));
	assert_false(slab_shrink_begin(slab, 0, &(struct slab_piece){ 0 }));
	assert_false(slab_shrink_end(slab, &extent));
	assert_true(slab_shrink_end(slab, &other));
	assert_int_equal(other.region_addr, BASE);
	assert_int_equal(other.region_bytes, MIB(4));
	/* The region is out. */
	assert_int_equal(slab_free(slab, BASE, 0), -ENOENT);
	assert_int_equal(slab_grow_begin(slab, 1, &extent), -ENOSPC);
	assert_int_equal(slab_stats(slab).held, 0);
	assert_ok(slab_add(slab, BASE, MIB(4), NULL));
	assert_ok(slab_grow_begin(slab, 1, &extent));
	/* And again, where it got no memory. */
	assert_true(slab_grow_cancel(slab, &extent));
	assert_int_equal(slab_grow_begin(slab, 1, &extent), -ENOSPC);
}

/* The place that a free would need in the quarantine goes with the piece. */
static void nothing_is_left_behind(void **state)
{
	size_t before;

	(void)state;
	assert_ok(slab_add(slab, BASE, MIB(2), NULL));
	grow(1);
	assert_ok(slab_free(slab, alloc(1), 0));
	before = mallinfo2().uordblks;
	for (int i = 0; i < 100000; i++) {
		assert_ok(slab_free(slab, alloc(1), i % 2 ? 1 : 0));
		assert_false(slab_poll(slab, 1));
	}
	assert_true(mallinfo2().uordblks < before + KIB(200));
}

/* What is not used yet of the newest extent stays a small part of all. */
static void extents_grow_with_the_slab(void **state)
{
	struct slab_piece extent;
	uint64_t next = BASE, largest = 0;

	(void)state;
	while (largest < SLAB_EXTENT_BYTES) {
		uint64_t held = slab_stats(slab).held;

		if (slab_grow_begin(slab, 4096, &extent) < 0) {
			assert_ok(slab_add(slab, next, SLAB_REGION_BYTES, NULL));
			next += SLAB_REGION_BYTES;
			assert_ok(slab_grow_begin(slab, 4096, &extent));
		}
		assert_true(extent.bytes <= SLAB_EXTENT_BYTES);
		assert_true(extent.bytes == SLAB_BLOCK_BYTES || extent.bytes <= held / 200);
		largest = extent.bytes > largest ? extent.bytes : largest;
		slab_grow_commit(slab, &extent);
		assert_int_equal(slab_stats(slab).held, held + extent.bytes);
		assert_true(held < SLAB_EXTENT_BYTES * 300);
	}
	assert_true(slab_stats(slab).held > SLAB_EXTENT_BYTES * 200);
}

/* What comes and goes between two looks is needed; what was empty all the time is not. */
static void what_was_needed_is_known(void **state)
{
	struct slab_piece extent;
	uint64_t addr;

	(void)state;
	assert_ok(slab_add(slab, BASE, MIB(16), NULL));
	for (int i = 0; i < 4; i++)
		grow(1);
	slab_round(slab);
	assert_int_equal(slab_round(slab), 0);
	addr = alloc(MIB(3));
	assert_int_equal(slab_stats(slab).empty, MIB(4));
	assert_int_equal(slab_round(slab), 0);
	assert_ok(slab_free(slab, addr, 7));
	assert_int_equal(slab_round(slab), 0);
	slab_poll(slab, 7);
	assert_int_equal(slab_round(slab), MIB(4));
	assert_int_equal(slab_round(slab), 0);
	assert_ok(slab_free(slab, alloc(100), 0));
	assert_int_equal(slab_round(slab), MIB(2));
	/* Those that are given back are not among them. */
	while (slab_shrink_begin(slab, MIB(4), &extent))
		slab_shrink_end(slab, &extent);
	assert_int_equal(slab_round(slab), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_belongs_into_a_slab, begin, end),
		cmocka_unit_test_setup_teardown(memory_comes_in_extents, begin, end),
		cmocka_unit_test_setup_teardown(what_is_freed_wrongly, begin, end),
		cmocka_unit_test_setup_teardown(an_address_belongs_to, begin, end),
		cmocka_unit_test_setup_teardown(what_was_freed_last_is_kept_for_the_like, begin,
						end),
		cmocka_unit_test_setup_teardown(freed_memory_waits_for_its_fence, begin, end),
		cmocka_unit_test_setup_teardown(a_poll_is_bounded, begin, end),
		cmocka_unit_test_setup_teardown(what_is_empty_goes_back, begin, end),
		cmocka_unit_test_setup_teardown(nothing_is_left_behind, begin, end),
		cmocka_unit_test_setup_teardown(extents_grow_with_the_slab, begin, end),
		cmocka_unit_test_setup_teardown(what_was_needed_is_known, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
