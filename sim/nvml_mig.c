/* MIG: cards that are divided into slices, each a GPU instance with one compute instance. */
#include "nvml_device.h"

enum { SLICES_MAX = 7 };

/* A card that is not divided is of a kind that has no MIG. */
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t dev, unsigned int *out_current_mode,
				  unsigned int *out_pending_mode)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_current_mode, &i);

	if (res)
		return res;
	if (!out_pending_mode)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!machine_device(i)->slices)
		return NVML_ERROR_NOT_SUPPORTED;
	*out_current_mode = *out_pending_mode = NVML_DEVICE_MIG_ENABLE;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t dev, unsigned int *out_is_mig_device)
{
	int i;
	nvmlReturn_t res = nvml_device_ask_any(dev, out_is_mig_device, &i);

	if (!res)
		*out_is_mig_device = machine_device(i)->slice != 0;
	return res;
}

/* How many there can be, not how many there are. */
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t dev, unsigned int *inout_count)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, inout_count, &i);

	if (!res)
		*inout_count = machine_device(i)->slices ? SLICES_MAX : 0;
	return res;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t dev, unsigned int index,
						 nvmlDevice_t *out_mig)
{
	int i, slice;
	nvmlReturn_t res = nvml_device_ask(dev, out_mig, &i);

	if (res)
		return res;
	if (!machine_device(i)->slices)
		return NVML_ERROR_NOT_SUPPORTED;
	if (index >= SLICES_MAX)
		return NVML_ERROR_INVALID_ARGUMENT;
	slice = machine_slice(i, index + 1);
	if (slice < 0)
		return NVML_ERROR_NOT_FOUND;
	*out_mig = nvml_device_handle(slice);
	return NVML_SUCCESS;
}

/* The slice behind a handle. */
static nvmlReturn_t ask_slice(nvmlDevice_t dev, const void *out,
			      const struct machine_device **out_slice)
{
	int i;
	nvmlReturn_t res = nvml_device_ask_any(dev, out, &i);

	if (res)
		return res;
	*out_slice = machine_device(i);
	return (*out_slice)->slice ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *out_dev)
{
	const struct machine_device *slice;
	nvmlReturn_t res = ask_slice(mig, out_dev, &slice);

	if (!res)
		*out_dev = nvml_device_handle((int)slice->card);
	return res;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t dev, unsigned int *out_id)
{
	const struct machine_device *slice;
	nvmlReturn_t res = ask_slice(dev, out_id, &slice);

	if (!res)
		*out_id = slice->slice;
	return res;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t dev, unsigned int *out_id)
{
	const struct machine_device *slice;
	nvmlReturn_t res = ask_slice(dev, out_id, &slice);

	if (!res)
		*out_id = 0;
	return res;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t dev, nvmlDeviceAttributes_t *out_attributes)
{
	const struct machine_device *slice;
	nvmlReturn_t res = ask_slice(dev, out_attributes, &slice);
	unsigned sevenths;

	if (res)
		return res;
	sevenths = SLICES_MAX / machine_device((int)slice->card)->slices;
	*out_attributes = (nvmlDeviceAttributes_t){
		.multiprocessorCount = slice->sms,
		.gpuInstanceSliceCount = sevenths,
		.computeInstanceSliceCount = sevenths,
		.memorySizeMB = slice->memory_bytes >> 20,
	};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t dev, nvmlDeviceAttributes_t *out_attributes)
{
	return nvmlDeviceGetAttributes_v2(dev, out_attributes);
}
