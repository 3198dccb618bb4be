#include "cuda_address.h"

#include <stddef.h>
#include <sys/mman.h>

static uint64_t find(uint64_t bytes, uint64_t align, uint64_t hint)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint64_t room = bytes + align, start;
	void *map;

	if (hint) {
		map = mmap((void *)hint, bytes, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
		if (map == (void *)hint)
			return hint;
		if (map != MAP_FAILED)
			munmap(map, bytes);
	}
	if (room < bytes)
		return 0;
	map = mmap(NULL, room, PROT_NONE, flags, -1, 0);
	if (map == MAP_FAILED)
		return 0;
	start = ((uint64_t)map + align - 1) & ~(align - 1);
	if (start != (uint64_t)map)
		munmap(map, start - (uint64_t)map);
	if ((uint64_t)map + room != start + bytes)
		munmap((void *)(start + bytes), (uint64_t)map + room - start - bytes);
	return start;
}

uint64_t cuda_address_reserve(uint64_t bytes, uint64_t align, uint64_t hint)
{
	uint64_t start = find(bytes, align, hint);

	if (start)
		madvise((void *)start, bytes, MADV_DONTFORK);
	return start;
}

void cuda_address_blank(uint64_t start, uint64_t bytes)
{
	void *map = mmap((void *)start, bytes, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	if (map != MAP_FAILED)
		madvise(map, bytes, MADV_DONTFORK);
}

void cuda_address_free(uint64_t start, uint64_t bytes)
{
	munmap((void *)start, bytes);
}
