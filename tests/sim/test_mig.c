/* Cards that are divided into MIG slices: what a process has of them, and what NVML says. */
#include "nvml.h"

static nvmlDevice_t card, slices[2];
static char names[2][NVML_DEVICE_UUID_V2_BUFFER_SIZE];

static void find_slices(void)
{
	unsigned most = 0;

	card = nvml_start();
	TRUE(NVML(nvmlDeviceGetMaxMigDeviceCount, card, &most) == NVML_SUCCESS && most == 7);
	for (unsigned i = 0; i < 2; i++) {
		TRUE(NVML(nvmlDeviceGetMigDeviceHandleByIndex, card, i, &slices[i]) ==
		     NVML_SUCCESS);
		TRUE(NVML(nvmlDeviceGetUUID, slices[i], names[i], sizeof(names[i])) ==
		     NVML_SUCCESS);
	}
}

/* Of what there is no second of, and what is not said of slices. */
static void handles(void)
{
	nvmlDevice_t dev = NULL, whole = NULL;
	unsigned number = 0, pending = 0, count = 0;

	TRUE(NVML(nvmlDeviceGetCount_v2, &count) == NVML_SUCCESS && count == 2);
	TRUE(NVML(nvmlDeviceGetHandleByIndex_v2, 1, &whole) == NVML_SUCCESS);
	TRUE(NVML(nvmlDeviceGetHandleByIndex_v2, 2, &dev) == NVML_ERROR_INVALID_ARGUMENT);
	TRUE(NVML(nvmlDeviceGetMigDeviceHandleByIndex, card, 2, &dev) == NVML_ERROR_NOT_FOUND);
	TRUE(NVML(nvmlDeviceGetMigDeviceHandleByIndex, card, 7, &dev) ==
	     NVML_ERROR_INVALID_ARGUMENT);
	TRUE(NVML(nvmlDeviceGetMigDeviceHandleByIndex, whole, 0, &dev) == NVML_ERROR_NOT_SUPPORTED);
	TRUE(NVML(nvmlDeviceGetMigMode, card, &number, &pending) == NVML_SUCCESS);
	TRUE(number == NVML_DEVICE_MIG_ENABLE && pending == NVML_DEVICE_MIG_ENABLE);
	TRUE(NVML(nvmlDeviceGetMigMode, whole, &number, &pending) == NVML_ERROR_NOT_SUPPORTED);
	TRUE(NVML(nvmlDeviceGetHandleByUUID, names[1], &dev) == NVML_SUCCESS && dev == slices[1]);
	TRUE(NVML(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, slices[1], &dev) == NVML_SUCCESS);
	TRUE(dev == card);
	TRUE(NVML(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, card, &dev) ==
	     NVML_ERROR_NOT_SUPPORTED);
	TRUE(NVML(nvmlDeviceGetGpuInstanceId, slices[1], &number) == NVML_SUCCESS && number == 2);
	TRUE(NVML(nvmlDeviceGetGpuInstanceId, card, &number) == NVML_ERROR_NOT_SUPPORTED);
	TRUE(NVML(nvmlDeviceGetTemperature, slices[0], NVML_TEMPERATURE_GPU, &number) ==
	     NVML_ERROR_NOT_SUPPORTED);
}

/* How busy a divided card is it does not say. */
static void utilization(void)
{
	nvmlProcessUtilizationSample_t samples[128];
	nvmlUtilization_t rates;
	unsigned count = 128;

	TRUE(NVML(nvmlDeviceGetUtilizationRates, card, &rates) == NVML_ERROR_NOT_SUPPORTED);
	TRUE(NVML(nvmlDeviceGetProcessUtilization, card, samples, &count, 0) ==
	     NVML_ERROR_NOT_SUPPORTED);
}

/* The one device that this list of visible ones leaves is slice `want`, and no more of the card. */
static int visible(void *arg)
{
	const char *const *list_and_want = arg;
	int want = atoi(list_and_want[1]), count = 0;
	size_t total_bytes = 0;
	CUcontext ctx = NULL;
	char name[96] = "";
	CUdeviceptr p = 0;
	CUuuid uuid, v1;

	if (list_and_want[0])
		setenv("CUDA_VISIBLE_DEVICES", list_and_want[0], 1);
	OK(cuInit(0));
	OK(cuDeviceGetCount(&count));
	TRUE(count == 1);
	find_slices();
	OK(cuDeviceGetUuid_v2(&uuid, 0));
	OK(cuDeviceGetUuid(&v1, 0));
	/* The first form knows the card alone, the second the slice. */
	TRUE(memcmp(&uuid, &v1, sizeof(uuid)) != 0);
	TRUE((unsigned char)uuid.bytes[3] ==
	     strtoul((char[]){ names[want][10], names[want][11], 0 }, NULL, 16));
	OK(cuDeviceTotalMem_v2(&total_bytes, 0));
	TRUE(total_bytes == 512 * MIB);
	OK(cuDeviceGetName(name, sizeof(name), 0));
	TRUE(strstr(name, " MIG 3g.1gb") != NULL);
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	EXPECT(cuMemAlloc_v2(&p, 512 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc_v2(&p, 300 * MIB));
	TRUE(nvml_used_bytes(slices[want]) == 364 * MIB && nvml_used_bytes(slices[!want]) == 0);
	TRUE(nvml_used_bytes(card) == 364 * MIB);
	TRUE(nvml_process_bytes(slices[want], (unsigned)getpid()) == (int64_t)(364 * MIB));
	TRUE(nvml_process_bytes(slices[!want], (unsigned)getpid()) == -1);
	TRUE(nvml_process_bytes(card, (unsigned)getpid()) == (int64_t)(364 * MIB));
	return 0;
}

int main(void)
{
	check_machine("count=2,mem=1g,reserved=0,context=64m,mig=2/0");
	find_slices();
	handles();
	utilization();
	{
		char both[256];
		const char *const cases[][2] = {
			{ NULL, "0" },     { "0", "0" },      { "1,0", "0" },
			{ names[0], "0" }, { names[1], "1" }, { both, "1" },
		};

		snprintf(both, sizeof(both), "%s,%s", names[1], names[0]);
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
			TRUE(check_child(visible, (void *)cases[i]));
	}
	return check_end();
}
