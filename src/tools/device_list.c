#include "tools/device_list.h"

#include "abi/nvml.h"
#include "base/clock.h"
#include "base/limits.h"
#include "shm/region.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A card that has to be woken, or a driver that loads its firmware, takes seconds. */
#define READ_WAIT_NS (20 * NSEC_PER_SEC)

/* The functions used; a driver may lack those of MIG. */
struct nvml {
	__typeof__(&nvmlInit_v2) init;
	__typeof__(&nvmlSystemGetDriverVersion) driver_version;
	__typeof__(&nvmlDeviceGetCount_v2) count;
	__typeof__(&nvmlDeviceGetHandleByIndex_v2) by_index;
	__typeof__(&nvmlDeviceGetUUID) uuid;
	__typeof__(&nvmlDeviceGetName) name;
	__typeof__(&nvmlDeviceGetMemoryInfo) memory;
	__typeof__(&nvmlDeviceGetMaxMigDeviceCount) mig_count;
	__typeof__(&nvmlDeviceGetMigDeviceHandleByIndex) mig_by_index;
};

static void *look_up(void *handle, const char *name)
{
	return dlsym(handle, name);
}

static bool load(const char *path, struct nvml *out_nvml)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return false;
	out_nvml->init = look_up(handle, "nvmlInit_v2");
	out_nvml->driver_version = look_up(handle, "nvmlSystemGetDriverVersion");
	out_nvml->count = look_up(handle, "nvmlDeviceGetCount_v2");
	out_nvml->by_index = look_up(handle, "nvmlDeviceGetHandleByIndex_v2");
	out_nvml->uuid = look_up(handle, "nvmlDeviceGetUUID");
	out_nvml->name = look_up(handle, "nvmlDeviceGetName");
	out_nvml->memory = look_up(handle, "nvmlDeviceGetMemoryInfo");
	out_nvml->mig_count = look_up(handle, "nvmlDeviceGetMaxMigDeviceCount");
	out_nvml->mig_by_index = look_up(handle, "nvmlDeviceGetMigDeviceHandleByIndex");
	return out_nvml->init && out_nvml->count && out_nvml->by_index && out_nvml->uuid &&
	       out_nvml->memory;
}

static void add(const struct nvml *nvml, nvmlDevice_t handle, int index, bool is_mig,
		struct device_list *list)
{
	struct device_list_entry *e = &list->entries[list->count];
	nvmlMemory_t memory;

	if (list->count == DEVICE_LIST_MAX)
		return;
	memset(e, 0, sizeof(*e));
	e->index = index;
	e->is_mig = is_mig;
	if (nvml->uuid(handle, e->uuid, sizeof(e->uuid)) != NVML_SUCCESS)
		return;
	if (!nvml->name || nvml->name(handle, e->name, sizeof(e->name)) != NVML_SUCCESS)
		e->name[0] = '\0';
	if (nvml->memory(handle, &memory) == NVML_SUCCESS)
		e->memory_bytes = memory.total;
	list->count++;
}

static void add_mig(const struct nvml *nvml, nvmlDevice_t parent, int index,
		    struct device_list *list)
{
	unsigned count = 0;
	nvmlDevice_t mig;

	if (!nvml->mig_count || !nvml->mig_by_index ||
	    nvml->mig_count(parent, &count) != NVML_SUCCESS)
		return;
	for (unsigned i = 0; i < count; i++)
		if (nvml->mig_by_index(parent, i, &mig) == NVML_SUCCESS)
			add(nvml, mig, index, true, list);
}

/* In the process of its own. 0 or -errno. */
static int collect(const char *path, struct device_list *list)
{
	struct nvml nvml;
	nvmlDevice_t handle;
	unsigned count = 0;

	if (!load(path, &nvml))
		return -ENOENT;
	if (nvml.init() != NVML_SUCCESS || nvml.count(&count) != NVML_SUCCESS)
		return -EIO;
	if (!nvml.driver_version ||
	    nvml.driver_version(list->driver_version, sizeof(list->driver_version)) != NVML_SUCCESS)
		list->driver_version[0] = '\0';
	for (unsigned i = 0; i < count; i++) {
		if (nvml.by_index(i, &handle) != NVML_SUCCESS)
			continue;
		add(&nvml, handle, (int)i, false, list);
		add_mig(&nvml, handle, (int)i, list);
	}
	return 0;
}

/* Writes the answer, a status and the list, and ends. */
_Noreturn static void answer(const char *path, int fd)
{
	static struct device_list list;
	int rc = collect(path, &list);
	bool written = write(fd, &rc, sizeof(rc)) == (ssize_t)sizeof(rc);
	const char *at = (const char *)&list;

	for (size_t left = written && rc == 0 ? sizeof(list) : 0; left > 0;) {
		ssize_t n = write(fd, at, left);

		if (n <= 0)
			break;
		at += n;
		left -= (size_t)n;
	}
	_exit(0);
}

static int read_all(int fd, void *buf, size_t bytes, int64_t end_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (char *at = buf; bytes > 0;) {
		int64_t left_ns = end_ns - clock_now_ns();
		ssize_t n;

		if (left_ns <= 0)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)(left_ns / NSEC_PER_MSEC) + 1) <= 0)
			continue;
		n = read(fd, at, bytes);
		if (n <= 0)
			return -EIO;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static void close_pair(const int *fds)
{
	close(fds[0]);
	close(fds[1]);
}

/* A pipe of which no end is a standard stream that happens to be closed. */
static int open_pipe(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		fds[i] = region_fd_up(fds[i]);
		if (fds[i] < 0) {
			close(fds[!i]);
			return -EMFILE;
		}
	}
	return 0;
}

int device_list_read(const char *path, struct device_list *out_list)
{
	int64_t end_ns = clock_now_ns() + READ_WAIT_NS;
	int fds[2], status, rc = open_pipe(fds);
	pid_t pid;

	memset(out_list, 0, sizeof(*out_list));
	if (rc < 0)
		return rc;
	pid = fork();
	if (pid < 0) {
		rc = -errno;
		close_pair(fds);
		return rc;
	}
	if (pid == 0)
		answer(path, fds[1]);
	close(fds[1]);
	rc = read_all(fds[0], &status, sizeof(status), end_ns);
	if (rc == 0)
		rc = status;
	if (rc == 0)
		rc = read_all(fds[0], out_list, sizeof(*out_list), end_ns);
	close(fds[0]);
	if (rc == -ETIMEDOUT || rc == -EIO)
		kill(pid, SIGKILL);
	/* A process that hangs in the driver cannot be ended: then it is not waited for. */
	while (waitpid(pid, NULL, rc == -ETIMEDOUT ? WNOHANG : 0) < 0 && errno == EINTR)
		;
	return rc;
}

const struct device_list_entry *device_list_find(const struct device_list *list, const char *who)
{
	for (int i = 0; i < list->count; i++) {
		const struct device_list_entry *e = &list->entries[i];

		if (limits_names(who, e->is_mig ? -1 : e->index, e->uuid))
			return e;
	}
	return NULL;
}
