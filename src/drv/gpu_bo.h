/*
 * The driver's side of buffer objects (core/bo.h) on one device: what their memory is, and how it
 * is exchanged.
 *
 * BO_VRAM is the device's memory. BO_GTT and BO_SYSTEM are the same host memory, which is mapped at
 * the object's address or is not: between them nothing is copied. Where the driver has no host
 * memory that a device can map, or no more of it, there is no BO_GTT, and BO_SYSTEM is pages of the
 * process.
 *
 * An exchange takes place while all stands still (drv/gpu_still.h): bytes are copied on streams of
 * ours while old and new are both mapped, then the mappings change, and the old memory is kept
 * until that has succeeded. What fails is undone; an object for which that fails too is lost to the
 * process, which is said in one line. -EBUSY and -EAGAIN: not now.
 *
 * Thread safe. Fresh memory waits at the gate like any call of the program's, before it is taken,
 * and who has it stays inside until it is mapped or given back. An exchange never waits there,
 * since who wants to move may hold what another waits for; nor does what goes to BO_NONE.
 */
#pragma once

#include "core/bo.h"
#include "core/device.h"
#include "drv/gpu_still.h"

#include <stdbool.h>
#include <stdint.h>

/* No object is larger. */
#define GPU_BO_MOST_BYTES (UINT64_C(1) << 30)

struct gpu_bo; /* the objects of one device: the owner of core/bo.h */

struct gpu_bo_setup {
	struct gpu_still_waits still; /* of a move */
	int64_t copy_ns;              /* that the copies of one part of a move may take */
	uint64_t part_bytes;          /* drv/gpu_move.h */
	unsigned most_steps;          /* likewise; 0: as many as there may be */
	uint64_t keep_bytes;          /* of host memory that no object has any more, at most */
};

/* Starts, with fences and epochs, before there is a context: fork children begin with nothing. */
void gpu_bo_init(void);

/*
 * Opens a device for objects; `setup` NULL: what a program gets. Once for a device: later calls
 * give the same. 0 with *out_owner; -ENOTSUP where driver or device have not what it needs;
 * -ENOMEM.
 */
int gpu_bo_open(struct cuda_ord ord, const struct gpu_bo_setup *setup, struct gpu_bo **out_owner);

/* For bo_device_init(), with an owner of gpu_bo_open(). Its fences are epochs (drv/epoch.h). */
extern const struct bo_ops gpu_bo_ops __attribute__((visibility("hidden")));

/* False where nothing can lie in BO_GTT: no such host memory, or another device has access. */
bool gpu_bo_has_gtt(struct gpu_bo *owner);

/*
 * From now on the peer too reaches what is mapped, and nothing can lie in BO_GTT any more. What is
 * mapped already: gpu_bo_allow().
 */
int gpu_bo_add_peer(struct gpu_bo *owner, struct cuda_ord peer);

/* Lets the device and its peers reach all that is mapped in [addr, addr + bytes), without holes. */
int gpu_bo_allow(struct gpu_bo *owner, uint64_t addr, uint64_t bytes);

/*
 * A descriptor of an object's device memory for another process, the caller's to close. The object
 * is pinned. 0; -ENOTSUP where it has none that can be shared, or what the driver said.
 */
int gpu_bo_export(const struct bo *bo, int *out_fd);

/* True when an object was lost. */
bool gpu_bo_is_lost(const struct gpu_bo *owner);

/* Gives back host memory that no object has, down to keep_bytes of it. */
void gpu_bo_trim(struct gpu_bo *owner, uint64_t keep_bytes);

/*
 * Of all devices: from now on what goes to BO_SYSTEM goes to pages of the process, or no longer.
 * Who says so has the gate shut.
 */
void gpu_bo_use_pages(bool is_wanted);

/*
 * Gives back all host memory of the driver's that no object has. 0; -EBUSY when some of it is in
 * use, -EIO when the driver may not have let some go: on a card a process with such memory cannot
 * be restored from a checkpoint.
 */
int gpu_bo_drop_host(void);

/* A round of the worker, of all devices: host memory goes back that no object has had for some. */
void gpu_bo_tick(void);
