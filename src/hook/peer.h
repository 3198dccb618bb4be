/*
 * Objects that another device of the process reaches, and copies of those that it does not. The
 * driver lets a context reach the driver's own memory; what is mapped is let reach here: once the
 * program asks for it, and once it copies between devices that can reach one another, for which it
 * need not ask.
 *
 * Where one does not reach it (the devices cannot, or it cannot be let now: a capture is under way,
 * work does not end), the driver copies its own memory all the same, by way of the host; what is
 * mapped only where it is told whose each side is. Such a copy or fill is *far*.
 */
#pragma once

#include "abi/cuda.h"
#include "core/device.h"

/*
 * Lets the device with ordinal `peer` reach what `ord` has and will have of objects, which then lie
 * on the device. 0; -ENOMEM when there is no room for some; -EBUSY, -EAGAIN: not now.
 */
int peer_allow(struct cuda_ord peer, struct cuda_ord ord);

/* As peer_reach() in a process with several devices. */
void peer_reach_slow(CUdeviceptr addr);

/* A copy in one dimension; an address of the host's is one too. */
struct peer_line {
	CUdeviceptr to, from;
	CUmemorytype to_type, from_type; /* CU_MEMORYTYPE_UNIFIED: as the address says */
	uint64_t bytes;
};

/* That as copies between contexts, one behind the other. */
struct peer_ways {
	CUDA_MEMCPY3D_PEER parts[2];
	unsigned count;
};

/* As peer_crosses() in a process with several devices. */
bool peer_crosses_slow(const struct peer_line *line, CUstream stream, struct peer_ways *out_ways);

/*
 * True for a far copy in the stream (NULL: whichever default one) by the calling thread: of which a
 * side is an object that the device of its context, or that of the stream's, does not reach.
 */
static inline bool peer_crosses(const struct peer_line *line, CUstream stream,
				struct peer_ways *out_ways)
{
	return device_ordinals() > 1 && peer_crosses_slow(line, stream, out_ways);
}

/* As peer_crosses_2d() and peer_crosses_3d() in a process with several devices. */
bool peer_crosses_2d_slow(const CUDA_MEMCPY2D *copy, CUstream stream, CUDA_MEMCPY3D_PEER *out_copy);
bool peer_crosses_3d_slow(const CUDA_MEMCPY3D *copy, CUstream stream, CUDA_MEMCPY3D_PEER *out_copy);

/*
 * As peer_crosses() for a copy in two or three dimensions, of which one side may be the host's or
 * an array; *out_copy is the one between contexts. NULL is none.
 */
static inline bool peer_crosses_2d(const CUDA_MEMCPY2D *copy, CUstream stream,
				   CUDA_MEMCPY3D_PEER *out_copy)
{
	return device_ordinals() > 1 && copy && peer_crosses_2d_slow(copy, stream, out_copy);
}

static inline bool peer_crosses_3d(const CUDA_MEMCPY3D *copy, CUstream stream,
				   CUDA_MEMCPY3D_PEER *out_copy)
{
	return device_ordinals() > 1 && copy && peer_crosses_3d_slow(copy, stream, out_copy);
}

/* The same of what is done in the context alone, as a graph's node does. */
bool peer_crosses_in(const CUDA_MEMCPY3D *copy, CUcontext ctx, CUDA_MEMCPY3D_PEER *out_copy);

/* As peer_is_far() in a process with several devices. */
bool peer_is_far_slow(CUdeviceptr addr, CUstream stream, CUcontext *out_ctx);

/* True when a fill there is far; *out_ctx is the object's context. */
static inline bool peer_is_far(CUdeviceptr addr, CUstream stream, CUcontext *out_ctx)
{
	return device_ordinals() > 1 && peer_is_far_slow(addr, stream, out_ctx);
}

/* The same of what is done in the context alone. */
bool peer_is_far_in(CUdeviceptr addr, CUcontext ctx, CUcontext *out_ctx);

/* Before a copy in the calling thread's context from or to this address. */
static inline void peer_reach(CUdeviceptr addr)
{
	if (device_ordinals() > 1)
		peer_reach_slow(addr);
}
