#include "hook/loading.h"

#include "base/bytes.h"
#include "core/image.h"
#include "core/track.h"
#include "drv/gpu_cuda.h"
#include "drv/real.h"

bool loading_is_eager(void)
{
	CUmoduleLoadingMode mode;

	return !real.cuModuleGetLoadingMode ||
	       (real.cuModuleGetLoadingMode(&mode) == CUDA_SUCCESS &&
		mode == CU_MODULE_EAGER_LOADING);
}

/* As image_read() wants it. */
static unsigned current_arch(void)
{
	int major = 0, minor = 0;
	struct cuda_ord ord;

	if (!gpu_cuda_current_device(&ord) || !real.cuDeviceGetAttribute ||
	    real.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
				      ord.v) != CUDA_SUCCESS ||
	    real.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
				      ord.v) != CUDA_SUCCESS ||
	    major < 0 || minor < 0)
		return 0;
	return (unsigned)major * 10 + (unsigned)minor;
}

static struct loading split(struct image_bytes b)
{
	uint64_t variable_bytes = bytes_round_up(b.variable_bytes, TRACK_BLOCK_BYTES);
	uint64_t code_bytes = bytes_round_up(b.code_bytes, TRACK_BLOCK_BYTES);

	if (loading_is_eager())
		return (struct loading){ .bytes = bytes_sum(variable_bytes, code_bytes) };
	return (struct loading){ variable_bytes, code_bytes };
}

struct loading loading_read(const void *image)
{
	return image ? split(image_read(image, current_arch())) : (struct loading){ 0 };
}

struct loading loading_read_file(const char *path)
{
	return path ? split(image_read_file(path, current_arch())) : (struct loading){ 0 };
}
