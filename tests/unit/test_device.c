#include "core/device.h"

#include "member.h"

static const struct device_info *infos(int first, int count)
{
	static struct device_info list[64];

	for (int i = 0; i < count; i++) {
		snprintf(list[i].uuid, sizeof(list[i].uuid), "%s", member_uuid(first + i));
		list[i].physical_bytes = MIB_BYTES(1024 * (unsigned)(i + 1));
	}
	return list;
}

static void ordinals_are_bound_by_uuid(void)
{
	struct member m;
	struct dev dev = { 77 };

	member_join(&m, scratch_path("region"), "1g", 0, 0);
	CHECK_EQ(device_ordinals(), 0);
	CHECK(!device_by_ordinal((struct cuda_ord){ 0 }, &dev));
	/* NVML shows four in its order; CUDA two of them, in another. */
	device_enter(&m.region, infos(0, 4), 4, NULL, 0);
	CHECK_EQ(region_device_count(m.region.own), 4);
	struct device_info visible[2] = { infos(3, 1)[0], infos(1, 1)[0] };
	CHECK_EQ(device_bind(&m.region, visible, 2), 0);
	CHECK_EQ(region_device_count(m.region.own), 4);
	CHECK_EQ(device_ordinals(), 2);
	CHECK(device_by_ordinal((struct cuda_ord){ 0 }, &dev));
	CHECK_EQ(dev.v, 3);
	CHECK(device_by_ordinal((struct cuda_ord){ 1 }, &dev));
	CHECK_EQ(dev.v, 1);
	CHECK(!device_by_ordinal((struct cuda_ord){ 2 }, &dev));
	CHECK(!device_by_ordinal((struct cuda_ord){ -1 }, &dev));
	CHECK_EQ(dev.v, 1);
}

static void new_devices_get_their_limit(void)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1:3g,2g", 0, 0);
	device_enter(&m.region, infos(0, 2), 2, NULL, 0);
	CHECK_EQ(region_limit(m.region.hami, m.region.own, 0), MIB_BYTES(2048));
	CHECK_EQ(region_limit(m.region.hami, m.region.own, 1), MIB_BYTES(3072));
	CHECK_EQ(m.region.own->devices[1].physical_bytes, MIB_BYTES(2048));
	/* A second time, with what was not known at first. */
	device_enter(&m.region, infos(0, 2), 2, NULL, 0);
	CHECK_EQ(region_device_count(m.region.own), 2);
}

static void a_full_table_is_an_error(void)
{
	struct member m;
	struct dev dev = { 0 };

	member_join(&m, scratch_path("region"), NULL, 0, 0);
	/* Entering what there is must not fail: a process may use the few it can see. */
	device_enter(&m.region, infos(0, 40), 40, NULL, 0);
	CHECK_EQ(region_device_count(m.region.own), RATION_DEVICES);
	CHECK_EQ(device_bind(&m.region, infos(0, 32), 32), 0);
	CHECK(device_by_ordinal((struct cuda_ord){ 31 }, &dev));
	CHECK_EQ(dev.v, 31);
	CHECK((int)device_bind(&m.region, infos(40, 1), 1) == -ENOSPC);
}

static int check_spec(const char *spec, struct limits_error *err)
{
	struct member m;

	member_join(&m, scratch_path("region"), spec, 0, 2);
	return device_check_spec(&m.region, LIMITS_MEM, err);
}

static void good_spec(void)
{
	struct limits_error err;

	CHECK_EQ(check_spec("1:1g,GPU-00000000:2g,5g", &err), 0);
}

static void no_spec(void)
{
	struct limits_error err;

	CHECK_EQ(check_spec("", &err), 0);
}

static void spec_of_an_index_that_is_not_there(void)
{
	struct limits_error err;

	CHECK(check_spec("0:1g,2:1g", &err) == -ENODEV);
	CHECK(strstr(err.text, "2 names no device here"));
	CHECK(strstr(err.text, "there are 2"));
	CHECK(strstr(err.text, member_uuid(0)));
}

static void spec_of_a_uuid_that_is_not_there(void)
{
	struct limits_error err;

	CHECK(check_spec("GPU-0000000f:1g", &err) == -ENODEV);
	CHECK(strstr(err.text, "GPU-0000000f names no device"));
}

static void spec_that_is_none(void)
{
	struct limits_error err;

	CHECK(check_spec("0:4x", &err) == -EINVAL);
	CHECK(strstr(err.text, "4x"));
}

/* A device that only a limit of GPU time names. */
static void spec_of_gpu_time(void)
{
	struct region_setup setup = { .mem_spec = "0:1g", .sm_spec = "1:30,2:50" };
	struct region_error error;
	struct limits_error err;
	struct region region;

	CHECK(region_open(scratch_path("region"), &setup, &region, &error) == 0);
	device_enter(&region, infos(0, 2), 2, NULL, 0);
	CHECK_EQ(device_check_spec(&region, LIMITS_MEM, &err), 0);
	CHECK(device_check_spec(&region, LIMITS_SM, &err) == -ENODEV);
	CHECK(strstr(err.text, "2 names no device here"));
}

static void a_child_has_no_ordinals(void)
{
	struct member m;
	struct dev dev;
	int status;
	pid_t pid;

	member_join(&m, scratch_path("region"), NULL, 0, 2);
	CHECK_EQ(device_bind(&m.region, infos(0, 2), 2), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(device_ordinals() || device_by_ordinal((struct cuda_ord){ 0 }, &dev));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(device_ordinals(), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(ordinals_are_bound_by_uuid),
		fresh_test(new_devices_get_their_limit),
		fresh_test(a_full_table_is_an_error),
		fresh_test(good_spec),
		fresh_test(no_spec),
		fresh_test(spec_of_an_index_that_is_not_there),
		fresh_test(spec_of_a_uuid_that_is_not_there),
		fresh_test(spec_that_is_none),
		fresh_test(spec_of_gpu_time),
		fresh_test(a_child_has_no_ordinals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
