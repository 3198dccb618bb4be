/*
 * The card as NVML shows it to a process without the library: "PID BYTES" for each process.
 *
 *   observe DEVICE           once
 *   observe DEVICE watch     until standard input ends; then the most that was ever in use
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "abi/nvml.h"

static int watch(nvmlDevice_t dev)
{
	struct pollfd end = { .fd = 0, .events = POLLIN };
	nvmlMemory_v2_t memory = { .version = nvmlMemory_v2 };
	unsigned long long most = 0, looks = 0;

	puts("watching");
	fflush(stdout);
	while (poll(&end, 1, 0) == 0) {
		if (nvmlDeviceGetMemoryInfo_v2(dev, &memory) != NVML_SUCCESS)
			return 1;
		if (memory.used > most)
			most = memory.used;
		looks++;
	}
	printf("most %llu\nlooks %llu\n", most, looks);
	return 0;
}

int main(int argc, char **argv)
{
	nvmlProcessInfo_t rows[256];
	unsigned count = 256;
	nvmlDevice_t dev;

	if (argc < 2 || nvmlInit_v2() != NVML_SUCCESS ||
	    nvmlDeviceGetHandleByIndex_v2((unsigned)atoi(argv[1]), &dev) != NVML_SUCCESS)
		return 1;
	if (argc > 2)
		return watch(dev);
	if (nvmlDeviceGetComputeRunningProcesses_v3(dev, &count, rows) != NVML_SUCCESS)
		return 1;
	for (unsigned i = 0; i < count; i++)
		printf("%u %llu\n", rows[i].pid, (unsigned long long)rows[i].usedGpuMemory);
	return 0;
}
