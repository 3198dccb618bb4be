#include "tools/doctor_driver.h"

#include "tools/doctor_report.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOPIC "driver"

static const char *path_of(void *handle)
{
	struct link_map *map = NULL;

	return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] ? map->l_name :
									      "(unknown path)";
}

/* True when the library is Ration's software GPU, by its messages. The real one is far larger. */
static bool is_software(const char *path)
{
	enum { SOFTWARE_BYTES_MAX = 8 << 20 };
	static const char mark[] = "ration-sim: ";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool found = false;
	struct stat st;
	char *text;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size < SOFTWARE_BYTES_MAX) {
		text = malloc((size_t)st.st_size);
		if (text && pread(fd, text, (size_t)st.st_size, 0) == (ssize_t)st.st_size)
			found = memmem(text, (size_t)st.st_size, mark, sizeof(mark) - 1);
		free(text);
	}
	close(fd);
	return found;
}

const char *doctor_driver_error(const struct doctor_driver *d, CUresult result)
{
	const char *name = NULL;

	if (d->error_name && d->error_name(result, &name) == CUDA_SUCCESS && name)
		return name;
	return "an error without a name";
}

bool doctor_driver_uuid(const struct doctor_driver *d, CUdevice dev, char out[48])
{
	unsigned char b[16];
	CUuuid uuid;

	if (!d->uuid || d->uuid(&uuid, dev) != CUDA_SUCCESS)
		return false;
	memcpy(b, &uuid, sizeof(b));
	snprintf(out, 48,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
	return true;
}

static void find_cuda(struct doctor_driver *d)
{
	d->init = dlsym(d->cuda, "cuInit");
	d->version = dlsym(d->cuda, "cuDriverGetVersion");
	d->error_name = dlsym(d->cuda, "cuGetErrorName");
	d->count = dlsym(d->cuda, "cuDeviceGetCount");
	d->get = dlsym(d->cuda, "cuDeviceGet");
	d->name = dlsym(d->cuda, "cuDeviceGetName");
	d->uuid = dlsym(d->cuda, "cuDeviceGetUuid_v2");
	if (!d->uuid)
		d->uuid = dlsym(d->cuda, "cuDeviceGetUuid");
	d->total = dlsym(d->cuda, "cuDeviceTotalMem_v2");
	d->retain = dlsym(d->cuda, "cuDevicePrimaryCtxRetain");
	d->release = dlsym(d->cuda, "cuDevicePrimaryCtxRelease_v2");
	d->proc_address = dlsym(d->cuda, "cuGetProcAddress");
	d->proc_address_v2 = dlsym(d->cuda, "cuGetProcAddress_v2");
}

static void find_nvml(struct doctor_driver *d)
{
	d->nvml_init = dlsym(d->nvml, "nvmlInit_v2");
	d->nvml_version = dlsym(d->nvml, "nvmlSystemGetDriverVersion");
	d->nvml_by_uuid = dlsym(d->nvml, "nvmlDeviceGetHandleByUUID");
	d->nvml_memory = dlsym(d->nvml, "nvmlDeviceGetMemoryInfo");
	d->nvml_memory_v2 = dlsym(d->nvml, "nvmlDeviceGetMemoryInfo_v2");
}

static void start_cuda(struct doctor_driver *d)
{
	const char *path = path_of(d->cuda);
	int version = 0, count = 0;
	CUresult res;

	if (d->version)
		d->version(&version);
	doctor_report(DOCTOR_OK, TOPIC, "%s, CUDA %d.%d, %s", path, version / 1000,
		      version % 1000 / 10,
		      is_software(path) ? "the Ration software GPU" : "a real driver");
	res = d->init ? d->init(0) : CUDA_ERROR_NOT_FOUND;
	if (res != CUDA_SUCCESS) {
		doctor_report(
			DOCTOR_FAIL, TOPIC,
			"cuInit gives %d (%s); if a line above does not explain it, see whether "
			"`nvidia-smi` works without Ration",
			(int)res, doctor_driver_error(d, res));
		return;
	}
	d->is_ready = true;
	if (!d->count || d->count(&count) != CUDA_SUCCESS || count == 0)
		doctor_report(DOCTOR_FAIL, TOPIC,
			      "the driver shows no device; look at CUDA_VISIBLE_DEVICES and at the "
			      "container's devices");
	else
		doctor_report(DOCTOR_OK, TOPIC, "%d device%s", count, count == 1 ? "" : "s");
}

static void start_nvml(struct doctor_driver *d)
{
	const char *path = path_of(d->nvml);
	char version[96] = "unknown";
	nvmlReturn_t res = d->nvml_init ? d->nvml_init() : NVML_ERROR_FUNCTION_NOT_FOUND;

	if (res != NVML_SUCCESS) {
		doctor_report(
			DOCTOR_FAIL, TOPIC,
			"%s: nvmlInit gives %d; see whether `nvidia-smi` works without Ration",
			path, (int)res);
		return;
	}
	if (d->nvml_version)
		d->nvml_version(version, sizeof(version));
	doctor_report(DOCTOR_OK, TOPIC, "%s, driver %s, %s", path, version,
		      is_software(path) ? "the Ration software GPU" : "a real driver");
}

void doctor_driver_open(struct doctor_driver *d)
{
	memset(d, 0, sizeof(*d));
	d->cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (d->cuda) {
		find_cuda(d);
		start_cuda(d);
	} else {
		doctor_report(
			DOCTOR_FAIL, TOPIC,
			"there is no CUDA driver here (%s); install NVIDIA's, give the container "
			"its GPU, or try `ration doctor --sim`",
			dlerror());
	}
	d->nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (d->nvml) {
		find_nvml(d);
		start_nvml(d);
	} else {
		doctor_report(d->cuda ? DOCTOR_WARN : DOCTOR_NOTE, TOPIC,
			      "there is no NVML here (%s); nvidia-smi and monitors need it",
			      dlerror());
	}
}
