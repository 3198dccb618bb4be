#include "hook/loading.h"

#include "base/bytes.h"
#include "core/charge.h"
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
static unsigned arch_of(struct cuda_ord ord)
{
	int major = 0, minor = 0;

	if (!real.cuDeviceGetAttribute ||
	    real.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
				      ord.v) != CUDA_SUCCESS ||
	    real.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
				      ord.v) != CUDA_SUCCESS ||
	    major < 0 || minor < 0)
		return 0;
	return (unsigned)major * 10 + (unsigned)minor;
}

/* That of all devices; 0 where they differ. */
static unsigned common_arch(void)
{
	unsigned arch = 0;
	int count = 0;

	if (!real.cuDeviceGetCount || real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return 0;
	for (int i = 0; i < count; i++) {
		if (i && arch_of((struct cuda_ord){ i }) != arch)
			return 0;
		arch = arch_of((struct cuda_ord){ i });
	}
	return arch;
}

static unsigned arch_at(enum loading_place place)
{
	struct cuda_ord ord;

	return place == LOADING_HERE && gpu_cuda_current_device(&ord) ? arch_of(ord) :
									common_arch();
}

/* Its constants may lie apart from its variables. An image without code says nothing. */
static uint64_t shared_bytes(const struct image_bytes *b)
{
	if (!b->variable_bytes)
		return b->code_bytes ? 0 : UINT64_MAX;
	return bytes_sum(bytes_round_up(b->variable_bytes, TRACK_BLOCK_BYTES), TRACK_BLOCK_BYTES);
}

static struct loading split(struct image_bytes b)
{
	uint64_t variable_bytes = bytes_round_up(b.variable_bytes, TRACK_BLOCK_BYTES);
	uint64_t code_bytes = bytes_round_up(b.code_bytes, TRACK_BLOCK_BYTES);
	struct loading loading = { .bytes = variable_bytes,
				   .later_bytes = code_bytes,
				   .managed_bytes = bytes_round_up(b.managed_bytes,
								   CHARGE_MANAGED_PAGE_BYTES),
				   .shared_bytes = shared_bytes(&b),
				   .calls = b.calls };

	if (loading_is_eager()) {
		loading.bytes = bytes_sum(variable_bytes, code_bytes);
		loading.later_bytes = 0;
	}
	return loading;
}

struct loading loading_read(const void *image, enum loading_place place)
{
	return image ? split(image_read(image, arch_at(place))) : (struct loading){ 0 };
}

struct loading loading_read_file(const char *path, enum loading_place place)
{
	return path ? split(image_read_file(path, arch_at(place))) : (struct loading){ 0 };
}
