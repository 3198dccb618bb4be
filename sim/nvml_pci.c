/* Where devices are: PCI, topology, affinity. */
#include "nvml_device.h"

#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
	VENDOR_NVIDIA = 0x10de,
	DEVICE_ID = 0x0001, /* no product of NVIDIA's */
	CLASS_DISPLAY = 3,
	SUBCLASS_3D = 2,
	LINK_GENERATION = 5,
	LINK_WIDTH = 16,
	LINK_MBPS = 32000, /* per lane */
};

static void fill_pci(int i, nvmlPciInfo_t *out)
{
	const struct machine_device *device = machine_device(i);

	memset(out, 0, sizeof(*out));
	out->domain = device->pci_domain;
	out->bus = device->pci_bus;
	out->device = device->pci_device;
	out->pciDeviceId = (unsigned)DEVICE_ID << 16 | VENDOR_NVIDIA;
	out->pciSubSystemId = out->pciDeviceId;
	(void)snprintf(out->busIdLegacy, sizeof(out->busIdLegacy), "%04X:%02X:%02X.0",
		       device->pci_domain & 0xffff, device->pci_bus & 0xff,
		       device->pci_device & 0x1f);
	(void)snprintf(out->busId, sizeof(out->busId), "%s", device->pci_bus_id);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t dev, nvmlPciInfo_t *out_pci)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_pci, &i);

	if (!res)
		fill_pci(i, out_pci);
	return res;
}

/* The older structures end earlier: not a byte behind them is written. */
static nvmlReturn_t write_older(nvmlDevice_t dev, nvmlPciInfo_t *out_pci, size_t bytes)
{
	nvmlPciInfo_t pci;
	nvmlReturn_t res = nvmlDeviceGetPciInfo_v3(dev, &pci);

	if (res)
		return res;
	if (!out_pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	memcpy(out_pci, &pci, bytes);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t dev, nvmlPciInfo_t *out_pci)
{
	return write_older(dev, out_pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t dev, nvmlPciInfo_t *out_pci)
{
	return write_older(dev, out_pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t dev, nvmlPciInfoExt_t *out_pci)
{
	nvmlPciInfo_t pci;
	nvmlReturn_t res = nvmlDeviceGetPciInfo_v3(dev, &pci);

	if (res)
		return res;
	if (!out_pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (out_pci->version != nvmlPciInfoExt_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	out_pci->domain = pci.domain;
	out_pci->bus = pci.bus;
	out_pci->device = pci.device;
	out_pci->pciDeviceId = pci.pciDeviceId;
	out_pci->pciSubSystemId = pci.pciSubSystemId;
	out_pci->baseClass = CLASS_DISPLAY;
	out_pci->subClass = SUBCLASS_3D;
	memcpy(out_pci->busId, pci.busId, sizeof(pci.busId));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t dev, nvmlBusType_t *out_type)
{
	return nvml_device_answer(dev, out_type, NVML_BUS_TYPE_PCIE);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t dev, unsigned int *out_curr_link_gen)
{
	return nvml_device_answer(dev, out_curr_link_gen, LINK_GENERATION);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t dev, unsigned int *out_max_link_gen)
{
	return nvml_device_answer(dev, out_max_link_gen, LINK_GENERATION);
}

nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t dev,
						   unsigned int *out_max_link_gen_device)
{
	return nvml_device_answer(dev, out_max_link_gen_device, LINK_GENERATION);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t dev, unsigned int *out_curr_link_width)
{
	return nvml_device_answer(dev, out_curr_link_width, LINK_WIDTH);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t dev, unsigned int *out_max_link_width)
{
	return nvml_device_answer(dev, out_max_link_width, LINK_WIDTH);
}

nvmlReturn_t nvmlDeviceGetPcieSpeed(nvmlDevice_t dev, unsigned int *out_pcie_speed)
{
	return nvml_device_answer(dev, out_pcie_speed, LINK_MBPS);
}

nvmlReturn_t nvmlDeviceGetPcieLinkMaxSpeed(nvmlDevice_t dev, unsigned int *out_max_speed)
{
	return nvml_device_answer(dev, out_max_speed, LINK_MBPS);
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t dev, unsigned int *out_value)
{
	return nvml_device_answer(dev, out_value, 0);
}

static nvmlReturn_t find_two(nvmlDevice_t dev, nvmlDevice_t other, const void *out, int *out_i,
			     int *out_k)
{
	nvmlReturn_t res = nvml_device_ask(dev, out, out_i);

	return res ? res : nvml_device_find(other, out_k);
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t dev, nvmlDevice_t other, int *out_on_same_board)
{
	int i, k;
	nvmlReturn_t res = find_two(dev, other, out_on_same_board, &i, &k);

	if (!res)
		*out_on_same_board = i == k;
	return res;
}

/* Each device has a host bridge of its own. */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t dev, nvmlDevice_t other,
						 nvmlGpuTopologyLevel_t *out_path_info)
{
	int i, k;
	nvmlReturn_t res = find_two(dev, other, out_path_info, &i, &k);

	if (!res)
		*out_path_info = i == k ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_NODE;
	return res;
}

/* Devices reach each other's memory over the bus, without atomics. */
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t dev, nvmlDevice_t other,
				    nvmlGpuP2PCapsIndex_t p2p_index,
				    nvmlGpuP2PStatus_t *out_p2p_status)
{
	int i, k;
	nvmlReturn_t res = find_two(dev, other, out_p2p_status, &i, &k);

	if (res)
		return res;
	switch ((unsigned)p2p_index) {
	case NVML_P2P_CAPS_INDEX_READ:
	case NVML_P2P_CAPS_INDEX_WRITE:
	case NVML_P2P_CAPS_INDEX_PCI:
		*out_p2p_status = NVML_P2P_STATUS_OK;
		return NVML_SUCCESS;
	case NVML_P2P_CAPS_INDEX_NVLINK:
	case NVML_P2P_CAPS_INDEX_ATOMICS:
		*out_p2p_status = NVML_P2P_STATUS_NOT_SUPPORTED;
		return NVML_SUCCESS;
	default:
		return NVML_ERROR_INVALID_ARGUMENT;
	}
}

static nvmlReturn_t write_devices(int except, bool is_any, unsigned int *inout_count,
				  nvmlDevice_t *out_device_array)
{
	unsigned int found = 0;

	for (int k = 0; k < machine_cards(); k++) {
		if (k == except || !is_any)
			continue;
		if (found < *inout_count &&
		    (!out_device_array ||
		     nvmlDeviceGetHandleByIndex_v2((unsigned)k, &out_device_array[found])))
			return NVML_ERROR_INVALID_ARGUMENT;
		found++;
	}
	if (!*inout_count || found < *inout_count)
		*inout_count = found;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t dev, nvmlGpuTopologyLevel_t level,
					      unsigned int *inout_count,
					      nvmlDevice_t *out_device_array)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, inout_count, &i);

	return res ? res :
		     write_devices(i, level == NVML_TOPOLOGY_NODE, inout_count, out_device_array);
}

nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpu_number, unsigned int *inout_count,
					 nvmlDevice_t *out_device_array)
{
	nvmlReturn_t res = nvml_ready();

	(void)cpu_number;
	if (res)
		return res;
	if (!inout_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	return write_devices(-1, true, inout_count, out_device_array);
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t dev, unsigned int set_len,
						 unsigned long *out_cpu_set,
						 nvmlAffinityScope_t scope)
{
	const unsigned bits = 8 * sizeof(unsigned long);
	cpu_set_t cpus;
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_cpu_set, &i);

	if (res)
		return res;
	if (!set_len || scope > NVML_AFFINITY_SCOPE_SOCKET)
		return NVML_ERROR_INVALID_ARGUMENT;
	/* No device is nearer to one CPU than to another: all that we may run on. */
	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return NVML_ERROR_UNKNOWN;
	memset(out_cpu_set, 0, set_len * sizeof(*out_cpu_set));
	for (unsigned cpu = 0; cpu < CPU_SETSIZE && cpu / bits < set_len; cpu++) {
		if (CPU_ISSET(cpu, &cpus))
			out_cpu_set[cpu / bits] |= 1UL << cpu % bits;
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t dev, unsigned int set_len,
				      unsigned long *out_cpu_set)
{
	return nvmlDeviceGetCpuAffinityWithinScope(dev, set_len, out_cpu_set,
						   NVML_AFFINITY_SCOPE_NODE);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t dev, unsigned int set_len,
					 unsigned long *out_node_set, nvmlAffinityScope_t scope)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_node_set, &i);

	if (res)
		return res;
	if (!set_len || scope > NVML_AFFINITY_SCOPE_SOCKET)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(out_node_set, 0, set_len * sizeof(*out_node_set));
	out_node_set[0] = 1;
	return NVML_SUCCESS;
}
