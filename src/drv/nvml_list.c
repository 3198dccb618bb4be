#include "drv/nvml_list.h"

#include "drv/real.h"

#include <errno.h>
#include <stdlib.h>

/* Rows by which a list may grow between two questions. */
enum { GROWTH = 64 };

/* The second form has the same rows as the third. */
static nvmlReturn_t ask(nvmlDevice_t dev, unsigned *count, nvmlProcessInfo_t *rows)
{
	_Static_assert(sizeof(nvmlProcessInfo_t) == sizeof(nvmlProcessInfo_v2_t), "same rows");
	if (real.nvmlDeviceGetComputeRunningProcesses_v3)
		return real.nvmlDeviceGetComputeRunningProcesses_v3(dev, count, rows);
	if (real.nvmlDeviceGetComputeRunningProcesses_v2)
		return real.nvmlDeviceGetComputeRunningProcesses_v2(dev, count,
								    (nvmlProcessInfo_v2_t *)rows);
	return NVML_ERROR_NOT_SUPPORTED;
}

/* Asks with room for `expected` rows and some more; without memory as if that were too small. */
static nvmlReturn_t ask_for(nvmlDevice_t dev, unsigned expected, struct nvml_list *list)
{
	nvml_list_free(list);
	list->rows = list->few;
	list->count = NVML_LIST_FEW;
	if (expected > NVML_LIST_FEW) {
		list->count = expected + GROWTH;
		list->rows = calloc(list->count, sizeof(*list->rows));
	}
	if (list->rows)
		return ask(dev, &list->count, list->rows);
	list->rows = list->few;
	list->count = 0;
	return NVML_ERROR_INSUFFICIENT_SIZE;
}

int nvml_list_read(nvmlDevice_t dev, unsigned expected, struct nvml_list *out)
{
	nvmlReturn_t res;

	out->rows = out->few;
	res = ask_for(dev, expected, out);
	if (res == NVML_ERROR_INSUFFICIENT_SIZE)
		res = ask_for(dev, out->count, out);
	if (res == NVML_SUCCESS)
		return 0;
	nvml_list_free(out);
	return res == NVML_ERROR_INSUFFICIENT_SIZE ? -EAGAIN : -ENOTSUP;
}

void nvml_list_free(struct nvml_list *list)
{
	if (list->rows != list->few)
		free(list->rows);
}

const nvmlProcessInfo_t *nvml_list_find(const struct nvml_list *list, unsigned pid)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->rows[i].pid == pid)
			return &list->rows[i];
	return NULL;
}
