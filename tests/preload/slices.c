/*
 * MIG slices: what the driver and NVML say of them under a limit. Which case does what is said at
 * it.
 */
#include "abi/nvml.h"
#include "client.h"
#include "client_take.h"

enum { ROWS = 64 };

static void say_rows(const char *what, const char *uuid, nvmlDevice_t dev)
{
	nvmlProcessInfo_t rows[ROWS];
	unsigned count = ROWS;

	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(dev, &count, rows) == NVML_SUCCESS);
	for (unsigned i = 0; i < count; i++)
		printf("%s %s %u %llu %u %u\n", what, uuid, rows[i].pid, rows[i].usedGpuMemory,
		       rows[i].gpuInstanceId, rows[i].computeInstanceId);
}

/* One line of the memory by both forms, which say the same but for what is reserved. */
static void say_memory(const char *what, const char *uuid, nvmlDevice_t dev)
{
	nvmlMemory_v2_t v2 = { .version = nvmlMemory_v2 };
	nvmlMemory_t v1;

	CHECK(nvmlDeviceGetMemoryInfo(dev, &v1) == NVML_SUCCESS);
	CHECK(nvmlDeviceGetMemoryInfo_v2(dev, &v2) == NVML_SUCCESS);
	SAME(v1.total, v2.total);
	SAME(v1.used, v2.used + v2.reserved);
	printf("%s %s %llu %llu %llu\n", what, uuid, v1.total, v1.used, v1.free);
}

static void say_slice(nvmlDevice_t card, unsigned index)
{
	nvmlDeviceAttributes_t attributes;
	nvmlDevice_t slice, parent, same;
	unsigned is_slice, place;
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	nvmlBAR1Memory_t bar1;

	if (nvmlDeviceGetMigDeviceHandleByIndex(card, index, &slice) != NVML_SUCCESS)
		return;
	CHECK(nvmlDeviceIsMigDeviceHandle(slice, &is_slice) == NVML_SUCCESS && is_slice);
	CHECK(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(slice, &parent) == NVML_SUCCESS);
	CHECK(parent == card);
	CHECK(nvmlDeviceGetIndex(slice, &place) == NVML_SUCCESS && place == index);
	CHECK(nvmlDeviceGetUUID(slice, uuid, sizeof(uuid)) == NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByUUID(uuid, &same) == NVML_SUCCESS && same == slice);
	CHECK(nvmlDeviceGetAttributes_v2(slice, &attributes) == NVML_SUCCESS);
	CHECK(nvmlDeviceGetBAR1MemoryInfo(slice, &bar1) == NVML_SUCCESS);
	say_memory("slice", uuid, slice);
	printf("sizes %s %llu %llu\n", uuid, attributes.memorySizeMB, bar1.bar1Total >> 20);
	say_rows("row", uuid, slice);
}

/* look: every card and every slice, by NVML alone. */
static void look(int argc, char **argv)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	unsigned count, slices;
	nvmlDevice_t card;

	(void)argc;
	(void)argv;
	CHECK(nvmlInit_v2() == NVML_SUCCESS);
	CHECK(nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS);
	for (unsigned i = 0; i < count; i++) {
		CHECK(nvmlDeviceGetHandleByIndex_v2(i, &card) == NVML_SUCCESS);
		CHECK(nvmlDeviceGetUUID(card, uuid, sizeof(uuid)) == NVML_SUCCESS);
		say_memory("card", uuid, card);
		say_rows("cardrow", uuid, card);
		CHECK(nvmlDeviceGetMaxMigDeviceCount(card, &slices) == NVML_SUCCESS);
		for (unsigned k = 0; k < slices; k++)
			say_slice(card, k);
	}
}

static void write_uuid(const char *kind, const CUuuid *id, char *out)
{
	out += sprintf(out, "%s", kind);
	for (int i = 0; i < 16; i++)
		out += sprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			       (unsigned char)id->bytes[i]);
}

/* hold MIB: the one device there is, by the driver and by NVML: one story. */
static void hold(int argc, char **argv)
{
	size_t free_bytes, total_bytes, device_bytes;
	nvmlDevice_t slice;
	nvmlMemory_t memory;
	CUdeviceptr p;
	char uuid[64];
	int count;
	CUuuid id;

	CHECK(argc == 1);
	client_start();
	OK(cuDeviceGetCount(&count));
	CHECK(count == 1);
	OK(cuMemAlloc_v2(&p, strtoull(argv[0], NULL, 10) * MIB));
	OK(cuDeviceGetUuid_v2(&id, 0));
	write_uuid("MIG-", &id, uuid);
	CHECK(nvmlInit_v2() == NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByUUID(uuid, &slice) == NVML_SUCCESS);
	CHECK(nvmlDeviceGetMemoryInfo(slice, &memory) == NVML_SUCCESS);
	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	OK(cuDeviceTotalMem_v2(&device_bytes, 0));
	SAME(total_bytes, device_bytes);
	SAME(total_bytes, memory.total);
	SAME(free_bytes, memory.free);
	SAME(memory.used, memory.total - memory.free);
	printf("%s\n", uuid);
	client_say("total", total_bytes);
	client_say("free", free_bytes);
	IS(cuMemAlloc_v2(&p, free_bytes + 1), CUDA_ERROR_OUT_OF_MEMORY);
	client_pause("held");
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "look", look },
		{ "hold", hold },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
