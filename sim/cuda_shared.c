#include "cuda_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_device.h"
#include "cuda_heap.h"
#include "machine_export.h"
#include "machine_import.h"

/* What pools grow by. */
#define STEP_BYTES ((uint64_t)32 << 20)

static const char *const prefixes[] = { [SHARED_HANDLE] = "sim-vmm:", [SHARED_POOL] = "sim-pool:" };

/* The soft file size limit is the program's, for its own files, and steps aside for a moment. */
int cuda_shared_grow(int fd, uint64_t bytes)
{
	struct rlimit limit, raised;
	bool is_raised = false;
	int err;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
		raised = (struct rlimit){ limit.rlim_max, limit.rlim_max };
		if (limit.rlim_max < bytes || setrlimit(RLIMIT_FSIZE, &raised) != 0)
			return -1;
		is_raised = true;
	}
	err = ftruncate(fd, (off_t)bytes);
	if (is_raised)
		setrlimit(RLIMIT_FSIZE, &limit);
	return err;
}

int cuda_shared_new(enum shared_kind kind, int index, uint64_t bytes)
{
	const char *uuid = index == HEAP_HOST ? "host" : machine_device(index)->uuid;
	char name[128];
	int fd;

	(void)snprintf(name, sizeof(name), "%s%s", prefixes[kind], uuid);
	fd = cuda_heap_file_new(name);
	if (fd >= 0 && cuda_shared_grow(fd, bytes) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int cuda_shared_reopen(int fd)
{
	char path[64];
	int low, high;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	low = open(path, O_RDWR | O_CLOEXEC);
	if (low < 0 || low > STDERR_FILENO)
		return low;
	high = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(low);
	return high;
}

CUresult cuda_shared_name(int index, uint64_t bytes, uint64_t *export)
{
	if (!*export)
		*export = machine_export_new(index, bytes);
	return *export ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuda_shared_mark(int fd, int index, uint64_t bytes, uint64_t *export)
{
	CUresult res = cuda_shared_name(index, bytes, export);

	if (res != CUDA_SUCCESS)
		return res;
	return machine_export_mark(fd, *export) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

/* Marked meanwhile, since the program may close `fd`; said, not left to close: a child forked
 * meanwhile has a copy. */
static int import_marked(int fd, uint64_t export, uint32_t *out_import)
{
	int err = machine_export_mark(fd, export);

	if (err)
		return err;
	err = machine_import_new(export, out_import);
	machine_export_unmark(fd, export);
	return err;
}

CUresult cuda_shared_import(int fd, uint64_t *out_export, uint32_t *out_import)
{
	int own = cuda_shared_reopen(fd), err = 0;
	uint32_t import = 0;
	uint64_t export;

	if (own < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	export = machine_export_find(own);
	if (export)
		err = import_marked(own, export, &import);
	close(own);
	if (err)
		return err == -ENOSPC ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM;
	*out_export = export;
	*out_import = import;
	return CUDA_SUCCESS;
}

CUresult cuda_shared_read(enum shared_kind kind, int fd, CUdevice *out_dev, uint64_t *out_bytes)
{
	char path[64], name[256];
	struct stat st;
	char *uuid;
	ssize_t len;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = readlink(path, name, sizeof(name) - 1);
	if (len < 0 || fstat(fd, &st) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	name[len] = '\0';
	uuid = strstr(name, prefixes[kind]);
	if (!uuid || !S_ISREG(st.st_mode))
		return CUDA_ERROR_INVALID_VALUE;
	uuid += strlen(prefixes[kind]);
	uuid[strcspn(uuid, " ")] = '\0';
	*out_bytes = (uint64_t)st.st_size;
	*out_dev = -1;
	if (strcmp(uuid, "host") == 0)
		return CUDA_SUCCESS;
	for (int i = 0; i < cuda_device_count(); i++) {
		if (strcmp(cuda_device_get(i)->uuid, uuid) != 0)
			continue;
		*out_dev = i;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

/*
 * Addresses as far behind a multiple of what pools grow by as `behind` is: a piece touches as many
 * units wherever it is mapped. 0 when there are none.
 */
static uint64_t reserve(uint64_t behind, uint64_t bytes)
{
	uint64_t room = bytes + 2 * STEP_BYTES, map, start;
	void *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return 0;
	map = (uint64_t)p;
	start = (map + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES + behind;
	munmap(p, start - map);
	munmap((void *)(start + bytes), map + room - start - bytes);
	return start;
}

int cuda_shared_map(int fd, uint64_t offset, uint64_t bytes, uint64_t *out_address,
		    uint64_t *out_map, uint64_t *out_map_bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t first = offset / page * page;
	uint64_t map_bytes = (offset - first + bytes + page - 1) / page * page;
	uint64_t start = *out_map ? *out_map : reserve(first % STEP_BYTES, map_bytes);
	void *map;

	if (!start)
		return -1;
	map = mmap((void *)start, map_bytes, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, (off_t)first);
	if (map == MAP_FAILED) {
		munmap((void *)start, map_bytes);
		return -1;
	}
	madvise(map, map_bytes, MADV_DONTFORK);
	*out_address = (uint64_t)map + offset - first;
	*out_map = (uint64_t)map;
	*out_map_bytes = map_bytes;
	return 0;
}
