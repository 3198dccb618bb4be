#include "drv/gpu_cuda.h"

#include "drv/real.h"
#include "drv/sample_nvml.h"

#include "check.h"

#include <errno.h>

/* The driver: three devices, the context of the last one current. */
static struct {
	int count;
	CUresult count_res, uuid_res, uuid2_res, total_res, current_res;
	int active;
	const char *known; /* the only UUID that NVML knows */
} driver;

struct real real;

static CUresult get_count(int *out_count)
{
	*out_count = driver.count;
	return driver.count_res;
}

/* Handles are not always the ordinals. */
static CUresult get_device(CUdevice *out_dev, int ordinal)
{
	*out_dev = ordinal + 100;
	return ordinal < driver.count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static void fill_uuid(CUuuid *out, CUdevice dev, unsigned char form)
{
	for (int i = 0; i < 16; i++)
		out->bytes[i] = (char)(0x80 + i);
	out->bytes[0] = (char)(dev - 100);
	out->bytes[15] = (char)form;
}

static CUresult get_uuid(CUuuid *out, CUdevice dev)
{
	fill_uuid(out, dev, 0x01);
	return driver.uuid_res;
}

static CUresult get_uuid2(CUuuid *out, CUdevice dev)
{
	fill_uuid(out, dev, 0x02);
	return driver.uuid2_res;
}

static CUresult total_mem(size_t *out_bytes, CUdevice dev)
{
	if (driver.total_res == CUDA_SUCCESS)
		*out_bytes = (size_t)(dev - 99) << 30;
	return driver.total_res;
}

static CUresult ctx_device(CUdevice *out_dev)
{
	*out_dev = 2;
	return driver.current_res;
}

static CUresult ctx_current(CUcontext *out_ctx)
{
	*out_ctx = (CUcontext)(void *)&driver;
	return driver.current_res;
}

static CUresult primary_state(CUdevice dev, unsigned int *out_flags, int *out_active)
{
	*out_flags = 0;
	*out_active = driver.active;
	return dev == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

bool sample_nvml_knows(const char *uuid)
{
	return driver.known && strcmp(uuid, driver.known) == 0;
}

int sample_nvml_process_bytes(const char *uuid, uint64_t *out_bytes)
{
	*out_bytes = strlen(uuid);
	return 0;
}

static int start(void **state)
{
	(void)state;
	memset(&driver, 0, sizeof(driver));
	driver.count = 3;
	real = (struct real){ .cuDeviceGetCount = get_count,
			      .cuDeviceGet = get_device,
			      .cuDeviceGetUuid = get_uuid,
			      .cuDeviceGetUuid_v2 = get_uuid2,
			      .cuDeviceTotalMem_v2 = total_mem,
			      .cuCtxGetDevice = ctx_device,
			      .cuCtxGetCurrent = ctx_current,
			      .cuDevicePrimaryCtxGetState = primary_state };
	return 0;
}

static void test_devices_in_order(void **state)
{
	struct device_info found[4];

	(void)state;
	assert_int_equal(gpu_cuda_devices(found, 4), 3);
	assert_string_equal(found[0].uuid, "GPU-00818283-8485-8687-8889-8a8b8c8d8e02");
	assert_string_equal(found[2].uuid, "GPU-02818283-8485-8687-8889-8a8b8c8d8e02");
	assert_int_equal(found[0].physical_bytes, UINT64_C(1) << 30);
	assert_int_equal(found[2].physical_bytes, UINT64_C(3) << 30);
	assert_int_equal(gpu_cuda_devices(found, 2), 2);
	driver.count = 0;
	assert_int_equal(gpu_cuda_devices(found, 2), 0);
}

/* The second form names a MIG slice; older drivers have the first alone. */
static void test_the_older_form_of_a_uuid(void **state)
{
	struct device_info found[1];

	(void)state;
	driver.uuid2_res = CUDA_ERROR_NOT_SUPPORTED;
	assert_int_equal(gpu_cuda_devices(found, 1), 1);
	assert_string_equal(found[0].uuid, "GPU-00818283-8485-8687-8889-8a8b8c8d8e01");
	real.cuDeviceGetUuid_v2 = NULL;
	assert_int_equal(gpu_cuda_devices(found, 1), 1);
	assert_string_equal(found[0].uuid, "GPU-00818283-8485-8687-8889-8a8b8c8d8e01");
	real.cuDeviceGetUuid = NULL;
	assert_int_equal(gpu_cuda_devices(found, 1), -ENODEV);
}

static void test_a_slice_is_named_as_nvml_names_it(void **state)
{
	struct device_info found[1];

	(void)state;
	driver.known = "MIG-00818283-8485-8687-8889-8a8b8c8d8e02";
	assert_int_equal(gpu_cuda_devices(found, 1), 1);
	assert_string_equal(found[0].uuid, driver.known);
	driver.known = "GPU-00818283-8485-8687-8889-8a8b8c8d8e02";
	assert_int_equal(gpu_cuda_devices(found, 1), 1);
	assert_string_equal(found[0].uuid, driver.known);
}

static void test_a_driver_that_cannot_say(void **state)
{
	struct device_info found[4];

	(void)state;
	driver.total_res = CUDA_ERROR_UNKNOWN;
	assert_int_equal(gpu_cuda_devices(found, 4), 3);
	assert_int_equal(found[1].physical_bytes, 0);
	real.cuDeviceTotalMem_v2 = NULL;
	assert_int_equal(gpu_cuda_devices(found, 4), 3);
	assert_int_equal(found[1].physical_bytes, 0);
	driver.uuid_res = driver.uuid2_res = CUDA_ERROR_UNKNOWN;
	assert_int_equal(gpu_cuda_devices(found, 4), -ENODEV);
	driver.count_res = CUDA_ERROR_NOT_INITIALIZED;
	assert_int_equal(gpu_cuda_devices(found, 4), -ENODEV);
	real.cuDeviceGet = NULL;
	assert_int_equal(gpu_cuda_devices(found, 4), -ENODEV);
	real.cuDeviceGetCount = NULL;
	assert_int_equal(gpu_cuda_devices(found, 4), -ENODEV);
}

static void test_the_current_context(void **state)
{
	struct cuda_ord ord = { -1 };
	const void *ctx = NULL;

	(void)state;
	assert_true(gpu_cuda_current(&ord, &ctx));
	assert_int_equal(ord.v, 2);
	assert_ptr_equal(ctx, &driver);
	ord.v = -1;
	assert_true(gpu_cuda_current_device(&ord));
	assert_int_equal(ord.v, 2);
	driver.current_res = CUDA_ERROR_INVALID_CONTEXT;
	assert_false(gpu_cuda_current(&ord, &ctx));
	assert_false(gpu_cuda_current_device(&ord));
	driver.current_res = CUDA_SUCCESS;
	real.cuCtxGetCurrent = NULL;
	assert_false(gpu_cuda_current(&ord, &ctx));
	real.cuCtxGetDevice = NULL;
	assert_false(gpu_cuda_current(&ord, &ctx));
}

static void test_whether_a_primary_context_is_alive(void **state)
{
	(void)state;
	assert_false(gpu_cuda_primary_active((struct cuda_ord){ 1 }));
	driver.active = 1;
	assert_true(gpu_cuda_primary_active((struct cuda_ord){ 1 }));
	assert_false(gpu_cuda_primary_active((struct cuda_ord){ 7 }));
	real.cuDevicePrimaryCtxGetState = NULL;
	assert_false(gpu_cuda_primary_active((struct cuda_ord){ 1 }));
}

static void test_whether_it_is_initialised(void **state)
{
	(void)state;
	assert_true(gpu_cuda_ready());
	driver.count_res = CUDA_ERROR_NOT_INITIALIZED;
	assert_false(gpu_cuda_ready());
	driver.count_res = CUDA_ERROR_NO_DEVICE;
	assert_true(gpu_cuda_ready());
	real.cuDeviceGetCount = NULL;
	assert_true(gpu_cuda_ready());
}

static void test_the_process_is_nvmls_to_say(void **state)
{
	uint64_t bytes = 0;

	(void)state;
	assert_int_equal(gpu_cuda_ops.process_bytes("GPU-4", &bytes), 0);
	assert_int_equal(bytes, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_devices_in_order, start),
		cmocka_unit_test_setup(test_the_older_form_of_a_uuid, start),
		cmocka_unit_test_setup(test_a_slice_is_named_as_nvml_names_it, start),
		cmocka_unit_test_setup(test_a_driver_that_cannot_say, start),
		cmocka_unit_test_setup(test_the_current_context, start),
		cmocka_unit_test_setup(test_whether_a_primary_context_is_alive, start),
		cmocka_unit_test_setup(test_whether_it_is_initialised, start),
		cmocka_unit_test_setup(test_the_process_is_nvmls_to_say, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
