#include "cuda_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cuda_extent.h"
#include "machine.h"
#include "machine_import.h"

enum { WINDOW_ATTEMPTS = 8 };

#define USABLE_BYTES ((uint64_t)256 << 20)
#define HOST_WINDOW_BYTES ((uint64_t)1 << 40)

/* What was given back while other processes have its bytes mapped: nobody else gets them. */
struct lent {
	uint64_t address, size_bytes, export;
	struct lent *next;
};

struct heap {
	uint64_t base, size_bytes;
	uint64_t usable_bytes; /* from base: the rest cannot be touched, nor is it read by a memory
				* checker that looks at all there is */
	int fd;                /* -1: pages without a file, known to this process only */
	struct cuda_extents free;
	struct lent *lent;
};

static struct heap heaps[MACHINE_DEVICES + 1]; /* the driver's lock; the host's is the last */

static struct heap *get(int index)
{
	return &heaps[index == HEAP_HOST ? MACHINE_DEVICES : index];
}

int cuda_heap_file_new(const char *name)
{
	int low = memfd_create(name, MFD_CLOEXEC);
	int fd;

	if (low < 0 || low > STDERR_FILENO)
		return low;
	fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(low);
	return fd;
}

/* A file of this size, or -1 where a file size limit forbids it (it would also send SIGXFSZ). */
static int make_file(uint64_t size_bytes)
{
	struct rlimit limit;
	int fd;

	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < size_bytes)
		return -1;
	fd = cuda_heap_file_new("sim-heap");
	if (fd >= 0 && ftruncate(fd, (off_t)size_bytes) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int open_window(struct heap *h, uint64_t size_bytes)
{
	int flags = MAP_SHARED | MAP_NORESERVE;
	uint64_t room = size_bytes + HEAP_BLOCK_BYTES;
	uint64_t base;
	char *map;

	h->fd = make_file(size_bytes);
	map = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		goto out_close;
	base = ((uint64_t)map + HEAP_BLOCK_BYTES - 1) & ~(HEAP_BLOCK_BYTES - 1);
	if (mmap((void *)base, size_bytes, PROT_NONE,
		 flags | MAP_FIXED | (h->fd < 0 ? MAP_ANONYMOUS : 0), h->fd, 0) == MAP_FAILED)
		goto out_unmap;
	madvise((void *)base, size_bytes, MADV_DONTFORK);
	madvise((void *)base, size_bytes, MADV_DONTDUMP);
	if (cuda_extent_add(&h->free, base, size_bytes) != 0)
		goto out_unmap;
	h->base = base;
	h->size_bytes = size_bytes;
	return 0;

out_unmap:
	munmap(map, room);
out_close:
	if (h->fd >= 0)
		close(h->fd);
	return -ENOMEM;
}

/* Four times the device's size, so that free addresses never run out before free memory does; less
 * where so many addresses are not to be had (a memory checker has few). */
int cuda_heap_open(int index)
{
	struct heap *h = get(index);
	uint64_t size_bytes = HOST_WINDOW_BYTES;

	if (h->base)
		return 0;
	if (index != HEAP_HOST)
		size_bytes = 4 * machine_device(index)->memory_bytes;
	for (int attempt = 0; attempt < WINDOW_ATTEMPTS; attempt++, size_bytes /= 2) {
		size_bytes = (size_bytes + HEAP_BLOCK_BYTES - 1) & ~(HEAP_BLOCK_BYTES - 1);
		if (open_window(h, size_bytes) == 0)
			return 0;
	}
	return -ENOMEM;
}

/* Makes addresses usable up to `end`, a good piece at a time. */
static int make_usable(struct heap *h, uint64_t end)
{
	uint64_t bytes = (end - h->base + USABLE_BYTES - 1) / USABLE_BYTES * USABLE_BYTES;

	if (end - h->base <= h->usable_bytes)
		return 0;
	if (bytes > h->size_bytes)
		bytes = h->size_bytes;
	if (mprotect((void *)h->base, bytes, PROT_READ | PROT_WRITE) != 0)
		return -ENOMEM;
	h->usable_bytes = bytes;
	return 0;
}

static void make_free(struct heap *h, uint64_t address, uint64_t size_bytes)
{
	madvise((void *)address, size_bytes, MADV_REMOVE);
	cuda_extent_add(&h->free, address, size_bytes);
}

/* What no other process has mapped any more is free. */
static void take_back(struct heap *h)
{
	struct lent **link = &h->lent;

	while (*link) {
		struct lent *lent = *link;

		if (machine_import_is_any(lent->export)) {
			link = &lent->next;
			continue;
		}
		*link = lent->next;
		make_free(h, lent->address, lent->size_bytes);
		free(lent);
	}
}

int cuda_heap_take(int index, uint64_t size_bytes, uint64_t *out_address)
{
	int err = cuda_heap_open(index);

	if (err)
		return err;
	if (size_bytes > get(index)->size_bytes)
		return -ENOMEM;
	if (index != HEAP_HOST && machine_take(index, size_bytes) != 0)
		return -ENOMEM;
	take_back(get(index));
	err = cuda_extent_take(&get(index)->free, size_bytes, HEAP_BLOCK_BYTES, out_address);
	if (err == 0 && make_usable(get(index), *out_address + size_bytes) != 0) {
		cuda_extent_add(&get(index)->free, *out_address, size_bytes);
		err = -ENOMEM;
	}
	if (err) {
		if (index != HEAP_HOST)
			machine_give(index, size_bytes);
		return -ENOMEM;
	}
	return 0;
}

void cuda_heap_give(int index, uint64_t address, uint64_t size_bytes, uint64_t export)
{
	struct heap *h = get(index);
	struct lent *lent;

	if (index == HEAP_HOST || !machine_give_exported(index, size_bytes, export)) {
		make_free(h, address, size_bytes);
		return;
	}
	/* Without a note of it nobody ever gets it. */
	lent = malloc(sizeof(*lent));
	if (!lent)
		return;
	*lent = (struct lent){ address, size_bytes, export, h->lent };
	h->lent = lent;
}

static struct heap *heap_of(uint64_t address)
{
	for (int i = 0; i <= MACHINE_DEVICES; i++)
		if (address >= heaps[i].base && address - heaps[i].base < heaps[i].size_bytes)
			return &heaps[i];
	return NULL;
}

/* Without a file: a length of 0 makes mremap() duplicate a shared mapping instead of moving it. */
int cuda_heap_alias(uint64_t address, uint64_t size_bytes, uint64_t target)
{
	const struct heap *h = heap_of(address);
	void *map;

	if (h->fd >= 0)
		map = mmap((void *)target, size_bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED | MAP_NORESERVE, h->fd,
			   (off_t)(address - h->base));
	else
		map = mremap((void *)address, 0, size_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			     (void *)target);

	if (map == MAP_FAILED)
		return -errno;
	madvise(map, size_bytes, MADV_DONTFORK);
	return 0;
}

int cuda_heap_file(int index, uint64_t address, int *out_fd, uint64_t *out_offset)
{
	struct heap *h = get(index);

	if (h->fd < 0)
		return -ENOTSUP;
	*out_fd = h->fd;
	*out_offset = address - h->base;
	return 0;
}

bool cuda_heap_contains(uint64_t address)
{
	return heap_of(address) != NULL;
}
