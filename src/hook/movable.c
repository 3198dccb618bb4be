#include "hook/movable.h"

#include "base/log.h"
#include "base/process.h"
#include "core/exec_uses.h"
#include "core/gate.h"
#include "drv/capture.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_object.h"
#include "hook/own_row.h"
#include "hook/room.h"
#include "hook/suspend.h"
#include "shm/residency.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/*
 * Addresses cost nothing: so many times the card's memory that holes between objects never matter.
 */
enum { ADDRESSES_PER_BYTE = 4 };
#define ADDRESSES_LEAST (UINT64_C(16) << 30)
#define ADDRESSES_GRAIN (UINT64_C(128) << 20)

/* Of a device. */
enum served { SERVED_UNKNOWN, SERVED, NOT_SERVED };

struct movable_state {
	/* constant after movable_start() */
	struct ration_region *own;
	bool may_spill;
	_Atomic bool is_on;
	_Atomic uint8_t served[RATION_DEVICES]; /* enum served; atomic */
};
PROCESS_STATE(movable_state, state);

bool movable_is_on(void)
{
	return atomic_load_explicit(&state.s.is_on, memory_order_relaxed);
}

bool movable_may_spill(void)
{
	return movable_is_on() && state.s.may_spill;
}

static uint64_t addresses_for(struct dev dev)
{
	uint64_t physical_bytes = state.s.own->devices[dev.v].physical_bytes;
	uint64_t limit_bytes = quota_limit(dev);
	uint64_t bytes = physical_bytes > limit_bytes ? physical_bytes : limit_bytes;

	if (bytes > UINT64_MAX / ADDRESSES_PER_BYTE / 2)
		bytes = 0;
	bytes *= ADDRESSES_PER_BYTE;
	if (bytes < ADDRESSES_LEAST)
		bytes = ADDRESSES_LEAST;
	return bytes / ADDRESSES_GRAIN * ADDRESSES_GRAIN;
}

/* As many addresses as can be had. */
static int open_device(struct dev dev)
{
	const struct backing_bounds bounds = {
		.own = state.s.own,
		.slot = quota_slot(),
		.may_spill = state.s.may_spill,
	};
	struct gpu_bo *owner;
	struct cuda_ord ord;
	int rc = device_ordinal(dev, &ord) ? gpu_bo_open(ord, NULL, &owner) : -ENOTSUP;

	if (rc < 0)
		return rc;
	for (uint64_t bytes = addresses_for(dev); bytes >= ADDRESSES_LEAST / 4; bytes /= 2) {
		rc = object_open(dev, &gpu_object_ops, owner, bytes, &bounds);
		if (rc != -ENOMEM)
			break;
	}
	return rc;
}

/* What an oversubscribed tenant cannot do without. */
static int open_all(void)
{
	for (int o = 0; o < device_ordinals(); o++) {
		struct dev dev;
		int rc;

		if (!device_by_ordinal((struct cuda_ord){ o }, &dev))
			continue;
		rc = open_device(dev);
		if (rc == 0 && !gpu_object_can_spill((struct cuda_ord){ o }))
			rc = -ENOTSUP;
		if (rc < 0) {
			log_error("device %d (%.12s): host memory cannot take the place of its own "
				  "(%s): it cannot be oversubscribed",
				  dev.v, quota_uuid(dev), strerror(-rc));
			return rc;
		}
	}
	return 0;
}

int movable_start(struct region *region)
{
	uint32_t flags = region->own->flags;

	if (!(flags & (RATION_FLAG_MOVABLE | RATION_FLAG_OVERSUBSCRIBE)))
		return 0;
	process_wipe_on_fork(&state, sizeof(state));
	gpu_object_init();
	object_init();
	exec_uses_init();
	suspend_start(region);
	state.s.own = region->own;
	state.s.may_spill = flags & RATION_FLAG_OVERSUBSCRIBE;
	atomic_store(&state.s.is_on, true);
	return state.s.may_spill ? open_all() : 0;
}

/* Slow path of serves(). Two threads may come at once: the second finds the device open. */
static bool begin_serving(struct dev dev)
{
	int rc = open_device(dev);

	if (rc < 0)
		log_warn("device %d (%.12s): its memory cannot be moved (%s); the driver's own is "
			 "given, which stays where it is",
			 dev.v, quota_uuid(dev), strerror(-rc));
	atomic_store_explicit(&state.s.served[dev.v], rc < 0 ? NOT_SERVED : SERVED,
			      memory_order_release);
	return rc == 0;
}

static bool serves(struct dev dev)
{
	switch (atomic_load_explicit(&state.s.served[dev.v], memory_order_acquire)) {
	case SERVED:
		return true;
	case NOT_SERVED:
		return false;
	default:
		return begin_serving(dev);
	}
}

enum movable movable_alloc(uint64_t bytes, CUdeviceptr *out_addr, CUresult *out_res)
{
	enum enter what;
	const void *ctx;
	struct dev dev;
	uint64_t addr;
	int rc, waits = 0;

	what = bytes ? enter_current(&dev, &ctx) : ENTER_FORWARD;
	if (what == ENTER_REFUSE) {
		*out_res = enter_refusal();
		return MOVABLE_DONE;
	}
	if (what != ENTER_CHARGE || !movable_is_on() || !serves(dev))
		return MOVABLE_DRIVER;
	*out_res = capture_any() ? GATE_ASK(enter_would_allow()) : CUDA_SUCCESS;
	if (*out_res != CUDA_SUCCESS)
		return MOVABLE_DONE;
	do
		rc = object_alloc(dev, ctx, bytes, &addr);
	while (rc == -EDQUOT && own_row_wait(dev, bytes, &waits));
	if (rc == -ENOMEM)
		room_refused(dev, bytes);
	if (rc < 0) {
		*out_res = enter_refused_now(rc, dev, bytes);
		return MOVABLE_DONE;
	}
	*out_addr = addr;
	*out_res = CUDA_SUCCESS;
	return MOVABLE_DONE;
}

uint64_t movable_card_free(struct dev dev, uint64_t card_bytes)
{
	return movable_is_on() && quota_has_region_now() ?
		       residency_card_free(state.s.own, dev.v, card_bytes) :
		       card_bytes;
}

bool movable_host(struct movable_host *out_host)
{
	uint64_t limit_bytes;

	if (!movable_may_spill() || !quota_has_region_now())
		return false;
	limit_bytes = residency_host_limit(state.s.own);
	if (limit_bytes == UINT64_MAX)
		return false;
	*out_host = (struct movable_host){ residency_sum(state.s.own, RESIDENCY_HOST),
					   limit_bytes };
	return true;
}

/*
 * An error that earlier work left in the context: the driver says it to a free and frees nothing.
 * What is still running is not waited for. During a capture such a question would break it.
 */
static CUresult left_error(void)
{
	CUresult res = real.cuStreamQuery ? real.cuStreamQuery(NULL) : CUDA_SUCCESS;

	return status_is_sticky(res) ? res : CUDA_SUCCESS;
}

enum movable movable_free(CUdeviceptr addr, CUresult *out_res)
{
	struct cuda_ord ord;
	const void *ctx;

	if (!gpu_cuda_current(&ord, &ctx))
		return MOVABLE_DRIVER;
	*out_res = GATE_ASK(capture_any() ? enter_would_allow() : left_error());
	if (*out_res == CUDA_SUCCESS && object_free(addr) < 0)
		return MOVABLE_DRIVER;
	return MOVABLE_DONE;
}
