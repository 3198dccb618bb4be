/* What monitors read of a slot. */
#include "shm/mirror.h"

#include "check.h"
#include "scratch.h"
#include "tenant.h"

static struct region region;

static int setup(void **state)
{
	if (scratch_make(state) < 0)
		return -1;
	tenant_open(&region, scratch_path("region"), "1g");
	return 0;
}

static int teardown(void **state)
{
	region_close(&region);
	return scratch_remove(state);
}

static struct hami_slot *shown(unsigned slot)
{
	return &region.hami->procs[slot];
}

static void bytes_by_kind(void **state)
{
	const struct mirror_held held = { 10, 20, 30 };

	(void)state;
	mirror_show(&region, 3, 1, &held, true);
	assert_int_equal(shown(3)->used[1].context_bytes, 10);
	assert_int_equal(shown(3)->used[1].module_bytes, 20);
	assert_int_equal(shown(3)->used[1].data_bytes, 30);
	assert_int_equal(shown(3)->used[1].total_bytes, 60);
	assert_int_equal(shown(3)->used[0].total_bytes, 0);
	assert_int_equal(shown(3)->seqlock % 2, 0);
	assert_int_equal(region.own->slots[3].used_bytes[1], 60);
}

/* Of devices that the layout has no room for Ration's own words alone. */
static void devices_past_the_16th(void **state)
{
	const struct mirror_held held = { 10, 20, 30 };
	struct hami_slot before = *shown(3);

	(void)state;
	mirror_show(&region, 3, HAMI_DEVICES, &held, true);
	mirror_show_busy(&region, 3, HAMI_DEVICES, 50);
	assert_memory_equal(&before, shown(3), sizeof(before));
	assert_int_equal(region.own->slots[3].used_bytes[HAMI_DEVICES], 60);
}

/* Some monitors add up all slots, whatever their status. */
static void use_of_a_free_slot(void **state)
{
	(void)state;
	shown(3)->status = HAMI_RUNNING;
	mirror_show_busy(&region, 3, 2, 50);
	assert_int_equal(shown(3)->util[2].sm_pct, 50);
	shown(3)->status = HAMI_FREE;
	mirror_show_busy(&region, 3, 2, 70);
	assert_int_equal(shown(3)->util[2].sm_pct, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_by_kind, setup, teardown),
		cmocka_unit_test_setup_teardown(devices_past_the_16th, setup, teardown),
		cmocka_unit_test_setup_teardown(use_of_a_free_slot, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
