#include "drv/nvml_list.h"

#include "drv/real.h"

#include "check.h"

#include <errno.h>

enum { ROWS = 1000 };

struct real real;

/* NVML's list: rows of pids from 1 on, and what it answers. */
static struct {
	unsigned rows, grows; /* and how many come between two questions */
	int asked;
	nvmlReturn_t res;
	size_t row_bytes; /* as it writes them */
} nvml;

static nvmlReturn_t list(nvmlDevice_t dev, unsigned int *inout_count, nvmlProcessInfo_t *out)
{
	unsigned room = *inout_count;

	(void)dev;
	nvml.asked++;
	if (nvml.res != NVML_SUCCESS)
		return nvml.res;
	*inout_count = nvml.rows;
	if (nvml.rows > room) {
		nvml.rows += nvml.grows;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	for (unsigned i = 0; i < nvml.rows; i++) {
		const nvmlProcessDetail_v1_t row = { .pid = i + 1, .usedGpuMemory = i };

		memcpy((char *)out + i * nvml.row_bytes, &row, nvml.row_bytes);
	}
	return NVML_SUCCESS;
}

static int begin(void **state)
{
	(void)state;
	memset(&nvml, 0, sizeof(nvml));
	nvml.row_bytes = sizeof(nvmlProcessInfo_t);
	real = (struct real){ .nvmlDeviceGetComputeRunningProcesses_v3 = list };
	return 0;
}

/* Reads a list of so many; how often NVML was asked. */
static int questions(unsigned rows, unsigned expected)
{
	struct nvml_list l;

	nvml.rows = rows;
	nvml.asked = 0;
	assert_int_equal(nvml_list_read(NULL, expected, &l), 0);
	assert_int_equal(l.count, rows);
	for (unsigned pid = 1; pid <= rows; pid++)
		assert_int_equal(nvml_list_find(&l, pid)->usedGpuMemory, pid - 1);
	assert_null(nvml_list_find(&l, rows + 1));
	assert_null(nvml_list_find(&l, 0));
	nvml_list_free(&l);
	return nvml.asked;
}

/* As many as are expected cost one question, more than there is room for a second one. */
static void test_lists_of_any_length(void **state)
{
	(void)state;
	assert_int_equal(questions(0, 0), 1);
	assert_int_equal(questions(NVML_LIST_FEW, 0), 1);
	assert_int_equal(questions(NVML_LIST_FEW + 1, 0), 2);
	assert_int_equal(questions(NVML_LIST_FEW + 1, NVML_LIST_FEW + 1), 1);
	assert_int_equal(questions(ROWS, 0), 2);
	assert_int_equal(questions(ROWS, ROWS), 1);
	assert_int_equal(questions(3, ROWS), 1);
}

/* Some drivers' rows are not as long as the header says: 32 bytes from 535.43 to 535.86. */
static void test_rows_of_another_length(void **state)
{
	static const size_t lengths[] = { 16, 32 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		nvml.row_bytes = lengths[i];
		for (unsigned rows = 0; rows <= NVML_LIST_FEW + 1; rows++)
			questions(rows, 0);
		questions(ROWS, 0);
		questions(ROWS, ROWS);
		questions(2, ROWS);
	}
}

static nvmlReturn_t first_form(nvmlDevice_t dev, unsigned int *inout_count,
			       nvmlProcessInfo_v1_t *out)
{
	return list(dev, inout_count, (nvmlProcessInfo_t *)out);
}

/* A driver that has no later form; its rows may be of either length. */
static void test_the_first_form(void **state)
{
	static const size_t lengths[] = { 16, 24 };

	(void)state;
	real = (struct real){ .nvmlDeviceGetComputeRunningProcesses = first_form };
	for (int i = 0; i < 2; i++) {
		nvml.row_bytes = lengths[i];
		for (unsigned rows = 0; rows < 5; rows++)
			questions(rows, 0);
		questions(ROWS, 0);
	}
}

/* Some may come meanwhile; where it is more than that nothing is known, and nothing is kept. */
static void test_lists_that_grow(void **state)
{
	struct nvml_list l;

	(void)state;
	nvml.rows = 100;
	nvml.grows = 10;
	assert_int_equal(nvml_list_read(NULL, 0, &l), 0);
	assert_int_equal(l.count, 110);
	nvml_list_free(&l);
	nvml.grows = ROWS;
	assert_int_equal(nvml_list_read(NULL, 0, &l), -EAGAIN);
}

static void test_lists_that_are_none(void **state)
{
	struct nvml_list l;

	(void)state;
	nvml.res = NVML_ERROR_NOT_SUPPORTED;
	assert_int_equal(nvml_list_read(NULL, 0, &l), -ENOTSUP);
	assert_int_equal(nvml_list_read(NULL, ROWS, &l), -ENOTSUP);
	real.nvmlDeviceGetComputeRunningProcesses_v3 = NULL;
	assert_int_equal(nvml_list_read(NULL, 0, &l), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_lists_of_any_length, begin),
		cmocka_unit_test_setup(test_rows_of_another_length, begin),
		cmocka_unit_test_setup(test_the_first_form, begin),
		cmocka_unit_test_setup(test_lists_that_grow, begin),
		cmocka_unit_test_setup(test_lists_that_are_none, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
