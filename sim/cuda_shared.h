/* Files of memory that other processes may map. A file's name says whose memory it is. */
#pragma once

#include <stdint.h>

#include "abi/cuda.h"

/* What such a file holds. */
enum shared_kind { SHARED_HANDLE, SHARED_POOL };

/* A file of `bytes` for memory of the machine's device `index` or of HEAP_HOST: a descriptor, never
 * 0, 1 or 2; -1 when there is none to be had. */
int cuda_shared_new(enum shared_kind kind, int index, uint64_t bytes);

/* The same file by an open file description of its own: a descriptor, likewise. */
int cuda_shared_reopen(int fd);

/* Names `bytes` of device `index`, if *export is 0 (machine_export.h). */
CUresult cuda_shared_name(int index, uint64_t bytes, uint64_t *export);

/* The same, and the open file description of `fd` keeps them. */
CUresult cuda_shared_mark(int fd, int index, uint64_t bytes, uint64_t *export);

/* This process imports what the file's memory is named by: machine_import.h. Both are 0 of memory
 * that nothing names. */
CUresult cuda_shared_import(int fd, uint64_t *out_export, uint32_t *out_import);

/* Makes it larger. 0 or -1. */
int cuda_shared_grow(int fd, uint64_t bytes);

/* Whose memory a file of this kind is, as an ordinal here or -1 for the host, and how large it is.
 * CUDA_ERROR_INVALID_VALUE for another file, INVALID_DEVICE when the device is not visible here. */
CUresult cuda_shared_read(enum shared_kind kind, int fd, CUdevice *out_dev, uint64_t *out_bytes);

/* Maps whole pages around [offset, offset + bytes) of a file, at *out_map or with 0 anywhere. 0 with
 * where that byte is and what was mapped, or -1. */
int cuda_shared_map(int fd, uint64_t offset, uint64_t bytes, uint64_t *out_address,
		    uint64_t *out_map, uint64_t *out_map_bytes);
