/*
 * The memory itself: for each device (and for the host) one window of addresses, backed lazily by
 * shared pages, so that a second mapping shows the same bytes. A device's memory is taken from the
 * machine, in blocks of 2 MiB. The driver's lock protects all of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HEAP_HOST = -1 };

#define HEAP_BLOCK_BYTES ((uint64_t)2 << 20)

/* Takes `size_bytes`, a multiple of HEAP_BLOCK_BYTES, of the machine's device `index` or of
 * HEAP_HOST. 0 with its address, or -ENOMEM. */
int cuda_heap_take(int index, uint64_t size_bytes, uint64_t *out_address);

/* Gives it back; its contents are gone, where no other process has them mapped. `export` as for
 * machine_give_exported(). */
void cuda_heap_give(int index, uint64_t address, uint64_t size_bytes, uint64_t export);

/* Makes the bytes at `address` appear at `target` too, replacing what is mapped there. 0 or
 * -errno. */
int cuda_heap_alias(uint64_t address, uint64_t size_bytes, uint64_t target);

/* The window's file and the offset of `address` in it, for another process. -ENOTSUP when this
 * process was not allowed a file of that size. */
int cuda_heap_file(int index, uint64_t address, int *out_fd, uint64_t *out_offset);

/* An empty file without a path, never descriptor 0, 1 or 2: a program that closed them writes there.
 * -1 when there is none to be had. */
int cuda_heap_file_new(const char *name);

/* True when `address` lies in a window. */
bool cuda_heap_contains(uint64_t address);

/* The window of `index` has its file. 0 or -errno. */
int cuda_heap_open(int index);
