#include "cuda_pool_held.h"

#include <errno.h>
#include <stdlib.h>

#include "machine_import.h"

struct cuda_pool_held {
	struct cuda_pool_held *next;
	uint64_t address;
	uint32_t import;
};

static struct cuda_pool_held *find(struct cuda_pool_held *list, uint64_t address)
{
	while (list && list->address != address)
		list = list->next;
	return list;
}

CUresult cuda_pool_held_add(struct cuda_pool_held **list, uint64_t address, uint64_t export)
{
	struct cuda_pool_held *held = find(*list, address);
	uint32_t import;
	int err;

	if (!held) {
		held = calloc(1, sizeof(*held));
		if (!held)
			return CUDA_ERROR_OUT_OF_MEMORY;
		held->address = address;
		held->next = *list;
		*list = held;
	}
	err = machine_import_open(export, &import);
	if (err)
		return err == -ENOSPC ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	if (held->import)
		machine_import_end(held->import);
	held->import = import;
	return CUDA_SUCCESS;
}

void cuda_pool_held_end(struct cuda_pool_held **list)
{
	while (*list) {
		struct cuda_pool_held *held = *list;

		*list = held->next;
		if (held->import)
			machine_import_end(held->import);
		free(held);
	}
}
