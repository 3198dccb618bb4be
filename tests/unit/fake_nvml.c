/* A libnvidia-ml.so.1 of one function, as test_real.c finds it. */
#include "abi/nvml.h"

nvmlReturn_t nvmlInit_v2(void)
{
	return NVML_ERROR_TIMEOUT;
}
