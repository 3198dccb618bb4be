/*
 * NVML's list of the compute processes of a device, read whole.
 *
 * No lock: a list belongs to who reads it.
 */
#pragma once

#include "abi/nvml.h"

enum { NVML_LIST_FEW = 32 };

struct nvml_list {
	nvmlProcessInfo_t few[NVML_LIST_FEW];
	nvmlProcessInfo_t *rows; /* `few`, or memory of its own */
	unsigned count;
};

/*
 * Reads the list; the caller frees it. Each question goes through all processes of the card, so the
 * first has room for as many as there were last, `expected`, and some more. 0, -EAGAIN when it grew
 * meanwhile or there is no memory for it, -ENOTSUP where NVML has none; nothing is to be freed
 * then.
 */
int nvml_list_read(nvmlDevice_t dev, unsigned expected, struct nvml_list *out);
void nvml_list_free(struct nvml_list *list);

/* The row of this pid, or NULL. */
const nvmlProcessInfo_t *nvml_list_find(const struct nvml_list *list, unsigned pid);
