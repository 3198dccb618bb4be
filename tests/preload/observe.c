/*
 * The card as NVML shows it to a process without the library: "PID BYTES" for each process; or the
 * region as a monitor reads it.
 *
 *   observe DEVICE           once
 *   observe DEVICE watch     until standard input ends; then the most that was ever in use
 *   observe SLOT region      until standard input ends; how often the figures of the slot were
 * whole,
 *                            and how often they did not fit each other
 */
#include <fcntl.h>
#include <poll.h>
#include <ration/region.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* The reader of include/ration/region.h. */
static int watch_region(const struct hami_slot *slot)
{
	struct pollfd end = { .fd = 0, .events = POLLIN };
	unsigned long long whole = 0, torn = 0;

	puts("watching");
	fflush(stdout);
	for (unsigned long long i = 0; i % 1000 != 0 || poll(&end, 1, 0) == 0; i++) {
		uint64_t seq = __atomic_load_n(&slot->seqlock, __ATOMIC_ACQUIRE);
		struct hami_used used = {
			.total_bytes = __atomic_load_n(&slot->used[0].total_bytes,
						       __ATOMIC_ACQUIRE),
			.data_bytes = __atomic_load_n(&slot->used[0].data_bytes, __ATOMIC_ACQUIRE),
			.module_bytes = __atomic_load_n(&slot->used[0].module_bytes,
							__ATOMIC_ACQUIRE),
			.context_bytes = __atomic_load_n(&slot->used[0].context_bytes,
							 __ATOMIC_ACQUIRE),
		};

		if ((seq & 1) || __atomic_load_n(&slot->seqlock, __ATOMIC_RELAXED) != seq)
			continue;
		if (used.total_bytes == used.context_bytes + used.module_bytes + used.data_bytes)
			whole++;
		else
			torn++;
	}
	printf("whole %llu\ntorn %llu\n", whole, torn);
	return 0;
}

static int open_region(int index)
{
	const char *path = getenv("RATION_REGION");
	int fd = path ? open(path, O_RDONLY) : -1;
	void *map = mmap(NULL, HAMI_REGION_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return 1;
	return watch_region(&((const struct hami_region *)map)->procs[index]);
}

int main(int argc, char **argv)
{
	nvmlProcessInfo_t rows[256];
	unsigned count = 256;
	nvmlDevice_t dev;

	if (argc > 2 && !strcmp(argv[2], "region"))
		return open_region(atoi(argv[1]));
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
