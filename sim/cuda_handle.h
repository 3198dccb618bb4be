/*
 * Physical memory of cuMemCreate. It lives as long as somebody holds its handle or maps it. The
 * driver's lock protects it.
 */
#pragma once

#include <stdint.h>

#include "abi/cuda.h"

struct cuda_handle {
	/* constant */
	CUmemAllocationProp prop;
	uint64_t size_bytes;
	uint64_t id;
	int index;        /* of the device in the machine, or HEAP_HOST */
	CUdevice dev;     /* -1: on the host */
	uint64_t address; /* in the heap; 0: in a file of its own */
	int fd;           /* the file, when it can be shared; else -1 */
	uint32_t import;  /* of an import: machine_import.h; 0: nobody counts it */
	int is_imported;  /* its memory is counted where it was made */
	/* the driver's lock */
	uint64_t export; /* machine_export.h; 0: no descriptor keeps it */
	int references;  /* by handle and by mapping */
	int handles;     /* by handle alone */
	int tiles;       /* by mappings in sparse arrays alone */
	int is_hidden;   /* those are all: no figure shows it */
};

/* The memory behind a handle the program holds; NULL when there is none. */
struct cuda_handle *cuda_handle_find(CUmemGenericAllocationHandle handle);

/* The memory behind a shared file, with a reference and no handle. */
CUresult cuda_handle_import(int fd, struct cuda_handle **out_handle);

/* The open file description of `fd` keeps it. */
CUresult cuda_handle_mark(struct cuda_handle *handle, int fd);

/* Shows its bytes at `target`, replacing what is mapped there. 0 or -errno. */
int cuda_handle_map(const struct cuda_handle *handle, uint64_t target);

/* One reference less; the last one frees it. */
void cuda_handle_put(struct cuda_handle *handle);
