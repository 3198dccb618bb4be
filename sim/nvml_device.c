/* Devices: handles and identity. */
#include "nvml_device.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A handle points into this table; only its place in it matters. */
struct nvmlDevice_st {
	char place;
};

static struct nvmlDevice_st handles[MACHINE_DEVICES];

enum { CORES_PER_SM = 128, UUID_ASCII = 1, UUID_BINARY = 2 };

nvmlReturn_t nvml_device_find_any(nvmlDevice_t dev, int *out_index)
{
	uintptr_t at = (uintptr_t)dev, base = (uintptr_t)handles;
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (at < base || (at - base) / sizeof(handles[0]) >= (uintptr_t)machine_count())
		return NVML_ERROR_INVALID_ARGUMENT;
	*out_index = (int)((at - base) / sizeof(handles[0]));
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_device_find(nvmlDevice_t dev, int *out_index)
{
	int i;
	nvmlReturn_t res = nvml_device_find_any(dev, &i);

	if (res)
		return res;
	if (machine_device(i)->slice)
		return NVML_ERROR_NOT_SUPPORTED;
	*out_index = i;
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_device_ask_any(nvmlDevice_t dev, const void *out, int *out_index)
{
	nvmlReturn_t res = nvml_device_find_any(dev, out_index);

	if (res)
		return res;
	return out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvml_device_ask(nvmlDevice_t dev, const void *out, int *out_index)
{
	nvmlReturn_t res = nvml_device_find(dev, out_index);

	if (res)
		return res;
	return out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlDevice_t nvml_device_handle(int i)
{
	return &handles[i];
}

nvmlReturn_t nvml_device_answer(nvmlDevice_t dev, unsigned int *out, unsigned int value)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out, &i);

	if (!res)
		*out = value;
	return res;
}

nvmlReturn_t nvml_device_write(const char *text, char *out, unsigned int len)
{
	size_t need = strlen(text) + 1;

	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (len < need)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(out, text, need);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *out_count)
{
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (!out_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out_count = (unsigned)machine_cards();
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *out_count)
{
	return nvmlDeviceGetCount_v2(out_count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *out_dev)
{
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (!out_dev || index >= (unsigned)machine_cards())
		return NVML_ERROR_INVALID_ARGUMENT;
	*out_dev = &handles[index];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *out_dev)
{
	return nvmlDeviceGetHandleByIndex_v2(index, out_dev);
}

typedef bool is_device(nvmlDevice_t dev, const void *key);

static bool find_slice(nvmlDevice_t card, is_device *is_it, const void *key, nvmlDevice_t *out_dev)
{
	unsigned int most = 0;

	if (nvmlDeviceGetMaxMigDeviceCount(card, &most))
		return false;
	for (unsigned int index = 0; index < most; index++) {
		nvmlDevice_t mig;

		if (nvmlDeviceGetMigDeviceHandleByIndex(card, index, &mig) || !is_it(mig, key))
			continue;
		*out_dev = mig;
		return true;
	}
	return false;
}

/* Finds a device by what `is_it` compares with `key`; goes through the exported functions. */
static nvmlReturn_t find_by(is_device *is_it, const void *key, nvmlDevice_t *out_dev)
{
	unsigned int count = 0;
	nvmlReturn_t res = nvmlDeviceGetCount_v2(&count);

	if (res)
		return res;
	if (!key || !out_dev)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned int index = 0; index < count; index++) {
		nvmlDevice_t dev;

		if (nvmlDeviceGetHandleByIndex_v2(index, &dev))
			continue;
		if (is_it(dev, key))
			*out_dev = dev;
		else if (!find_slice(dev, is_it, key, out_dev))
			continue;
		return NVML_SUCCESS;
	}
	return NVML_ERROR_NOT_FOUND;
}

static bool has_uuid(nvmlDevice_t dev, const void *key)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];

	return !nvmlDeviceGetUUID(dev, uuid, sizeof(uuid)) && !strcasecmp(uuid, key);
}

static bool has_uuid_bytes(nvmlDevice_t dev, const void *key)
{
	int i;

	return !nvml_device_find_any(dev, &i) && !memcmp(machine_device(i)->uuid_bytes, key, 16);
}

static bool has_serial(nvmlDevice_t dev, const void *key)
{
	char serial[NVML_DEVICE_SERIAL_BUFFER_SIZE];

	return !nvmlDeviceGetSerial(dev, serial, sizeof(serial)) && !strcmp(serial, key);
}

static bool has_bus_id(nvmlDevice_t dev, const void *key)
{
	const unsigned *want = key; /* domain, bus, device */
	nvmlPciInfo_t pci;

	return !nvmlDeviceGetPciInfo_v3(dev, &pci) && pci.domain == want[0] && pci.bus == want[1] &&
	       pci.device == want[2];
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out_dev)
{
	return find_by(has_uuid, uuid, out_dev);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *out_dev)
{
	char text[sizeof(uuid->value.str) + 1] = "";
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (!uuid || !out_dev)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (uuid->version != nvmlUUID_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (uuid->type == UUID_BINARY)
		return find_by(has_uuid_bytes, uuid->value.bytes, out_dev);
	if (uuid->type != UUID_ASCII)
		return NVML_ERROR_INVALID_ARGUMENT;
	memcpy(text, uuid->value.str, sizeof(uuid->value.str));
	return nvmlDeviceGetHandleByUUID(text, out_dev);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *out_dev)
{
	return find_by(has_serial, serial, out_dev);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pci_bus_id, nvmlDevice_t *out_dev)
{
	unsigned id[3] = { 0 }, function = 0;
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (!pci_bus_id || !out_dev)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (sscanf(pci_bus_id, "%x:%x:%x.%x", &id[0], &id[1], &id[2], &function) < 3) {
		id[0] = 0;
		if (sscanf(pci_bus_id, "%x:%x.%x", &id[1], &id[2], &function) < 2)
			return NVML_ERROR_INVALID_ARGUMENT;
	}
	return function ? NVML_ERROR_NOT_FOUND : find_by(has_bus_id, id, out_dev);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pci_bus_id, nvmlDevice_t *out_dev)
{
	return nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id, out_dev);
}

static nvmlReturn_t answer_index(nvmlDevice_t dev, unsigned int *out)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out, &i);

	if (!res)
		*out = (unsigned)i;
	return res;
}

/* Of a slice its place on the card. */
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t dev, unsigned int *out_index)
{
	int i;
	nvmlReturn_t res = nvml_device_ask_any(dev, out_index, &i);

	if (!res)
		*out_index = machine_device(i)->slice ? machine_device(i)->slice - 1 : (unsigned)i;
	return res;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t dev, unsigned int *out_minor_number)
{
	return answer_index(dev, out_minor_number);
}

nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t dev, unsigned int *out_module_id)
{
	return answer_index(dev, out_module_id);
}

nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t dev, unsigned int *out_board_id)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_board_id, &i);

	if (!res)
		*out_board_id = machine_device(i)->pci_bus << 8;
	return res;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t dev, char *out_name, unsigned int len)
{
	int i;
	nvmlReturn_t res = nvml_device_ask_any(dev, out_name, &i);

	return res ? res : nvml_device_write(machine_device(i)->name, out_name, len);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t dev, char *out_uuid, unsigned int len)
{
	int i;
	nvmlReturn_t res = nvml_device_ask_any(dev, out_uuid, &i);

	return res ? res : nvml_device_write(machine_device(i)->uuid, out_uuid, len);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t dev, char *out_serial, unsigned int len)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_serial, &i);

	return res ? res : nvml_device_write(machine_device(i)->serial, out_serial, len);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t dev, nvmlBrandType_t *out_type)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_type, &i);

	if (!res)
		*out_type = NVML_BRAND_NVIDIA;
	return res;
}

static nvmlDeviceArchitecture_t architecture(unsigned major, unsigned minor)
{
	switch (major) {
	case 3:
		return NVML_DEVICE_ARCH_KEPLER;
	case 5:
		return NVML_DEVICE_ARCH_MAXWELL;
	case 6:
		return NVML_DEVICE_ARCH_PASCAL;
	case 7:
		return minor >= 5 ? NVML_DEVICE_ARCH_TURING : NVML_DEVICE_ARCH_VOLTA;
	case 8:
		return minor >= 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE;
	case 9:
		return NVML_DEVICE_ARCH_HOPPER;
	case 10:
	case 12:
		return NVML_DEVICE_ARCH_BLACKWELL;
	default:
		return NVML_DEVICE_ARCH_UNKNOWN;
	}
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t dev, nvmlDeviceArchitecture_t *out_arch)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_arch, &i);

	if (!res)
		*out_arch = architecture(machine_device(i)->cc_major, machine_device(i)->cc_minor);
	return res;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t dev, int *out_major, int *out_minor)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_major, &i);

	if (res)
		return res;
	if (!out_minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out_major = (int)machine_device(i)->cc_major;
	*out_minor = (int)machine_device(i)->cc_minor;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t dev, unsigned int *out_num_cores)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_num_cores, &i);

	if (!res)
		*out_num_cores = machine_device(i)->sms * CORES_PER_SM;
	return res;
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t dev, unsigned int *out_is_multi)
{
	return nvml_device_answer(dev, out_is_multi, 0);
}
