/*
 * Descriptors of device memory that processes have given out. The card holds the memory while one
 * of them is open anywhere, whoever made it and whoever has it now: in another process, under way
 * in a socket, kept by a network card. It is in no process's figure then, and no call tells when
 * the last copy is closed (docs/real-gpu.md). So each has a read lock of its open file description,
 * which the kernel drops with that. Where the lock begins says whose it is, its length what it is
 * of: /proc/locks shows both to everybody, after the owner's death too.
 *
 * Thread safe; nothing is kept here.
 */
#pragma once

#include <ration/region.h>
#include <stdbool.h>
#include <stdint.h>

/* Memory of which there are descriptors. */
struct exported {
	uint64_t memory; /* the owner's number for it, of EXPORTED_MEMORY_BITS */
	uint64_t bytes;  /* in /proc/locks in whole EXPORTED_UNIT_BYTES */
	int dev;
};

enum { EXPORTED_MEMORY_BITS = 34 };
#define EXPORTED_UNIT_BYTES (UINT64_C(2) << 20)

/* Who says in slot `index` that he has it: the same for himself and for who finds him dead. */
uint64_t exported_owner(const struct ration_slot *slot, unsigned index);

/* Marks a descriptor that the owner is about to give out. 0 or -errno. */
int exported_mark(int fd, uint64_t owner, const struct exported *what);

/*
 * The owner's memory of which a descriptor is open somewhere, each once, by number: the caller
 * frees *out_all. 0, or -errno where nobody can say it; then there is nothing to free.
 */
int exported_read(uint64_t owner, struct exported **out_all, unsigned *out_count);

/* Whether that is so for good: a failure for want of a descriptor or of memory may pass. */
bool exported_is_unreadable(int rc);

/* True when that has such a number. */
bool exported_has(const struct exported *all, unsigned count, uint64_t memory);

/*
 * Whether a mark that is there is seen: 0, or -errno, -ENOLCK where the list is not the kernel's,
 * as in a container in which it is hidden.
 */
int exported_shows(uint64_t owner, const struct exported *what);
