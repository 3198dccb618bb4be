/* Start, devices, what they say of themselves, CUDA_VISIBLE_DEVICES. */
#include "check.h"

static void before_init(void)
{
	CUdeviceptr address;
	int count, version = 0;
	CUdevice dev;

	EXPECT(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuDeviceGet(&dev, 0), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuMemAlloc_v2(&address, 1), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuMulticastAddDevice(0, 0), CUDA_ERROR_NOT_INITIALIZED);
	OK(cuDriverGetVersion(&version));
	TRUE(version == 12040);
	EXPECT(cuDriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

static void identity(void)
{
	char name[96], id[32], short_id[8];
	unsigned int bytes32;
	CUuuid uuid, uuid_v2;
	size_t bytes;
	CUdevice dev;
	int major, minor, value;

	OK(cuDeviceGetName(name, sizeof(name), 1));
	TRUE(strcmp(name, "Second") == 0);
	OK(cuDeviceGetName(name, 4, 1));
	TRUE(strcmp(name, "Sec") == 0);
	EXPECT(cuDeviceGetName(NULL, 4, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetName(name, 0, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetName(name, 4, 2), CUDA_ERROR_INVALID_DEVICE);
	OK(cuDeviceGetUuid(&uuid, 0));
	OK(cuDeviceGetUuid_v2(&uuid_v2, 0));
	TRUE(memcmp(&uuid, &uuid_v2, sizeof(uuid)) == 0);
	OK(cuDeviceGetUuid(&uuid_v2, 1));
	TRUE(memcmp(&uuid, &uuid_v2, sizeof(uuid)) != 0);
	OK(cuDeviceTotalMem_v2(&bytes, 0));
	TRUE(bytes == 8192 * MIB);
	OK(cuDeviceTotalMem(&bytes32, 0));
	TRUE(bytes32 == UINT32_MAX);
	OK(cuDeviceGetPCIBusId(id, sizeof(id), 1));
	OK(cuDeviceGetByPCIBusId(&dev, id));
	TRUE(dev == 1);
	EXPECT(cuDeviceGetPCIBusId(short_id, sizeof(short_id), 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetByPCIBusId(&dev, "ffff:ff:1f.0"), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGetByPCIBusId(&dev, "no"), CUDA_ERROR_INVALID_VALUE);
	OK(cuDeviceComputeCapability(&major, &minor, 0));
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	TRUE(value == major);
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	TRUE(value == 16);
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	TRUE(value == 32);
	EXPECT(cuDeviceGetAttribute(&value, (CUdevice_attribute)0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0),
	       CUDA_ERROR_INVALID_VALUE);
}

static void devices(void)
{
	int count = 0;
	CUdevice dev;

	OK(cuInit(0));
	OK(cuInit(0));
	OK(cuDeviceGetCount(&count));
	TRUE(count == 2);
	EXPECT(cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuDeviceGet(&dev, 1));
	TRUE(dev == 1);
	EXPECT(cuDeviceGet(&dev, 2), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGet(&dev, -1), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

struct visible {
	const char *list;
	CUresult init;
	const char *names; /* of the devices, a letter each */
};

/* In a child of its own, because cuInit reads the variable once. */
static int see(void *arg)
{
	const struct visible *v = arg;
	char names[8] = "";
	int count = 0;

	setenv("CUDA_VISIBLE_DEVICES", v->list, 1);
	EXPECT(cuInit(0), v->init);
	if (v->init != CUDA_SUCCESS)
		return 0;
	OK(cuDeviceGetCount(&count));
	for (int i = 0; i < count; i++) {
		char name[96];

		OK(cuDeviceGetName(name, sizeof(name), i));
		names[i] = name[0];
	}
	if (strcmp(names, v->names) != 0) {
		printf("CUDA_VISIBLE_DEVICES=%s: %s, want %s\n", v->list, names, v->names);
		return 1;
	}
	return 0;
}

static void visible_devices(void)
{
	static const struct visible lists[] = {
		{ "0,1", CUDA_SUCCESS, "FS" },
		{ "1,0", CUDA_SUCCESS, "SF" },
		{ "1", CUDA_SUCCESS, "S" },
		{ " 1 , 0 ", CUDA_SUCCESS, "SF" },
		{ "0,-1,1", CUDA_SUCCESS, "F" },
		{ "0,7,1", CUDA_SUCCESS, "F" },
		{ "1,x", CUDA_SUCCESS, "S" },
		{ "", CUDA_ERROR_NO_DEVICE, "" },
		{ "-1", CUDA_ERROR_NO_DEVICE, "" },
		{ "7", CUDA_ERROR_NO_DEVICE, "" },
		{ "0,0", CUDA_ERROR_NO_DEVICE, "" },
		{ "GPU-11111111-2222-3333-4444-555555555555", CUDA_SUCCESS, "F" },
		{ "GPU-6666", CUDA_SUCCESS, "S" },
		{ "gpu-6666,GPU-1111", CUDA_SUCCESS, "SF" },
		{ "GPU-9999", CUDA_ERROR_NO_DEVICE, "" },
		{ "GPU-", CUDA_ERROR_NO_DEVICE, "" },
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		TRUE(check_child(see, (void *)&lists[i]));
}

int main(void)
{
	check_machine("count=2,mem=8g,sms=16,driver=12.4,name=First/Second,"
		      "uuid=GPU-11111111-2222-3333-4444-555555555555/"
		      "GPU-66666666-2222-3333-4444-555555555555");
	visible_devices();
	before_init();
	devices();
	identity();
	return check_end();
}
