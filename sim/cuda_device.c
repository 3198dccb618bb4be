#include "cuda_device.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cuda_call.h"

static struct {
	int count;                  /* constant after cuInit */
	int index[MACHINE_DEVICES]; /* constant after cuInit: machine index of each ordinal */
} devices;

/* The device whose UUID starts with `text`; -1 when none or more than one does. */
static int find_uuid(const char *text, size_t len)
{
	int found = -1;

	for (int i = 0; i < machine_count(); i++) {
		if (strncasecmp(machine_device(i)->uuid, text, len) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

/* Of a divided card its first slice. */
static int usable(int i)
{
	return i >= 0 && machine_device(i)->slices ? machine_slice(i, 1) : i;
}

static int find_device(const char *text, size_t len)
{
	char *end;
	long value;

	if (len > 4 && (!strncasecmp(text, "GPU-", 4) || !strncasecmp(text, "MIG-", 4)))
		return usable(find_uuid(text, len));
	errno = 0;
	value = strtol(text, &end, 10);
	if (end != text + len || end == text || errno || value < 0 || value >= machine_cards())
		return -1;
	return usable((int)value);
}

static bool is_listed(int index)
{
	for (int i = 0; i < devices.count; i++)
		if (devices.index[i] == index)
			return true;
	return false;
}

/* The list ends at its first invalid entry; a device named twice leaves no device at all. */
static void enumerate(const char *list)
{
	devices.count = 0;
	while (*list && devices.count < MACHINE_DEVICES) {
		size_t len, full = strcspn(list, ",");
		int index;

		while (full && isspace((unsigned char)*list)) {
			list++;
			full--;
		}
		for (len = full; len && isspace((unsigned char)list[len - 1]); len--)
			;
		index = find_device(list, len);
		if (index < 0)
			return;
		if (is_listed(index)) {
			devices.count = 0;
			return;
		}
		devices.index[devices.count++] = index;
		list += full + (list[full] == ',');
	}
}

/* Where there is a slice among them, the first one is all that a process has. */
static void keep_one_slice(void)
{
	for (int i = 0; i < devices.count; i++) {
		if (!machine_device(devices.index[i])->slice)
			continue;
		devices.index[0] = devices.index[i];
		devices.count = 1;
	}
}

CUresult cuda_device_enumerate(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");

	if (list) {
		enumerate(list);
	} else {
		devices.count = machine_cards();
		for (int i = 0; i < devices.count; i++)
			devices.index[i] = usable(i);
	}
	keep_one_slice();
	return devices.count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

int cuda_device_count(void)
{
	return devices.count;
}

bool cuda_device_is_valid(CUdevice dev)
{
	return dev >= 0 && dev < devices.count;
}

int cuda_device_index(CUdevice dev)
{
	return devices.index[dev];
}

const struct machine_device *cuda_device_get(CUdevice dev)
{
	return machine_device(devices.index[dev]);
}

/* Starts a call about one device. */
static CUresult begin(enum cuda_id id, CUdevice dev, const void *out)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!cuda_device_is_valid(dev))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *out_count)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuDeviceGetCount);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_count)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_count = devices.count;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *out_dev, int ordinal)
{
	CUresult res = begin(CUDA_ID_cuDeviceGet, ordinal, out_dev);

	if (res != CUDA_SUCCESS)
		return res;
	*out_dev = ordinal;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *out_name, int len, CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuDeviceGetName, dev, out_name);

	if (res != CUDA_SUCCESS)
		return res;
	if (len <= 0)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	snprintf(out_name, (size_t)len, "%s", cuda_device_get(dev)->name);
	return cuda_call_end(CUDA_SUCCESS);
}

/* The first form knows no slices: it names the card. */
CUresult cuDeviceGetUuid(CUuuid *out_uuid, CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuDeviceGetUuid, dev, out_uuid);
	const struct machine_device *card;

	if (res != CUDA_SUCCESS)
		return res;
	card = machine_device((int)cuda_device_get(dev)->card);
	memcpy(out_uuid->bytes, card->uuid_bytes, sizeof(out_uuid->bytes));
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDeviceGetUuid_v2(CUuuid *out_uuid, CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuDeviceGetUuid_v2, dev, out_uuid);

	if (res != CUDA_SUCCESS)
		return res;
	memcpy(out_uuid->bytes, cuda_device_get(dev)->uuid_bytes, sizeof(out_uuid->bytes));
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDeviceTotalMem_v2(size_t *out_bytes, CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuDeviceTotalMem_v2, dev, out_bytes);

	if (res != CUDA_SUCCESS)
		return res;
	*out_bytes = cuda_device_get(dev)->memory_bytes;
	return cuda_call_end(CUDA_SUCCESS);
}

/* The form of the 32-bit days: what does not fit is cut off at the largest figure that does. */
CUresult cuDeviceTotalMem(unsigned int *out_bytes, CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuDeviceTotalMem, dev, out_bytes);
	uint64_t total_bytes;

	if (res != CUDA_SUCCESS)
		return res;
	total_bytes = cuda_device_get(dev)->memory_bytes;
	*out_bytes = total_bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)total_bytes;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDeviceComputeCapability(int *out_major, int *out_minor, CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuDeviceComputeCapability, dev, out_major);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_minor)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_major = (int)cuda_device_get(dev)->cc_major;
	*out_minor = (int)cuda_device_get(dev)->cc_minor;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDeviceGetAttribute(int *out_value, CUdevice_attribute attribute, CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuDeviceGetAttribute, dev, out_value);

	if (res != CUDA_SUCCESS)
		return res;
	return cuda_call_end(cuda_device_attribute(dev, attribute, out_value));
}

CUresult cuDeviceGetPCIBusId(char *out_id, int len, CUdevice dev)
{
	const struct machine_device *d;
	CUresult res = begin(CUDA_ID_cuDeviceGetPCIBusId, dev, out_id);
	char text[32];

	if (res != CUDA_SUCCESS)
		return res;
	d = cuda_device_get(dev);
	snprintf(text, sizeof(text), "%04X:%02X:%02X.0", d->pci_domain & 0xffff, d->pci_bus & 0xff,
		 d->pci_device & 0xff);
	if (len <= (int)strlen(text))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	memcpy(out_id, text, strlen(text) + 1);
	return cuda_call_end(CUDA_SUCCESS);
}

/* Accepts domain:bus:device.function, domain:bus:device and bus:device.function, all hexadecimal. */
CUresult cuDeviceGetByPCIBusId(CUdevice *out_dev, const char *id)
{
	unsigned domain = 0, bus, device, function = 0;
	CUresult res = cuda_call_begin(CUDA_ID_cuDeviceGetByPCIBusId);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_dev || !id)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) {
		domain = 0;
		if (sscanf(id, "%x:%x.%x", &bus, &device, &function) != 3)
			return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	}
	for (int i = 0; i < devices.count; i++) {
		const struct machine_device *d = cuda_device_get(i);

		if (d->pci_domain == domain && d->pci_bus == bus && d->pci_device == device &&
		    function == 0) {
			*out_dev = i;
			return cuda_call_end(CUDA_SUCCESS);
		}
	}
	return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuDeviceGetLuid(char *out_luid, unsigned int *out_node_mask, CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuDeviceGetLuid, dev, out_luid);

	(void)out_node_mask;
	return res == CUDA_SUCCESS ? cuda_call_end(CUDA_ERROR_NOT_SUPPORTED) : res;
}
