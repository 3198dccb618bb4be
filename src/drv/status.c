#include "drv/status.h"

#include <errno.h>

CUresult status_cuda(int rc)
{
	switch (-rc) {
	case 0:
		return CUDA_SUCCESS;
	case EDQUOT:
	case ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case ENODEV:
		return CUDA_ERROR_INVALID_DEVICE;
	case EINVAL:
		/* A configuration that cannot be understood: nothing of ours lets a program on. */
		return CUDA_ERROR_NOT_PERMITTED;
	default:
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
}
