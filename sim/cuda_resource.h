/* Multiprocessors of a device as a resource that can be split. The driver's lock protects it. */
#pragma once

#include "abi/cuda.h"

/* `sms` multiprocessors of a device, as a question about them is answered; INVALID_RESOURCE_TYPE for
 * another type. */
CUresult cuda_resource_get(CUdevice dev, unsigned sms, CUdevResourceType type,
			   CUdevResource *out_resource);

/* What a descriptor is for. CUDA_ERROR_INVALID_VALUE when there is no such. */
CUresult cuda_resource_read(CUdevResourceDesc desc, CUdevice *out_dev, unsigned *out_sms);
