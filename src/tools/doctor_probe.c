#include "tools/doctor_probe.h"

#include "base/conf.h"
#include "tools/doctor_context.h"
#include "tools/doctor_driver.h"
#include "tools/doctor_loaded.h"
#include "tools/doctor_report.h"
#include "tools/doctor_totals.h"
#include "tools/tools_common.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC "interception"

/* Functions that must lead to the library wherever the driver has them. */
static const char *const cuda_names[] = {
	"cuInit",          "cuGetProcAddress", "cuGetProcAddress_v2", "cuDeviceTotalMem_v2",
	"cuMemGetInfo_v2", "cuMemAlloc_v2",    "cuMemAllocPitch_v2",  "cuMemAllocManaged",
	"cuMemCreate",     "cuMemFree_v2",     "cuLaunchKernel",
};

static const char *const nvml_names[] = {
	"nvmlDeviceGetMemoryInfo",
	"nvmlDeviceGetMemoryInfo_v2",
};

/* As programs ask cuGetProcAddress: without the version's suffix. */
static const char *const asked_names[] = { "cuMemAlloc", "cuMemGetInfo", "cuMemFree",
					   "cuLaunchKernel", "cuGetProcAddress" };

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* One way to the driver: how many of its answers lead to the library. */
struct way {
	const char *text;
	const struct doctor_loaded *loaded;
	int asked;
	int right;
};

/* Counts one answer; NULL is a function that the driver lacks. */
static void way_check(struct way *way, const char *name, void *function)
{
	Dl_info info;

	if (!function)
		return;
	way->asked++;
	if (doctor_loaded_has(way->loaded, function)) {
		way->right++;
		return;
	}
	doctor_report(
		DOCTOR_FAIL, TOPIC,
		"%s: %s leads to %s, past the library; preload it (`ration run`, LD_PRELOAD or "
		"/etc/ld.so.preload) before all other libraries",
		way->text, name,
		dladdr(function, &info) && info.dli_fname ? info.dli_fname : "an unknown place");
}

static void way_report(const struct way *way)
{
	if (way->asked == 0)
		doctor_report(DOCTOR_NOTE, TOPIC,
			      "%s: the driver has none of the functions asked for", way->text);
	else if (way->right == way->asked)
		doctor_report(DOCTOR_OK, TOPIC, "%s: %d of %d functions lead to the library",
			      way->text, way->right, way->asked);
}

static void check_linked(const struct doctor_driver *d, const struct doctor_loaded *loaded)
{
	struct way way = { "linked against libcuda", loaded, 0, 0 };

	for (size_t i = 0; i < COUNT(cuda_names); i++)
		if (dlsym(d->cuda, cuda_names[i]))
			way_check(&way, cuda_names[i], doctor_loaded_first(cuda_names[i]));
	way_report(&way);
}

static void check_default(const struct doctor_driver *d, const struct doctor_loaded *loaded)
{
	struct way way = { "dlsym(RTLD_DEFAULT)", loaded, 0, 0 };

	for (size_t i = 0; i < COUNT(cuda_names); i++)
		if (dlsym(d->cuda, cuda_names[i]))
			way_check(&way, cuda_names[i], dlsym(RTLD_DEFAULT, cuda_names[i]));
	way_report(&way);
}

static void check_handle(void *handle, const char *text, const char *const *names, size_t count,
			 const struct doctor_loaded *loaded)
{
	struct way way = { text, loaded, 0, 0 };

	for (size_t i = 0; i < count; i++)
		way_check(&way, names[i], dlsym(handle, names[i]));
	way_report(&way);
}

static void check_proc_address(const struct doctor_driver *d, const struct doctor_loaded *loaded)
{
	struct way way = { "cuGetProcAddress", loaded, 0, 0 };

	for (size_t i = 0; d->proc_address && i < COUNT(asked_names); i++) {
		void *function = NULL;

		if (d->proc_address(asked_names[i], &function, 12000,
				    CU_GET_PROC_ADDRESS_DEFAULT) == CUDA_SUCCESS)
			way_check(&way, asked_names[i], function);
	}
	way_report(&way);
}

static void check_proc_address_v2(const struct doctor_driver *d, const struct doctor_loaded *loaded,
				  const char *text, cuuint64_t flags)
{
	struct way way = { text, loaded, 0, 0 };

	for (size_t i = 0; d->proc_address_v2 && i < COUNT(asked_names); i++) {
		CUdriverProcAddressQueryResult status;
		void *function = NULL;

		if (d->proc_address_v2(asked_names[i], &function, 12000, flags, &status) ==
		    CUDA_SUCCESS)
			way_check(&way, asked_names[i], function);
	}
	way_report(&way);
}

static void check_ways(const struct doctor_driver *d, const struct doctor_loaded *loaded)
{
	if (loaded->own_count == 0) {
		doctor_report(
			DOCTOR_FAIL, TOPIC,
			"libration.so did not come up in a program started with it preloaded; look "
			"for a message of the dynamic linker above");
		return;
	}
	doctor_report(DOCTOR_OK, TOPIC, "%s is in front of the driver", loaded->own[0]->l_name);
	if (d->cuda) {
		check_linked(d, loaded);
		check_default(d, loaded);
		check_handle(d->cuda, "dlsym on libcuda's handle", cuda_names, COUNT(cuda_names),
			     loaded);
		check_proc_address(d, loaded);
		check_proc_address_v2(d, loaded, "cuGetProcAddress_v2",
				      CU_GET_PROC_ADDRESS_DEFAULT);
		check_proc_address_v2(d, loaded, "cuGetProcAddress_v2 for per-thread streams",
				      CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	}
	if (d->nvml)
		check_handle(d->nvml, "dlsym on NVML's handle", nvml_names, COUNT(nvml_names),
			     loaded);
}

int doctor_probe_main(int argc, char **argv)
{
	static struct conf conf;
	struct doctor_loaded loaded;
	struct doctor_driver driver;
	bool is_driver_only = argc > 1 && !strcmp(argv[1], "driver");
	int failures;

	doctor_loaded_find(&loaded);
	doctor_loaded_report(&loaded);
	doctor_driver_open(&driver);
	conf_load(&conf, CONF_FILE, tools_getenv);
	if (!is_driver_only) {
		check_ways(&driver, &loaded);
		if (loaded.own_count > 0)
			doctor_totals_report(&driver, conf.region_path);
	}
	doctor_context_report(&driver, loaded.own_count > 0 ? conf.region_path : NULL,
			      conf.context_free);
	fflush(stdout);
	failures = doctor_report_failures();
	return failures > DOCTOR_PROBE_MAX ? DOCTOR_PROBE_MAX : failures;
}
