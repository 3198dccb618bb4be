/*
 * Objects that another device of the process reaches. The driver lets a context reach the driver's
 * own memory; what is mapped is let reach here: once the program asks for it, and once it copies
 * between devices that can reach one another, for which it need not ask.
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

/* Contexts of the two devices of a copy. */
struct peer_sides {
	CUcontext to, from;
};

/* As peer_crosses() in a process with several devices. */
bool peer_crosses_slow(CUdeviceptr to, CUdeviceptr from, struct peer_sides *out_sides);

/*
 * True for a copy from device memory to device memory of which some is an object on a device whose
 * memory the calling thread's does not reach. The driver copies its own memory all the same, by way
 * of the host; what is mapped only where it is told whose each side is.
 */
static inline bool peer_crosses(CUdeviceptr to, CUdeviceptr from, struct peer_sides *out_sides)
{
	return device_ordinals() > 1 && peer_crosses_slow(to, from, out_sides);
}

/* As peer_crosses_2d() and peer_crosses_3d() in a process with several devices. */
bool peer_crosses_2d_slow(const CUDA_MEMCPY2D *copy, CUDA_MEMCPY3D_PEER *out_copy);
bool peer_crosses_3d_slow(const CUDA_MEMCPY3D *copy, CUDA_MEMCPY3D_PEER *out_copy);

/*
 * As peer_crosses() for a copy in two or three dimensions, of which one side may be the host's or
 * an array; *out_copy is the one between contexts. NULL is none.
 */
static inline bool peer_crosses_2d(const CUDA_MEMCPY2D *copy, CUDA_MEMCPY3D_PEER *out_copy)
{
	return device_ordinals() > 1 && copy && peer_crosses_2d_slow(copy, out_copy);
}

static inline bool peer_crosses_3d(const CUDA_MEMCPY3D *copy, CUDA_MEMCPY3D_PEER *out_copy)
{
	return device_ordinals() > 1 && copy && peer_crosses_3d_slow(copy, out_copy);
}

/* Before a copy in the calling thread's context from or to this address. */
static inline void peer_reach(CUdeviceptr addr)
{
	if (device_ordinals() > 1)
		peer_reach_slow(addr);
}
