/*
 * Addresses and the memory behind them: the driver's calls for physical memory by handle, as 0 or
 * -errno. -ENOMEM: no room for it, or no addresses; -ENOTSUP: not with this driver; -EINVAL: what
 * was asked for is not so; -ENODEV: any other error, those of the context that stay among them.
 *
 * Sizes and addresses are multiples of GPU_VMM_GRAIN_BYTES. None needs a current context, and
 * none disturbs a capture. What is mapped is mapped whole, as the driver demands. No lock is
 * held, nothing passes the gate: who moves what is in use has closed it, who maps what nobody
 * knows yet need not.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_VMM_GRAIN_BYTES (UINT64_C(2) << 20)

enum { GPU_VMM_DEVICES = 16 };

enum gpu_vmm_kind {
	GPU_VMM_DEVICE, /* the device's own memory */
	GPU_VMM_HOST,   /* host memory beside the device, which reaches it when it is mapped */
};

/* True when the driver and the device have these calls and grain is what we count in. */
bool gpu_vmm_is_there(struct cuda_ord ord);

/*
 * `bytes` addresses from a multiple of align_bytes on (0: of the grain). Nothing is behind them.
 */
int gpu_vmm_reserve(uint64_t bytes, uint64_t align_bytes, uint64_t *out_addr);

/* Gives them back, as they were reserved; nothing is mapped there. */
int gpu_vmm_unreserve(uint64_t addr, uint64_t bytes);

/*
 * Takes memory; *out_handle, never 0, is the caller's until gpu_vmm_release(). Device memory may
 * hold what others left in it. GPU_VMM_HOST is -ENOTSUP where the device has no node. Nothing of
 * it is charged here.
 */
int gpu_vmm_create(struct cuda_ord ord, enum gpu_vmm_kind kind, uint64_t bytes,
		   uint64_t *out_handle);

/* True where another process can be given memory of the device (gpu_vmm_export()). */
bool gpu_vmm_can_export(struct cuda_ord ord);

/* A descriptor of the memory of a handle, the caller's to close; as many as are asked for. */
int gpu_vmm_export(uint64_t handle, int *out_fd);

/* A handle for the memory of such a descriptor, which stays the caller's. */
int gpu_vmm_import(int fd, uint64_t *out_handle);

/* Gives a handle back; its memory goes with its last mapping. */
int gpu_vmm_release(uint64_t handle);

/*
 * Puts all of a handle's memory behind the addresses. Nobody may access it until gpu_vmm_allow().
 */
int gpu_vmm_map(uint64_t addr, uint64_t bytes, uint64_t handle);

/* Takes whole mappings away, one or several side by side. Waits for no work: none may use them. */
int gpu_vmm_unmap(uint64_t addr, uint64_t bytes);

/*
 * As gpu_vmm_unmap(), of a mapping of ours whose memory is given back in any case; tried again.
 * What the driver does not let go stays with it, and is remembered.
 */
int gpu_vmm_unmap_surely(uint64_t addr, uint64_t bytes);

/* True when memory of this process may be left mapped so, the host's perhaps. */
bool gpu_vmm_has_left(void);

/*
 * Lets these devices read and write all that is mapped in one run of addresses without holes.
 * Count is 1 to GPU_VMM_DEVICES.
 */
int gpu_vmm_allow(uint64_t addr, uint64_t bytes, const struct cuda_ord *ords, unsigned count);
