/* What a program is told of the device's memory: by the driver and by NVML, one story. */
#include <sys/wait.h>

#include "abi/nvml.h"
#include "client.h"
#include "client_take.h"

static nvmlDevice_t device(unsigned index)
{
	nvmlDevice_t dev;

	CHECK(nvmlInit_v2() == NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByIndex_v2(index, &dev) == NVML_SUCCESS);
	return dev;
}

static void say_nvml(nvmlDevice_t dev)
{
	nvmlMemory_v2_t v2 = { .version = nvmlMemory_v2 };
	nvmlMemory_t v1;

	CHECK(nvmlDeviceGetMemoryInfo(dev, &v1) == NVML_SUCCESS);
	CHECK(nvmlDeviceGetMemoryInfo_v2(dev, &v2) == NVML_SUCCESS);
	client_say("nvml1.total", v1.total);
	client_say("nvml1.used", v1.used);
	client_say("nvml1.free", v1.free);
	client_say("nvml2.total", v2.total);
	client_say("nvml2.used", v2.used);
	client_say("nvml2.free", v2.free);
	client_say("nvml2.reserved", v2.reserved);
}

static void say_all(nvmlDevice_t dev)
{
	unsigned free32, total32;
	size_t free_bytes, total_bytes;

	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	client_say("info.free", free_bytes);
	client_say("info.total", total_bytes);
	IS(cuMemGetInfo(&free32, &total32), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuDeviceTotalMem_v2(&total_bytes, 0));
	client_say("total", total_bytes);
	OK(cuDeviceTotalMem(&total32, 0));
	client_say("total1", total32);
	say_nvml(dev);
}

/* all MIB: takes that and says what it is told. */
static void all(int argc, char **argv)
{
	uint64_t bytes = argc ? strtoull(argv[0], NULL, 10) * MIB : 0;
	CUdeviceptr p;

	client_start();
	if (bytes)
		OK(cuMemAlloc_v2(&p, bytes));
	say_all(device(0));
	client_pause("said");
	say_all(device(0));
}

/* free: what is said to be free can be had, to the last block. */
static void free_is_free(int argc, char **argv)
{
	size_t free_bytes, total_bytes;
	CUdeviceptr p, q;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemAlloc_v2(&p, 7 * MIB));
	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	IS(cuMemAlloc_v2(&q, free_bytes + 1), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc_v2(&q, free_bytes));
	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	SAME(free_bytes, 0);
	OK(cuMemFree_v2(p));
	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	SAME(free_bytes, 8 * MIB);
}

/*
 * tight: another tenant has most of the card. What is free is right in every look, however soon
 * after the last one, to the block.
 */
static void tight(int argc, char **argv)
{
	size_t before, after, total_bytes;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemGetInfo_v2(&before, &total_bytes));
	for (int i = 0; i < 2000; i++) {
		OK(i % 2 ? cuMemAllocManaged(&p, 2 * MIB, CU_MEM_ATTACH_GLOBAL) :
			   cuMemAlloc_v2(&p, 2 * MIB));
		OK(cuMemGetInfo_v2(&after, &total_bytes));
		CHECK(after <= before);
		if (i % 2 == 0)
			SAME(after, before - 2 * MIB);
		OK(cuMemFree_v2(p));
		OK(cuMemGetInfo_v2(&after, &total_bytes));
		SAME(after, before);
	}
	client_say("free", before);
}

/* shrunk: the test lowered the limit below what is used, and raises it again. Field fault 13. */
static void shrunk(int argc, char **argv)
{
	CUdeviceptr p, q;
	nvmlDevice_t dev;

	(void)argc;
	(void)argv;
	client_start();
	dev = device(0);
	OK(cuMemAlloc_v2(&p, 128 * MIB));
	client_pause("held");
	say_all(dev);
	IS(cuMemAlloc_v2(&q, 1), CUDA_ERROR_OUT_OF_MEMORY);
	IS(cuMemAlloc_v2(&q, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemFree_v2(p));
	client_pause("freed");
	say_all(dev);
	OK(cuMemAlloc_v2(&p, 128 * MIB));
	OK(cuMemFree_v2(p));
}

/* odd: NULL outputs and wrong arguments; the same without us. Field fault 97. */
static void odd(int argc, char **argv)
{
	nvmlMemory_v2_t v2 = { .version = 77 };
	size_t bytes;
	nvmlMemory_t v1;
	nvmlDevice_t dev;

	(void)argc;
	(void)argv;
	printf("early %d %d %d\n", cuMemGetInfo_v2(&bytes, &bytes), cuDeviceTotalMem_v2(&bytes, 0),
	       cuMemGetInfo_v2(NULL, NULL));
	printf("nvml early %d %d\n", nvmlDeviceGetMemoryInfo(NULL, &v1),
	       nvmlDeviceGetMemoryInfo_v2(NULL, &v2));
	OK(cuInit(0));
	printf("no context %d\n", cuMemGetInfo_v2(&bytes, &bytes));
	client_start();
	printf("info %d %d %d\n", cuMemGetInfo_v2(NULL, &bytes), cuMemGetInfo_v2(&bytes, NULL),
	       cuMemGetInfo_v2(NULL, NULL));
	printf("info, first form %d\n", cuMemGetInfo(NULL, NULL));
	printf("total %d %d %d\n", cuDeviceTotalMem_v2(NULL, 0), cuDeviceTotalMem_v2(&bytes, 99),
	       cuDeviceTotalMem(NULL, 0));
	dev = device(0);
	printf("nvml %d %d %d %d\n", nvmlDeviceGetMemoryInfo(dev, NULL),
	       nvmlDeviceGetMemoryInfo(NULL, &v1), nvmlDeviceGetMemoryInfo_v2(dev, NULL),
	       nvmlDeviceGetMemoryInfo_v2(dev, &v2));
	printf("nvml %d\n", nvmlDeviceGetMemoryInfo((nvmlDevice_t)0xdead0, &v1));
}

/* nvml: NVML alone, as nvidia-smi uses it. */
static void nvml(int argc, char **argv)
{
	say_nvml(device(argc ? (unsigned)atoi(argv[0]) : 0));
	CHECK(nvmlShutdown() == NVML_SUCCESS);
}

/* nested: what NVML asks of itself by an exported name is answered by NVML alone. */
static void nested(int argc, char **argv)
{
	unsigned long long inner;
	nvmlProcessInfo_v2_t rows[8];
	unsigned found, count = 8;

	(void)argc;
	(void)argv;
	/* The library in front of us answers with what its own call got: see lib_nested.c. */
	CHECK(nvmlDeviceGetTotalEnergyConsumption(device(0), &inner) == NVML_SUCCESS);
	client_say("inner.total", inner);
	CHECK(nvmlDeviceGetNumFans(device(0), &found) == NVML_SUCCESS);
	client_say("inner.processes", found);
	CHECK(nvmlDeviceGetPowerManagementLimit(device(0), &found) == NVML_SUCCESS);
	client_say("inner.window", found);
	CHECK(nvmlDeviceGetComputeRunningProcesses_v2(device(0), &count, rows) == NVML_SUCCESS);
	client_say("processes", count);
	CHECK(nvmlDeviceGetPowerUsage(device(0), &found) == NVML_SUCCESS);
	client_say("found.total", found);
	CHECK(nvmlDeviceGetTemperature(device(0), NVML_TEMPERATURE_GPU, &found) == NVML_SUCCESS);
	client_say("found.own", found);
	say_nvml(device(0));
}

/*
 * view-fork: a process that has only looked, by NVML, makes a child that sees another device as its
 * first. Field fault 115.
 */
static void view_fork(int argc, char **argv)
{
	CUdeviceptr p;
	pid_t child;
	int status;

	(void)argc;
	(void)argv;
	say_nvml(device(0));
	fflush(stdout);
	child = fork();
	if (child == 0) {
		setenv("CUDA_VISIBLE_DEVICES", "1", 1);
		client_start();
		OK(cuMemAlloc_v2(&p, 10 * MIB));
		CHARGED_IS(0, 0);
		CHARGED_IS(1, CLIENT_CONTEXT_BYTES + 10 * MIB);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	client_start();
	OK(cuMemAlloc_v2(&p, 20 * MIB));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + 20 * MIB);
	client_pause("held");
}

/* devices: each ordinal's UUID, total and how many pieces of 64 MiB it gives. */
static void devices(int argc, char **argv)
{
	int count;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	OK(cuDeviceGetCount(&count));
	for (int d = 0; d < count; d++) {
		size_t total_bytes;
		CUcontext ctx;
		CUdeviceptr p;
		CUuuid uuid;
		int n = 0;

		OK(cuDeviceGetUuid_v2(&uuid, d));
		OK(cuDeviceTotalMem_v2(&total_bytes, d));
		OK(cuDevicePrimaryCtxRetain(&ctx, d));
		OK(cuCtxSetCurrent(ctx));
		while (cuMemAlloc_v2(&p, 64 * MIB) == CUDA_SUCCESS)
			CHECK(++n < 1000);
		for (int i = 0; i < 16; i++)
			printf("%02x", (unsigned char)uuid.bytes[i]);
		printf(" %llu %d\n", (unsigned long long)(total_bytes / MIB), n);
	}
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "all", all },
		{ "free", free_is_free },
		{ "tight", tight },
		{ "shrunk", shrunk },
		{ "odd", odd },
		{ "nvml", nvml },
		{ "nested", nested },
		{ "devices", devices },
		{ "view-fork", view_fork },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
