/*
 * What stands in a CUipcMemHandle for an object, and what its exporter says to who opens it.
 *
 * The memory itself goes as descriptors over a socket between the two processes. Whoever has the
 * handle may have the memory, as with the driver's own; it is `secret` that nobody can guess.
 */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define IPC_HANDLE_MAGIC UINT64_C(0x314350496e746152)

struct ipc_handle {
	uint64_t magic;
	uint64_t process; /* the exporter's random number: names its socket */
	uint64_t secret[2];
	uint64_t addr, id; /* of the object, there */
	uint64_t bytes;    /* of the object */
	uint32_t slot;     /* the exporter's in its region: names its other socket */
	uint32_t unused;
};

_Static_assert(sizeof(struct ipc_handle) == sizeof(CUipcMemHandle), "it stands in for one");

/*
 * The first answer to who sends the handle. The connection stays while the importer has the memory:
 * until then the exporter keeps it and is charged for it, also when its program frees it. At the
 * end the importer sends a message, since a fork child may have the descriptor too.
 *
 * `count` messages of a struct ipc_chunk follow, each with a descriptor.
 */
struct ipc_answer {
	int32_t rc; /* 0 or -errno */
	uint32_t count;
	uint64_t offset_bytes;             /* of the object in the chunks, which lie side by side */
	uint64_t bytes;                    /* of the object */
	uint64_t whole_bytes;              /* of the chunks */
	uint64_t region_dev, region_inode; /* the exporter's tenant: it is charged already */
};

struct ipc_chunk {
	uint64_t bytes;
};

/* True for a handle that a process of ours gave; *out_handle is set then. */
static inline bool ipc_handle_read(const CUipcMemHandle *handle, struct ipc_handle *out_handle)
{
	struct ipc_handle h;

	memcpy(&h, handle, sizeof(h));
	if (h.magic != IPC_HANDLE_MAGIC)
		return false;
	*out_handle = h;
	return true;
}
