/* Uses of a whole backing and of parts of it, by the objects that it has. */
#include "core/backing_use.h"

#include "core/charge.h"
#include "member.h"

#include <errno.h>

#define BASE UINT64_C(0x200000000000)
#define BYTES MIB_BYTES(150) /* 64, 64 and 22 */

static struct member member;
static struct backing_device device;
static struct backing *backing;
static bool is_full; /* the card */

static int alloc(void *owner, const struct bo *bo, enum bo_place place, struct bo_memory *out)
{
	(void)owner;
	if (place == BO_VRAM && is_full)
		return -ENOSPC;
	*out = (struct bo_memory){ 1, bo->bytes };
	return 0;
}

static void free_memory(void *owner, enum bo_place place, struct bo_memory memory)
{
	(void)owner, (void)place, (void)memory;
}

static void move(void *owner, struct bo_move *moves, unsigned count)
{
	(void)owner;
	for (unsigned i = 0; i < count; i++)
		moves[i].rc = 0;
}

static bool is_done(void *owner, uint64_t fence)
{
	(void)owner, (void)fence;
	return true;
}

static const struct bo_ops ops = {
	.alloc = alloc, .free = free_memory, .move = move, .is_done = is_done
};

static int no_figure(const char *uuid, uint64_t *out_bytes)
{
	(void)uuid, (void)out_bytes;
	return -ENOTSUP;
}
static const struct gpu_ops no_ops = { .process_bytes = no_figure };

static void start(void)
{
	struct backing_bounds bounds;

	member_join(&member, scratch_path("region"), "1g", RATION_FLAG_OVERSUBSCRIBE, 1);
	charge_init(&no_ops);
	bounds = (struct backing_bounds){ member.region.own, member.slot.index, true };
	backing_init(&device, dev0, &bounds, &ops, NULL);
	CHECK_EQ(backing_open(&device, BASE, BYTES, NULL, NULL, &backing), 0);
	CHECK_EQ(backing->count, 3);
}

static void use(uint64_t offset, uint64_t bytes, uint64_t far_bytes)
{
	struct backing_uses uses = { .weight = HEAT_USE };

	backing_use(backing, BASE + offset, bytes, &uses);
	CHECK_EQ(uses.far_bytes, far_bytes);
}

static void expect(uint32_t a, uint32_t b, uint32_t c)
{
	CHECK_EQ(backing_use_take(&backing->objects[0]), a);
	CHECK_EQ(backing_use_take(&backing->objects[1]), b);
	CHECK_EQ(backing_use_take(&backing->objects[2]), c);
}

static void a_use_of_all_is_one_of_each(void)
{
	start();
	use(0, BYTES, 0);
	/* What was asked for ends within the last block. */
	use(0, BYTES - MIB_BYTES(1), 0);
	expect(2 * HEAT_USE, 2 * HEAT_USE, 2 * HEAT_USE);
	expect(0, 0, 0);
	use(0, BYTES, 0);
	use(MIB_BYTES(32), MIB_BYTES(64), 0);
	use(MIB_BYTES(128), MIB_BYTES(22), 0);
	/* A few bytes count too. */
	use(MIB_BYTES(64), 8, 0);
	expect(HEAT_USE + HEAT_USE / 2, HEAT_USE + HEAT_USE / 2 + 1, 2 * HEAT_USE);
}

static void what_lies_far_is_said(void)
{
	start();
	backing_use_set_far(&backing->objects[1], true);
	backing_use_set_far(&backing->objects[1], true);
	backing_use_set_far(&backing->objects[2], true);
	use(0, BYTES, MIB_BYTES(86));
	use(MIB_BYTES(32), MIB_BYTES(64), MIB_BYTES(32));
	backing_use_set_far(&backing->objects[1], false);
	use(0, BYTES, MIB_BYTES(22));
	backing_use_set_far(&backing->objects[2], false);
	use(0, BYTES, 0);
	use(MIB_BYTES(64), MIB_BYTES(86), 0);
}

/* No round of the worker has to come before a launch is known to use it. */
static void what_was_placed_far_is_known(void)
{
	start();
	is_full = true;
	CHECK_EQ(backing_open(&device, BASE + BYTES, BYTES, NULL, NULL, &backing), 0);
	is_full = false;
	use(BYTES, BYTES, BYTES);
}

/* Counts go on beyond what they can hold. */
static void a_count_that_is_full_begins_anew(void)
{
	struct backing_uses uses = { .weight = UINT32_MAX - 5 };

	start();
	backing_use(backing, BASE, BYTES, &uses);
	expect(UINT32_MAX - 5, UINT32_MAX - 5, UINT32_MAX - 5);
	use(0, BYTES, 0);
	expect(HEAT_USE, HEAT_USE, HEAT_USE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(a_use_of_all_is_one_of_each),
		fresh_test(what_lies_far_is_said),
		fresh_test(what_was_placed_far_is_known),
		fresh_test(a_count_that_is_full_begins_anew),
	};

	return cmocka_run_group_tests_name("backing_use", tests, NULL, NULL);
}
