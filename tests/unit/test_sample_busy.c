/* How busy NVML says that we are: by either of its calls. Field fault 119: one of them was gone. */
#include "drv/sample_busy.h"

#include "check.h"
#include "drv/real.h"
#include "drv/sample_nvml.h"

#include <errno.h>
#include <string.h>

enum { OWN = 700, OTHER = 701 };

struct row {
	unsigned pid;
	unsigned long long at_us;
	unsigned pct;
};

/* NVML as a test wants it. */
static struct {
	nvmlReturn_t infos_res, samples_res;
	struct row rows[4];
	unsigned count;
	int infos_asked, samples_asked;
	bool is_unknown; /* our row */
} nvml;

struct real real;

bool sample_nvml_own(const char *uuid, nvmlDevice_t *out_dev, unsigned *out_pid)
{
	assert_string_equal(uuid, "GPU-x");
	*out_dev = (nvmlDevice_t)(uintptr_t)1;
	*out_pid = OWN;
	return !nvml.is_unknown;
}

static nvmlReturn_t infos(nvmlDevice_t dev, nvmlProcessesUtilizationInfo_t *inout_infos)
{
	assert_true(dev == (nvmlDevice_t)(uintptr_t)1);
	assert_int_equal(inout_infos->version, nvmlProcessesUtilizationInfo_v1);
	assert_true(inout_infos->processSamplesCount >= nvml.count);
	nvml.infos_asked++;
	if (nvml.infos_res != NVML_SUCCESS)
		return nvml.infos_res;
	for (unsigned i = 0; i < nvml.count; i++)
		inout_infos->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
			.pid = nvml.rows[i].pid,
			.timeStamp = nvml.rows[i].at_us,
			.smUtil = nvml.rows[i].pct,
		};
	inout_infos->processSamplesCount = nvml.count;
	return NVML_SUCCESS;
}

static nvmlReturn_t samples(nvmlDevice_t dev, nvmlProcessUtilizationSample_t *out, unsigned *count,
			    unsigned long long since_us)
{
	assert_true(dev == (nvmlDevice_t)(uintptr_t)1 && since_us > 0);
	assert_true(*count >= nvml.count);
	nvml.samples_asked++;
	if (nvml.samples_res != NVML_SUCCESS)
		return nvml.samples_res;
	for (unsigned i = 0; i < nvml.count; i++)
		out[i] = (nvmlProcessUtilizationSample_t){
			.pid = nvml.rows[i].pid,
			.timeStamp = nvml.rows[i].at_us,
			.smUtil = nvml.rows[i].pct,
		};
	*count = nvml.count;
	return NVML_SUCCESS;
}

static int setup(void **state)
{
	(void)state;
	memset(&nvml, 0, sizeof(nvml));
	real = (struct real){ .nvmlDeviceGetProcessesUtilizationInfo = infos,
			      .nvmlDeviceGetProcessUtilization = samples };
	return 0;
}

static void pct_is(unsigned wanted)
{
	unsigned pct = 12345;

	assert_int_equal(sample_busy_pct("GPU-x", &pct), 0);
	assert_int_equal(pct, wanted);
}

static void unknown(void)
{
	unsigned pct = 12345;

	assert_int_equal(sample_busy_pct("GPU-x", &pct), -ENOTSUP);
	assert_int_equal(pct, 12345);
}

static void add(unsigned pid, unsigned long long at_us, unsigned pct)
{
	nvml.rows[nvml.count++] = (struct row){ pid, at_us, pct };
}

/* Of ours the newest, in whatever order; of others none; no more than there can be. */
static void the_newest_row_of_ours(void **state)
{
	(void)state;
	pct_is(0);
	add(OTHER, 9, 90);
	pct_is(0);
	add(OWN, 5, 50);
	add(OWN, 3, 30);
	pct_is(50);
	add(OWN, 8, 300);
	pct_is(100);
	assert_int_equal(nvml.samples_asked, 0);
	nvml.is_unknown = true;
	unknown();
}

static void nobody_was_busy(void **state)
{
	(void)state;
	add(OWN, 5, 50);
	nvml.infos_res = NVML_ERROR_NOT_FOUND;
	pct_is(0);
	assert_int_equal(nvml.samples_asked, 0);
}

static void either_call_will_do(void **state)
{
	(void)state;
	add(OWN, 5, 50);
	nvml.infos_res = NVML_ERROR_NOT_SUPPORTED;
	pct_is(50);
	real.nvmlDeviceGetProcessesUtilizationInfo = NULL;
	pct_is(50);
	nvml.samples_res = NVML_ERROR_NOT_SUPPORTED;
	unknown();
	real.nvmlDeviceGetProcessUtilization = NULL;
	unknown();
	real.nvmlDeviceGetProcessesUtilizationInfo = infos;
	nvml.infos_res = NVML_SUCCESS;
	pct_is(50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_newest_row_of_ours, setup),
		cmocka_unit_test_setup(nobody_was_busy, setup),
		cmocka_unit_test_setup(either_call_will_do, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
