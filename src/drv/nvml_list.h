/*
 * NVML's list of the compute processes of a device, read whole.
 *
 * No lock: a list belongs to who reads it.
 */
#pragma once

#include "abi/nvml.h"

#include <stddef.h>

/*
 * The longest row of any list. Some drivers have another layout behind a name than the header says:
 * _v3 of 535.43 to 535.86 writes 32 bytes a row, others 16. All begin alike.
 */
enum { NVML_LIST_FEW = 32, NVML_LIST_ROW_BYTES_MAX = 32 };

/* What is to stand in the room for rows before NVML writes them: no row ends so. */
enum { NVML_LIST_FILL = 0xa5 };

/*
 * How long NVML's rows are, by what it left of the fill behind `count` of them; `declared_bytes`
 * where that tells nothing.
 */
size_t nvml_list_row_bytes(const void *rows, size_t room_bytes, unsigned count,
			   size_t declared_bytes);

struct nvml_list {
	/* Room for so many of the longest rows. */
	nvmlProcessInfo_t
		few[NVML_LIST_FEW * NVML_LIST_ROW_BYTES_MAX / sizeof(nvmlProcessInfo_t) + 1];
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
