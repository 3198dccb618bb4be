/*
 * The devices of this machine as NVML lists them, read in a process of its own: what NVML opens,
 * maps or breaks stays there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICE_LIST_MAX = 256 };

struct device_list_entry {
	int index; /* as nvidia-smi counts; of the parent for a MIG slice */
	bool is_mig;
	char uuid[96];
	char name[96];
	uint64_t memory_bytes; /* NVML's total */
};

struct device_list {
	int count;
	char driver_version[80];
	char complaint[512]; /* the first line that NVML wrote to standard error; "" = none */
	struct device_list_entry entries[DEVICE_LIST_MAX];
};

/*
 * Reads the list with the library at `path` ("libnvidia-ml.so.1" for the system's own). 0; -ENOENT
 * when the library cannot be loaded, -EIO when it finds no driver or fails, -ETIMEDOUT. The complaint
 * is filled in all cases; nothing is written to this process's standard error.
 */
int device_list_read(const char *path, struct device_list *out_list);

/* The device that an item of a limit specification names (base/limits.h); NULL for none. */
const struct device_list_entry *device_list_find(const struct device_list *list, const char *who);
