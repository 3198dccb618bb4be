/*
 * The region's table of devices and their limits.
 */
#include "base/units.h"
#include "judge.h"
#include "tenant.h"

#define UUID(n) "GPU-0000000" #n "-2222-3333-4444-555555555555"

static const struct region_setup plain = { .priority = 1 };

static void open_settled(struct region *r, const struct region_setup *setup)
{
	struct region_error err;

	if (region_open(scratch_path("region"), setup, r, &err) < 0)
		fail_msg("%s", err.text);
	region_settle(r);
}

static void test_devices(void **state)
{
	struct region_setup setup = { .mem_spec = "9g,1:1g,GPU-00000002:2g",
				      .mem_source = "x",
				      .priority = 1 };
	struct region r;

	(void)state;
	open_settled(&r, &setup);
	assert_int_equal(region_find_device(r.own, UUID(0)), -ENODEV);
	assert_int_equal(region_add_device(&r, UUID(0), 0), 0);
	assert_int_equal(region_add_device(&r, UUID(1), 8 * GIB), 1);
	assert_int_equal(region_add_device(&r, UUID(2), 8 * GIB), 2);
	assert_int_equal(region_add_device(&r, UUID(1), 8 * GIB), 1);
	assert_int_equal(region_add_device(&r, UUID(0), 7 * GIB), 0);
	assert_int_equal(region_add_device(&r, UUID(0), 0), 0);
	assert_int_equal(r.own->devices[0].physical_bytes, 7 * GIB);
	assert_int_equal(region_device_count(r.own), 3);
	assert_int_equal(r.hami->device_num, 3);
	assert_string_equal(r.hami->uuids[2], UUID(2));
	assert_int_equal(region_find_device(r.own, UUID(2)), 2);
	assert_int_equal(region_limit(r.hami, r.own, 0), 9 * GIB);
	assert_int_equal(region_limit(r.hami, r.own, 1), 1 * GIB);
	assert_int_equal(region_limit(r.hami, r.own, 2), 2 * GIB);
	/* A limit that was changed in use survives the next process. */
	region_set_limit(r.hami, r.own, 1, 5 * GIB);
	assert_int_equal(region_add_device(&r, UUID(1), 8 * GIB), 1);
	assert_int_equal(region_limit(r.hami, r.own, 1), 5 * GIB);
	/* The monitors' setter writes the same word. */
	r.hami->limit_bytes[1] = 6 * GIB;
	assert_int_equal(region_limit(r.hami, r.own, 1), 6 * GIB);
	region_close(&r);
	assert_judged(scratch_path("region"));
}

static void test_more_devices_than_hami_has(void **state)
{
	struct region_setup setup = { .mem_spec = "3g", .mem_source = "x", .priority = 1 };
	struct region r;
	char uuid[64];

	(void)state;
	open_settled(&r, &setup);
	for (int i = 0; i < RATION_DEVICES; i++) {
		snprintf(uuid, sizeof(uuid), "GPU-%08d-0000-0000-0000-000000000000", i);
		assert_int_equal(region_add_device(&r, uuid, GIB), i);
		assert_int_equal(region_limit(r.hami, r.own, i), 3 * GIB);
	}
	assert_int_equal(region_add_device(&r, UUID(9), GIB), -ENOSPC);
	assert_int_equal(region_add_device(&r, uuid, GIB), RATION_DEVICES - 1);
	assert_int_equal(r.hami->device_num, HAMI_DEVICES);
	region_set_limit(r.hami, r.own, 20, 4 * GIB);
	assert_int_equal(region_limit(r.hami, r.own, 20), 4 * GIB);
	assert_int_equal(region_limit(r.hami, r.own, 4), 3 * GIB);
	memset(uuid, 'x', 48);
	uuid[48] = '\0';
	assert_int_equal(region_add_device(&r, uuid, GIB), -ENOSPC);
	region_close(&r);
	assert_judged(scratch_path("region"));
}

/* A process killed between the two counts leaves them unequal; the next one puts that right. */
static void test_device_counts_agree_again(void **state)
{
	struct region r;

	(void)state;
	open_settled(&r, &plain);
	assert_int_equal(region_add_device(&r, UUID(0), GIB), 0);
	assert_int_equal(region_add_device(&r, UUID(1), GIB), 1);
	r.hami->device_num = 1;
	assert_int_equal(region_add_device(&r, UUID(1), GIB), 1);
	assert_int_equal(r.hami->device_num, 2);
	r.hami->device_num = 1;
	assert_int_equal(region_add_device(&r, UUID(0), GIB), 0);
	assert_int_equal(r.hami->device_num, 2);
	region_close(&r);
}

static void test_counts_from_the_file_are_bounded(void **state)
{
	struct region r;

	(void)state;
	open_settled(&r, &plain);
	r.own->device_count = UINT32_MAX;
	assert_int_equal(region_device_count(r.own), RATION_DEVICES);
	assert_int_equal(region_find_device(r.own, UUID(0)), -ENODEV);
	assert_int_equal(region_add_device(&r, UUID(0), GIB), -ENOSPC);
	r.own->device_count = 33;
	assert_int_equal(region_device_count(r.own), RATION_DEVICES);
	r.hami->proc_num = -1;
	assert_int_equal(region_slot_bound(r.hami), 0);
	r.hami->proc_num = INT32_MIN;
	assert_int_equal(region_slot_bound(r.hami), 0);
	r.hami->proc_num = INT32_MAX;
	assert_int_equal(region_slot_bound(r.hami), HAMI_SLOTS);
	r.hami->proc_num = 7;
	assert_int_equal(region_slot_bound(r.hami), 7);
	region_close(&r);
}

static void test_limits_of_gpu_time(void **state)
{
	struct region_setup setup = { .sm_spec = "30,1:100,2:50", .sm_source = "x", .priority = 1 };
	struct region r;
	char uuid[64];

	(void)state;
	open_settled(&r, &setup);
	for (int d = 0; d < RATION_DEVICES; d++) {
		snprintf(uuid, sizeof(uuid), "GPU-%08d-0000-0000-0000-000000000000", d);
		assert_int_equal(region_add_device(&r, uuid, GIB), d);
		assert_int_equal(region_sm_limit(r.hami, r.own, d), d == 1 ? 100 :
								    d == 2 ? 50 :
									     30);
	}
	assert_int_equal(r.hami->sm_limit_pct[0], 30);
	assert_int_equal(r.hami->sm_limit_pct[1], 100);
	/*
	 * The monitors' setter writes the same words; what is above 100 is none, 0 is a cleared
	 * one.
	 */
	r.hami->sm_limit_pct[0] = 70;
	assert_int_equal(region_sm_limit(r.hami, r.own, 0), 70);
	r.hami->sm_limit_pct[0] = 101;
	assert_int_equal(region_sm_limit(r.hami, r.own, 0), LIMITS_SM_NONE_PCT);
	r.hami->sm_limit_pct[0] = UINT64_C(0x10000001e);
	assert_int_equal(region_sm_limit(r.hami, r.own, 0), LIMITS_SM_NONE_PCT);
	r.hami->sm_limit_pct[0] = 0;
	assert_int_equal(region_sm_limit(r.hami, r.own, 0), 0);
	region_set_sm_limit(r.hami, r.own, 20, 40);
	assert_int_equal(region_sm_limit(r.hami, r.own, 20), 40);
	assert_int_equal(region_sm_limit(r.hami, r.own, 4), 30);
	/* No limit is HAMi's 100, not a cleared word. */
	region_set_sm_limit(r.hami, r.own, 4, 0);
	assert_int_equal(r.hami->sm_limit_pct[4], 100);
	region_close(&r);
	assert_judged(scratch_path("region"));
}

static void test_when_limits_of_gpu_time_hold(void **state)
{
	static const struct {
		uint32_t policy;
		int on, off; /* while the monitor's switch is on and off */
	} cases[] = {
		{ SM_POLICY_DEFAULT, 1, 0 },
		{ SM_POLICY_FORCE, 1, 1 },
		{ SM_POLICY_DISABLE, 0, 0 },
		{ 77, 1, 1 },
	};
	struct region r;

	(void)state;
	open_settled(&r, &plain);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		r.own->sm_policy = cases[i].policy;
		r.hami->utilization_switch = 1;
		assert_int_equal(region_sm_holds(r.hami, r.own), cases[i].on);
		r.hami->utilization_switch = 0;
		assert_int_equal(region_sm_holds(r.hami, r.own), cases[i].off);
	}
	assert_int_equal(region_sm_policy(r.own), SM_POLICY_FORCE);
	region_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_devices),
		scratch_test(test_more_devices_than_hami_has),
		scratch_test(test_limits_of_gpu_time),
		scratch_test(test_when_limits_of_gpu_time_hold),
		scratch_test(test_device_counts_agree_again),
		scratch_test(test_counts_from_the_file_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
