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
#include <sys/mman.h>
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

/* Writes the answer, a status and the list, and ends. Standard error goes to `error_fd`, if >= 0. */
_Noreturn static void answer(const char *path, int fd, int error_fd)
{
	static struct device_list list;
	const char *at = (const char *)&list;
	bool written;
	int rc;

	if (error_fd >= 0)
		dup2(error_fd, STDERR_FILENO);
	rc = collect(path, &list);
	written = write(fd, &rc, sizeof(rc)) == (ssize_t)sizeof(rc);
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

/* Takes the first line of what was written to `fd`, and closes it. */
static void take_complaint(int fd, struct device_list *list)
{
	ssize_t n;

	list->complaint[0] = '\0';
	if (fd < 0)
		return;
	n = pread(fd, list->complaint, sizeof(list->complaint) - 1, 0);
	close(fd);
	list->complaint[n > 0 ? n : 0] = '\0';
	list->complaint[strcspn(list->complaint, "\n")] = '\0';
}

/* Reads what the process `pid` answers, and ends it. */
static int take_answer(int fd, pid_t pid, struct device_list *out_list)
{
	int64_t end_ns = clock_now_ns() + READ_WAIT_NS;
	int status, rc = read_all(fd, &status, sizeof(status), end_ns);

	if (rc == 0)
		rc = status;
	if (rc == 0)
		rc = read_all(fd, out_list, sizeof(*out_list), end_ns);
	if (rc == -ETIMEDOUT || rc == -EIO)
		kill(pid, SIGKILL);
	/* A process that hangs in the driver cannot be ended: then it is not waited for. */
	while (waitpid(pid, NULL, rc == -ETIMEDOUT ? WNOHANG : 0) < 0 && errno == EINTR)
		;
	return rc;
}

int device_list_read(const char *path, struct device_list *out_list)
{
	int fds[2], error_fd, rc = open_pipe(fds);
	pid_t pid;

	memset(out_list, 0, sizeof(*out_list));
	if (rc < 0)
		return rc;
	/* A file, not a pipe: whoever writes much there does not wait. */
	error_fd = region_fd_up(memfd_create("ration-errors", MFD_CLOEXEC));
	pid = fork();
	if (pid == 0)
		answer(path, fds[1], error_fd);
	rc = pid < 0 ? -errno : 0;
	close(fds[1]);
	if (rc == 0)
		rc = take_answer(fds[0], pid, out_list);
	close(fds[0]);
	take_complaint(error_fd, out_list);
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
