#include "cuda_sparse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cuda_device.h"
#include "cuda_handle.h"
#include "cuda_heap.h"
#include "cuda_range.h"

/* Less is copied without a look. */
enum { LEAST_BYTES = 64 << 10, PAGE_BYTES = 4096 };

/* Where bytes are in a file. */
struct place {
	int fd;
	uint64_t offset, left_bytes; /* left: of the range */
};

/* False where they are in none, or none that is known. */
static bool find(uint64_t address, struct place *out)
{
	const struct cuda_range *range = cuda_range_find(address);
	const struct cuda_handle *handle;
	uint64_t at;

	if (!range)
		return false;
	out->left_bytes = range->start + range->size_bytes - address;
	if (range->kind == RANGE_LINEAR)
		return cuda_heap_file(cuda_device_index(range->dev), address, &out->fd,
				      &out->offset) == 0;
	if (range->kind != RANGE_MAPPED)
		return false;
	handle = range->handle;
	at = address - range->start;
	if (handle->address)
		return cuda_heap_file(handle->index, handle->address + at, &out->fd,
				      &out->offset) == 0;
	out->fd = handle->fd;
	out->offset = at;
	return handle->fd >= 0;
}

/* How far from `offset` the file has a hole, or data, of `bytes` at most. */
static uint64_t extent(int fd, uint64_t offset, uint64_t bytes, int whence)
{
	off_t at = lseek(fd, (off_t)offset, whence);

	/* ENXIO: no data from there to the end. */
	if (at < 0)
		return whence == SEEK_DATA && errno == ENXIO ? bytes : 0;
	return (uint64_t)at - offset < bytes ? (uint64_t)at - offset : bytes;
}

/*
 * How far there is data: of the whole file, which is looked through for it, so that the next pieces of
 * a copy are not. Where a hole was made since, it is copied as zeros.
 */
static uint64_t data_extent(int fd, uint64_t offset, uint64_t bytes)
{
	static _Thread_local struct {
		int fd;
		uint64_t start, end;
	} seen = { .fd = -1 };

	if (fd != seen.fd || offset < seen.start || offset >= seen.end) {
		seen.fd = fd;
		seen.start = offset;
		seen.end = offset + extent(fd, offset, UINT64_MAX - offset, SEEK_HOLE);
	}
	return seen.end - offset < bytes ? seen.end - offset : bytes;
}

/* memcpy() where that is right: the address sanitizer's memmove() goes byte by byte. */
static void copy_bytes(uint64_t dst, uint64_t src, uint64_t bytes)
{
	if (dst + bytes <= src || src + bytes <= dst)
		memcpy((void *)dst, (const void *)src, bytes);
	else
		memmove((void *)dst, (const void *)src, bytes);
}

/*
 * Into a file by a call: it makes pages without a fault for each, and without zeros that the copy would
 * overwrite. `to` is NULL where the place is in none.
 */
static void write_bytes(const struct place *to, uint64_t dst, uint64_t src, uint64_t bytes)
{
	ssize_t n = to ? pwrite(to->fd, (const void *)src, bytes, (off_t)to->offset) : 0;
	uint64_t done = n > 0 ? (uint64_t)n : 0;

	copy_bytes(dst + done, src + done, bytes - done);
}

/* Zeros: what whole pages of a file are becomes holes. */
static void clear(uint64_t dst, const struct place *to, uint64_t bytes)
{
	uint64_t first = (PAGE_BYTES - dst % PAGE_BYTES) % PAGE_BYTES, whole;

	if (!to || first >= bytes) {
		memset((void *)dst, 0, bytes);
		return;
	}
	whole = (bytes - first) / PAGE_BYTES * PAGE_BYTES;
	memset((void *)dst, 0, first);
	if (fallocate(to->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)(to->offset + first), (off_t)whole) != 0)
		memset((void *)(dst + first), 0, whole);
	memset((void *)(dst + first + whole), 0, bytes - first - whole);
}

/* Of one file into one place; `to` is NULL where that is in no file. */
static void copy_from(const struct place *from, const struct place *to, uint64_t dst, uint64_t src,
		      uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes;) {
		uint64_t hole = extent(from->fd, from->offset + at, bytes - at, SEEK_DATA);
		struct place rest = to ? *to : (struct place){ 0 };
		uint64_t data;

		rest.offset += at;
		if (hole)
			clear(dst + at, to ? &rest : NULL, hole);
		at += hole;
		data = at < bytes ? data_extent(from->fd, from->offset + at, bytes - at) : 0;
		/* A file that cannot be asked, or that changed meanwhile. */
		if (!data)
			data = bytes - at;
		rest.offset += hole;
		write_bytes(to ? &rest : NULL, dst + at, src + at, data);
		at += data;
	}
}

void cuda_sparse_copy(uint64_t dst, uint64_t src, uint64_t bytes)
{
	while (bytes) {
		struct place from, to;
		uint64_t piece = bytes;
		bool is_from, is_to;

		if (bytes < LEAST_BYTES) {
			copy_bytes(dst, src, bytes);
			return;
		}
		is_from = find(src, &from);
		is_to = find(dst, &to);
		if (is_from && from.left_bytes < piece)
			piece = from.left_bytes;
		if (is_to && to.left_bytes < piece)
			piece = to.left_bytes;
		/* Within one file they may overlap. */
		if (is_from && is_to && from.fd == to.fd)
			copy_bytes(dst, src, piece);
		else if (is_from)
			copy_from(&from, is_to ? &to : NULL, dst, src, piece);
		else
			write_bytes(is_to ? &to : NULL, dst, src, piece);
		dst += piece;
		src += piece;
		bytes -= piece;
	}
}
