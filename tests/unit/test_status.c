#include "drv/status.h"

#include "check.h"

#include <errno.h>

/* What a program sees of the limit is what it would see of a full card. */
static void test_refusals_look_like_a_full_card(void **state)
{
	(void)state;
	assert_int_equal(status_cuda(0), CUDA_SUCCESS);
	assert_int_equal(status_cuda(-EDQUOT), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(status_cuda(-ENOMEM), CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_every_error_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(status_cuda(-ENODEV), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(status_cuda(-EINVAL), CUDA_ERROR_NOT_PERMITTED);
	for (int e = 1; e < 200; e++) {
		assert_int_not_equal(status_cuda(-e), CUDA_SUCCESS);
		assert_true(status_cuda(-e) > 0 && status_cuda(-e) < 1000);
	}
}

static void test_the_driver_s_answers_are_told_apart(void **state)
{
	(void)state;
	assert_int_equal(status_errno(CUDA_SUCCESS), 0);
	assert_int_equal(status_errno(CUDA_ERROR_OUT_OF_MEMORY), -ENOMEM);
	assert_int_equal(status_errno(CUDA_ERROR_NOT_SUPPORTED), -ENOTSUP);
	assert_int_equal(status_errno(CUDA_ERROR_NOT_READY), -EAGAIN);
	for (int res = 1; res < 1000; res++)
		assert_true(status_errno((CUresult)res) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals_look_like_a_full_card),
		cmocka_unit_test(test_every_error_is_an_error),
		cmocka_unit_test(test_the_driver_s_answers_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
