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

int status_errno(CUresult res)
{
	switch ((int)res) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_ERROR_NOT_SUPPORTED:
		return -ENOTSUP;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_HANDLE:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_INVALID_DEVICE:
		return -EINVAL;
	case CUDA_ERROR_NOT_READY:
	case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
		return -EAGAIN;
	default:
		return -ENODEV;
	}
}

bool status_is_sticky(CUresult res)
{
	switch ((int)res) {
	case CUDA_ERROR_DEVICE_UNAVAILABLE:
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
		return true;
	default:
		return false;
	}
}
