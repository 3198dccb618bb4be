#include "drv/nvml_list.h"

#include "drv/real.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Rows by which a list may grow between two questions. */
enum { GROWTH = 64 };

size_t nvml_list_row_bytes(const void *rows, size_t room_bytes, unsigned count,
			   size_t declared_bytes)
{
	const unsigned char *at = rows;
	size_t bytes = 0;

	while (room_bytes > 0 && at[room_bytes - 1] == NVML_LIST_FILL)
		room_bytes--;
	if (count > 0 && room_bytes % count == 0)
		bytes = room_bytes / count;
	return bytes == sizeof(nvmlProcessInfo_v1_t) || bytes == sizeof(nvmlProcessInfo_t) ||
			       bytes == NVML_LIST_ROW_BYTES_MAX ?
		       bytes :
		       declared_bytes;
}

/* Lays the rows out as they are declared; what a short one lacks is 0. */
static void lay_out(struct nvml_list *list, size_t row_bytes)
{
	const size_t want_bytes = sizeof(*list->rows);
	char *raw = (char *)list->rows;

	for (unsigned i = 0; row_bytes > want_bytes && i < list->count; i++)
		memmove(&list->rows[i], raw + i * row_bytes, want_bytes);
	for (unsigned i = list->count; row_bytes < want_bytes && i-- > 0;) {
		memmove(&list->rows[i], raw + i * row_bytes, row_bytes);
		memset((char *)&list->rows[i] + row_bytes, 0, want_bytes - row_bytes);
	}
}

/*
 * By the latest form there is; how long its rows are by the header. The second has the same as the
 * third.
 */
static nvmlReturn_t ask(nvmlDevice_t dev, struct nvml_list *list, size_t *out_declared_bytes)
{
	_Static_assert(sizeof(nvmlProcessInfo_t) == sizeof(nvmlProcessInfo_v2_t), "same rows");
	*out_declared_bytes = sizeof(nvmlProcessInfo_t);
	if (real.nvmlDeviceGetComputeRunningProcesses_v3)
		return real.nvmlDeviceGetComputeRunningProcesses_v3(dev, &list->count, list->rows);
	if (real.nvmlDeviceGetComputeRunningProcesses_v2)
		return real.nvmlDeviceGetComputeRunningProcesses_v2(
			dev, &list->count, (nvmlProcessInfo_v2_t *)list->rows);
	*out_declared_bytes = sizeof(nvmlProcessInfo_v1_t);
	if (real.nvmlDeviceGetComputeRunningProcesses)
		return real.nvmlDeviceGetComputeRunningProcesses(
			dev, &list->count, (nvmlProcessInfo_v1_t *)list->rows);
	return NVML_ERROR_NOT_SUPPORTED;
}

/* Asks with room for `expected` rows and some more; without memory as if that were too small. */
static nvmlReturn_t ask_for(nvmlDevice_t dev, unsigned expected, struct nvml_list *list)
{
	unsigned room = expected > NVML_LIST_FEW ? expected + GROWTH : NVML_LIST_FEW;
	size_t room_bytes = (size_t)room * NVML_LIST_ROW_BYTES_MAX, declared_bytes;
	nvmlReturn_t res;

	nvml_list_free(list);
	list->rows = room > NVML_LIST_FEW ? malloc(room_bytes) : list->few;
	list->count = room;
	if (!list->rows) {
		list->rows = list->few;
		list->count = 0;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	memset(list->rows, NVML_LIST_FILL, room_bytes);
	res = ask(dev, list, &declared_bytes);
	if (res == NVML_SUCCESS && list->count > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	if (res == NVML_SUCCESS)
		lay_out(list,
			nvml_list_row_bytes(list->rows, room_bytes, list->count, declared_bytes));
	return res;
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
