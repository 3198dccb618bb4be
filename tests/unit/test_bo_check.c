/*
 * That what must be true is looked for: each way to break it is found, and no other.
 */
#include "core/bo_check.h"

#include "check.h"
#include "core/bo_bulk.h"
#include "core/bo_round.h"
#include "fake_owner.h"

#define MIB(n) (UINT64_C(n) << 20)

static struct owned a, b, c;
static struct bo_bulk bulk;
static struct bo_ticket *nobody;

/* What is found while *field holds another value. */
#define assert_found(field, value, text)                               \
	do {                                                           \
		__typeof__(field) assert_found_before = (field);       \
		(field) = (value);                                     \
		assert_says(wrong(&owner->device), text);              \
		(field) = assert_found_before;                         \
		assert_string_equal(wrong(&owner->device), "nothing"); \
	} while (0)

static const char *wrong(const struct bo_device *device)
{
	const char *found = bo_check(device);

	return found ? found : "nothing";
}

static void what_is_broken_is_found(void **state)
{
	struct owner *owner = *state;
	struct bo_device *device = &owner->device;
	struct bo_ctx ctx = { .ticket = NULL };
	struct bo_round round;

	bo_bulk_init(&bulk, device);
	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	owner_make_in(owner, &b, MIB(2), BO_VRAM);
	owner_make_in(owner, &c, MIB(2), BO_VRAM);
	bo_bulk_set(&bulk, &a.bo);
	bo_bulk_set(&bulk, &b.bo);
	bo_bulk_set(&bulk, &c.bo);
	assert_string_equal(wrong(device), "nothing");
	assert_found(device->managers[BO_VRAM].used_bytes, MIB(4), "is not what the objects have");
	assert_found(device->managers[BO_GTT].pending_bytes, 1, "is not what the objects have");
	bo_round_begin(&round, device, &ctx);
	TAILQ_INSERT_TAIL(&device->takers, &round, in_takers);
	assert_found(round.taken_bytes[BO_GTT], 1, "has taken what is not pending");
	TAILQ_REMOVE(&device->takers, &round, in_takers);
	bo_round_end(&round);
	assert_found(a.bo.memory.bytes, MIB(4), "is not what the objects have");
	assert_found(a.bo.memory.bytes, MIB(1), "too little memory");
	assert_found(a.bo.list, &device->pinned, "does not know of");
	assert_found(a.bo.device, NULL, "does not know of");
	assert_found(a.bo.pins, 1, "does not belong");
	assert_found(a.bo.is_deleted, true, "does not belong");
	assert_found(a.bo.place, BO_NONE, "does not belong");
	assert_found(a.bo.place, BO_PLACES, "there is not");
	assert_found(a.bo.is_lost, true, "lost");
	assert_found(a.bo.holder, (struct bo_ticket *)&nobody, "not reserved");
	assert_found(a.bo.bulk, NULL, "another run");
	assert_found(a.bo.run, NULL, "another run");
	assert_found(a.bo.priority, 1, "another run");
	assert_found(bulk.runs[BO_VRAM][0].first, &b.bo, "stand together");
	assert_found(bulk.runs[BO_VRAM][0].last, &b.bo, "stand together");
	assert_found(b.bo.in_list.tqe_prev, &c.bo.in_list.tqe_next, "torn");
	bo_bulk_set(NULL, &c.bo);
	assert_found(c.bo.priority, 2, "another place or priority");
	assert_found(c.bo.place, BO_GTT, "another place or priority");
	assert_found(c.bo.run, &bulk.runs[BO_VRAM][0], "stand together");
	bo_put(&a.bo);
	bo_put(&b.bo);
	bo_put(&c.bo);
}

static void each_list_is_looked_at(void **state)
{
	struct owner *owner = *state;
	struct bo_device *device = &owner->device;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	owner_make_in(owner, &b, MIB(2), BO_GTT);
	owner_make(owner, &c, MIB(2));
	bo_pin(&a.bo);
	bo_add_fence(&b.bo, 1);
	bo_put(&b.bo);
	assert_found(a.bo.pins, 0, "does not belong");
	assert_found(device->pinned.tqh_last, &c.bo.in_list.tqe_next, "another end");
	assert_found(b.bo.is_deleted, false, "does not belong");
	assert_found(b.bo.bulk, &bulk, "deleted object is in a bulk");
	assert_found(c.bo.place, BO_SYSTEM, "does not belong");
	assert_found(c.bo.memory.handle, 1, "nowhere has memory");
	bo_put(&a.bo);
	owner_finish(owner, 1);
	assert_false(bo_reap(device));
	bo_put(&c.bo);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_broken_is_found),
		TEST(each_list_is_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
