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

/* Before a copy in the calling thread's context from or to this address. */
static inline void peer_reach(CUdeviceptr addr)
{
	if (device_ordinals() > 1)
		peer_reach_slow(addr);
}
