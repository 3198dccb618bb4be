/* libnvidia-ml.so.1 of the software GPU: what it answers, and what it leaves alone. */
#include "machine.h"
#include "place.h"

#include "abi/nvml.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define CONFIG "count=2,mem=64m,reserved=8m,name=One/Two,sms=16,cc=8.6,driver=12.4,nvml=550.54.15"

enum { GUARD = 0x5a };

struct stage {
	_Atomic uint32_t ready;
	_Atomic uint32_t go;
};

/* One file for all tests: the library stays with the machine it opened first. */
static int make_machine(void **state)
{
	(void)state;
	place_make(CONFIG);
	return 0;
}

static int remove_machine(void **state)
{
	(void)state;
	place_remove();
	return 0;
}

static int setup(void **state)
{
	*state = place_shared(sizeof(struct stage));
	return 0;
}

/* Attaches this process and gives the handle of device 0. */
static nvmlDevice_t first_device(void)
{
	nvmlDevice_t dev;

	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &dev), NVML_SUCCESS);
	return dev;
}

static int work_on_device(void *arg)
{
	struct stage *stage = arg;

	if (machine_open() || machine_take(0, 10 * MIB))
		return 1;
	machine_set_context(0, true);
	atomic_store(&stage->ready, 1);
	return place_await(&stage->go, 1) ? 0 : 2;
}

static pid_t start_work(struct stage *stage)
{
	pid_t pid = place_start(work_on_device, stage);

	assert_true(place_await(&stage->ready, 1));
	return pid;
}

static void test_init_is_counted(void **state)
{
	unsigned int count;

	(void)state;
	assert_int_equal(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlDeviceGetMigMode(NULL, NULL, NULL), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlInitWithFlags(1u << 30), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlInit(), NVML_SUCCESS);
	assert_int_equal(nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS), NVML_SUCCESS);
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetCount(&count), NVML_SUCCESS);
	assert_int_equal(count, 2);
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetCount(&count), NVML_ERROR_UNINITIALIZED);
}

static void test_identity(void **state)
{
	nvmlDevice_t dev = first_device(), same;
	nvmlUUID_t uuid = { .version = nvmlUUID_v1, .type = 2 };
	char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	unsigned int number;
	int major, minor;

	(void)state;
	assert_int_equal(nvmlDeviceGetName(dev, text, sizeof(text)), NVML_SUCCESS);
	assert_string_equal(text, "One");
	assert_int_equal(nvmlDeviceGetName(dev, text, 3), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(nvmlDeviceGetUUID(dev, text, sizeof(text)), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetHandleByUUID(text, &same), NVML_SUCCESS);
	assert_ptr_equal(same, dev);
	assert_int_equal(nvmlDeviceGetHandleByUUID("GPU-0", &same), NVML_ERROR_NOT_FOUND);
	assert_int_equal(machine_open(), 0);
	memcpy(uuid.value.bytes, machine_device(0)->uuid_bytes, 16);
	assert_int_equal(nvmlDeviceGetHandleByUUIDV(&uuid, &same), NVML_SUCCESS);
	assert_ptr_equal(same, dev);
	assert_int_equal(nvmlDeviceGetSerial(dev, text, sizeof(text)), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetHandleBySerial(text, &same), NVML_SUCCESS);
	assert_ptr_equal(same, dev);
	assert_int_equal(nvmlDeviceGetIndex(dev, &number), NVML_SUCCESS);
	assert_int_equal(number, 0);
	assert_int_equal(nvmlDeviceGetCudaComputeCapability(dev, &major, &minor), NVML_SUCCESS);
	assert_int_equal(major * 10 + minor, 86);
	assert_int_equal(nvmlDeviceGetArchitecture(dev, &number), NVML_SUCCESS);
	assert_int_equal(number, NVML_DEVICE_ARCH_AMPERE);
	assert_int_equal(nvmlDeviceGetHandleByIndex(2, &same), NVML_ERROR_INVALID_ARGUMENT);
	nvmlShutdown();
}

static void test_versions(void **state)
{
	char text[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
	int version = 0;

	(void)state;
	first_device();
	assert_int_equal(nvmlSystemGetCudaDriverVersion(&version), NVML_SUCCESS);
	assert_int_equal(version, 12040);
	assert_int_equal(nvmlSystemGetDriverVersion(text, sizeof(text)), NVML_SUCCESS);
	assert_string_equal(text, "550.54.15");
	assert_int_equal(nvmlSystemGetNVMLVersion(text, sizeof(text)), NVML_SUCCESS);
	assert_string_equal(text, "12.550.54.15");
	nvmlShutdown();
}

/* What the library wrote behind `bytes` of *pci. */
static void assert_untouched(const nvmlPciInfo_t *pci, size_t bytes)
{
	const unsigned char *raw = (const unsigned char *)pci;

	for (size_t k = bytes; k < sizeof(*pci); k++)
		assert_int_equal(raw[k], GUARD);
}

static void test_pci_forms(void **state)
{
	nvmlDevice_t dev = first_device(), same;
	nvmlPciInfo_t pci;

	(void)state;
	memset(&pci, GUARD, sizeof(pci));
	assert_int_equal(nvmlDeviceGetPciInfo(dev, &pci), NVML_SUCCESS);
	assert_string_equal(pci.busIdLegacy, "0000:01:00.0");
	assert_untouched(&pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
	memset(&pci, GUARD, sizeof(pci));
	assert_int_equal(nvmlDeviceGetPciInfo_v2(dev, &pci), NVML_SUCCESS);
	assert_untouched(&pci, offsetof(nvmlPciInfo_t, busId));
	assert_int_equal(nvmlDeviceGetPciInfo_v3(dev, &pci), NVML_SUCCESS);
	assert_string_equal(pci.busId, "00000000:01:00.0");
	assert_int_equal(nvmlDeviceGetHandleByPciBusId(pci.busId, &same), NVML_SUCCESS);
	assert_ptr_equal(same, dev);
	assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2("01:00.0", &same), NVML_SUCCESS);
	assert_ptr_equal(same, dev);
	assert_int_equal(nvmlDeviceGetHandleByPciBusId("0000:09:00.0", &same),
			 NVML_ERROR_NOT_FOUND);
	assert_int_equal(nvmlDeviceGetHandleByPciBusId("x", &same), NVML_ERROR_INVALID_ARGUMENT);
	nvmlShutdown();
}

static void test_memory_tells_one_story(void **state)
{
	nvmlMemory_v2_t full = { .version = nvmlMemory_v2 };
	struct stage *stage = *state;
	nvmlDevice_t dev = first_device();
	pid_t pid = start_work(stage);
	nvmlMemory_t plain;

	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(dev, &full), NVML_SUCCESS);
	assert_int_equal(full.total, 72 * MIB);
	assert_int_equal(full.reserved, 8 * MIB);
	assert_int_equal(full.used, 10 * MIB);
	assert_int_equal(full.free, 54 * MIB);
	assert_int_equal(nvmlDeviceGetMemoryInfo(dev, &plain), NVML_SUCCESS);
	assert_int_equal(plain.total, 72 * MIB);
	assert_int_equal(plain.used, 18 * MIB);
	assert_int_equal(plain.free, 54 * MIB);
	full.version = 2;
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(dev, &full),
			 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	place_kill(pid);
	assert_int_equal(nvmlDeviceGetMemoryInfo(dev, &plain), NVML_SUCCESS);
	assert_int_equal(plain.free, 64 * MIB);
	nvmlShutdown();
}

static void test_process_lists(void **state)
{
	struct stage *stage = *state;
	nvmlDevice_t dev = first_device();
	nvmlProcessInfo_v1_t first[2];
	nvmlProcessInfo_t third[2];
	unsigned int count = 0;
	pid_t pid;

	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(dev, &count, NULL), NVML_SUCCESS);
	assert_int_equal(count, 0);
	pid = start_work(stage);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(dev, &count, NULL),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(count, 1);
	memset(first, GUARD, sizeof(first));
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses(dev, &count, first), NVML_SUCCESS);
	assert_int_equal(first[0].pid, pid);
	assert_int_equal(first[0].usedGpuMemory, 10 * MIB);
	assert_int_equal(first[1].pid, 0x5a5a5a5a);
	count = 2;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(dev, &count, third), NVML_SUCCESS);
	assert_int_equal(count, 1);
	assert_int_equal(third[0].pid, pid);
	assert_int_equal(third[0].usedGpuMemory, 10 * MIB);
	assert_int_equal(third[0].gpuInstanceId, NVML_GPU_INSTANCE_ID_ANY);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v2(dev, &count, NULL),
			 NVML_ERROR_INVALID_ARGUMENT);
	count = 2;
	assert_int_equal(nvmlDeviceGetGraphicsRunningProcesses_v3(dev, &count, third),
			 NVML_SUCCESS);
	assert_int_equal(count, 0);
	place_kill(pid);
	count = 2;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(dev, &count, third), NVML_SUCCESS);
	assert_int_equal(count, 0);
	nvmlShutdown();
}

static void test_process_details(void **state)
{
	struct stage *stage = *state;
	nvmlDevice_t dev = first_device();
	nvmlProcessDetail_v1_t detail;
	nvmlProcessDetailList_t list = { .version = nvmlProcessDetailList_v1 };
	pid_t pid = start_work(stage);
	char name[256] = "";

	assert_int_equal(nvmlDeviceGetRunningProcessDetailList(dev, &list),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(list.numProcArrayEntries, 1);
	list.procArray = &detail;
	assert_int_equal(nvmlDeviceGetRunningProcessDetailList(dev, &list), NVML_SUCCESS);
	assert_int_equal(detail.pid, pid);
	assert_int_equal(detail.usedGpuMemory, 10 * MIB);
	list.version = 0;
	assert_int_equal(nvmlDeviceGetRunningProcessDetailList(dev, &list),
			 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	assert_int_equal(nvmlSystemGetProcessName((unsigned)pid, name, sizeof(name)), NVML_SUCCESS);
	assert_non_null(strstr(name, "test_nvml"));
	atomic_store(&stage->go, 1);
	assert_int_equal(place_wait(pid), 0);
	assert_int_equal(nvmlSystemGetProcessName((unsigned)pid, name, sizeof(name)),
			 NVML_ERROR_NOT_FOUND);
	nvmlShutdown();
}

static void test_process_utilization(void **state)
{
	struct stage *stage = *state;
	nvmlDevice_t dev = first_device();
	nvmlProcessUtilizationSample_t samples[128];
	unsigned int count = 0;
	pid_t pid = start_work(stage);

	assert_int_equal(nvmlDeviceGetProcessUtilization(dev, NULL, &count, 0),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_in_range(count, 1, 128);
	count = 1; /* less than the driver's own buffer holds, though enough for what there is */
	assert_int_equal(nvmlDeviceGetProcessUtilization(dev, samples, &count, 0),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(nvmlDeviceGetProcessUtilization(dev, samples, &count, 0),
			 NVML_ERROR_NOT_FOUND); /* it did nothing */
	place_kill(pid);
	nvmlShutdown();
}

static void test_null_and_foreign_arguments(void **state)
{
	nvmlDevice_t dev = first_device();
	char elsewhere[8];
	unsigned int number;

	(void)state;
	assert_int_equal(nvmlDeviceGetCount_v2(NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetHandleByUUID(NULL, &dev), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetName(dev, NULL, 9), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetMemoryInfo(dev, NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(dev, NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses(dev, NULL, NULL),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetEccMode(dev, NULL, NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetIndex(NULL, &number), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetIndex((nvmlDevice_t)(void *)elsewhere, &number),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlSystemGetDriverVersion(NULL, 0), NVML_ERROR_INVALID_ARGUMENT);
	assert_string_equal(nvmlErrorString(NVML_ERROR_NOT_FOUND), "Not Found");
	assert_string_equal(nvmlErrorString((nvmlReturn_t)12345), "Unknown Error");
	nvmlShutdown();
}

static void test_fields_answer_each_for_itself(void **state)
{
	nvmlDevice_t dev = first_device();
	nvmlFieldValue_t fields[3] = { { .fieldId = NVML_FI_DEV_POWER_INSTANT },
				       { .fieldId = NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION },
				       { .fieldId = NVML_FI_DEV_MEMORY_TEMP } };
	unsigned int power;

	(void)state;
	assert_int_equal(nvmlDeviceGetFieldValues(dev, 3, fields), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetPowerUsage(dev, &power), NVML_SUCCESS);
	assert_int_equal(fields[0].nvmlReturn, NVML_SUCCESS);
	assert_int_equal(fields[0].value.uiVal, power);
	assert_int_equal(fields[1].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
	assert_int_equal(fields[2].nvmlReturn, NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetFieldValues(dev, 0, fields), NVML_ERROR_INVALID_ARGUMENT);
	nvmlShutdown();
}

static void test_events(void **state)
{
	nvmlDevice_t dev = first_device();
	nvmlEventSet_t set;
	nvmlEventData_t data;

	(void)state;
	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceRegisterEvents(dev, nvmlEventTypeXidCriticalError, set),
			 NVML_SUCCESS);
	assert_int_equal(nvmlEventSetWait(set, &data, 1), NVML_ERROR_TIMEOUT);
	assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
	assert_int_equal(nvmlEventSetFree(set), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlEventSetWait_v2(set, &data, 1), NVML_ERROR_INVALID_ARGUMENT);
	nvmlShutdown();
}

static int ask_in_child(void *arg)
{
	nvmlMemory_t memory;
	nvmlDevice_t dev;

	return nvmlDeviceGetMemoryInfo(arg, &memory) != NVML_ERROR_UNINITIALIZED ||
	       nvmlShutdown() != NVML_ERROR_UNINITIALIZED || nvmlInit_v2() != NVML_SUCCESS ||
	       nvmlDeviceGetHandleByIndex_v2(0, &dev) != NVML_SUCCESS ||
	       nvmlDeviceGetMemoryInfo(dev, &memory) != NVML_SUCCESS || memory.total != 72 * MIB ||
	       nvmlShutdown() != NVML_SUCCESS ||
	       nvmlDeviceGetMemoryInfo(dev, &memory) != NVML_ERROR_UNINITIALIZED;
}

static void test_fork_child_begins_anew(void **state)
{
	nvmlDevice_t dev = first_device();
	nvmlMemory_t memory;

	(void)state;
	assert_int_equal(place_run(ask_in_child, dev), 0);
	assert_int_equal(nvmlDeviceGetMemoryInfo(dev, &memory), NVML_SUCCESS);
	nvmlShutdown();
}

static int init_with_bad_config(void *arg)
{
	(void)arg;
	setenv("RATION_SIM", "mem=4x", 1);
	return nvmlInit_v2() != NVML_ERROR_DRIVER_NOT_LOADED;
}

static void test_bad_config_is_no_driver(void **state)
{
	(void)state;
	assert_int_equal(place_run(init_with_bad_config, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_init_is_counted, setup),
		cmocka_unit_test_setup(test_identity, setup),
		cmocka_unit_test_setup(test_versions, setup),
		cmocka_unit_test_setup(test_pci_forms, setup),
		cmocka_unit_test_setup(test_memory_tells_one_story, setup),
		cmocka_unit_test_setup(test_process_lists, setup),
		cmocka_unit_test_setup(test_process_details, setup),
		cmocka_unit_test_setup(test_process_utilization, setup),
		cmocka_unit_test_setup(test_null_and_foreign_arguments, setup),
		cmocka_unit_test_setup(test_fields_answer_each_for_itself, setup),
		cmocka_unit_test_setup(test_events, setup),
		cmocka_unit_test_setup(test_fork_child_begins_anew, setup),
		cmocka_unit_test_setup(test_bad_config_is_no_driver, setup),
	};

	return cmocka_run_group_tests(tests, make_machine, remove_machine);
}
