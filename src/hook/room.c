#include "hook/room.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "core/object.h"
#include "core/object_evict.h"
#include "core/others.h"
#include "drv/capture.h"
#include "drv/gpu_cuda.h"
#include "drv/real.h"
#include "hook/movable.h"
#include "hook/suspend.h"

#include <stdio.h>

/* What goes at least, twice as much with each try: what the driver lacks it does not say. */
#define STEP_BYTES (UINT64_C(32) << 20)
/* How long what was freed is waited for. */
#define FREED_WAIT_NS (10 * NSEC_PER_SEC)
/* 32 MiB times so many doublings are more than any card has. */
enum { TRIES_MOST = 24 };
/* This process's own, others', other tenants'; and each might keep some again meanwhile. */
enum { ASKS_MOST = 4 };

/* What the card has free; false where nobody can be asked. */
static bool card_free(struct dev dev, uint64_t *out_bytes)
{
	size_t free_bytes, total_bytes;
	struct cuda_ord ord, here;

	if (!real.cuMemGetInfo_v2 || !device_ordinal(dev, &ord) ||
	    !gpu_cuda_current_device(&here) || here.v != ord.v ||
	    real.cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS)
		return false;
	*out_bytes = free_bytes;
	return true;
}

/* What is away comes back when the tenant is resumed: until then nobody can say what goes. */
static bool was_suspended(void)
{
	if (!suspend_may_shut())
		return false;
	gate_leave(gate_enter());
	/* It may be open for a moment. */
	if (!suspend_is_shut())
		clock_sleep_ns(NSEC_PER_MSEC);
	return true;
}

/* What is at hand with nothing in it, of this process and the others: true when some went. */
static bool give_idle(struct dev dev, uint64_t bytes)
{
	if (object_reclaim(dev, 0))
		return true;
	if (object_idle_bytes(dev) && object_reclaim(dev, clock_now_ns() + FREED_WAIT_NS))
		return true;
	return others_give_card(dev, bytes);
}

/* Another try is worth it. */
static bool make(struct room *room, struct dev dev, uint64_t bytes)
{
	uint64_t most_bytes, free_bytes = 0, lack_bytes = STEP_BYTES;

	if (room->tries >= TRIES_MOST || gate_has_entered() || capture_any())
		return false;
	if (was_suspended())
		return true;
	if (room->asks++ < ASKS_MOST && give_idle(dev, bytes))
		return true;
	if (!movable_may_spill())
		return false;
	most_bytes = object_evict_most(dev);
	if (most_bytes == 0)
		return false;
	if (bytes && card_free(dev, &free_bytes)) {
		/* All of it would not do: nothing need go. */
		if (bytes_beyond(bytes, free_bytes) > most_bytes)
			return false;
		lack_bytes = bytes_beyond(bytes, free_bytes);
	} else if (bytes) {
		lack_bytes = bytes;
	}
	/* Who says that there is room, and gives none, needs more than was asked for. */
	if (room->tries || lack_bytes == 0)
		lack_bytes = bytes_sum(lack_bytes, STEP_BYTES << room->tries);
	room->tries++;
	return object_evict(dev, lack_bytes) || was_suspended();
}

/* " (96 MiB are free)", where the driver may be asked. */
static const char *put_free(struct dev dev, char *out, size_t out_bytes)
{
	char amount[16];
	uint64_t free_bytes;

	out[0] = '\0';
	if (!capture_any() && card_free(dev, &free_bytes))
		snprintf(out, out_bytes, " (%s are free)",
			 units_format_size(movable_card_free(dev, free_bytes), amount,
					   sizeof(amount)));
	return out;
}

/* ", nor has host memory: 128 MiB of 128 MiB are in use", where that may take its place. */
static const char *put_host(char *out, size_t out_bytes)
{
	struct movable_host host;
	char used[16], limit[16];

	out[0] = '\0';
	if (movable_host(&host))
		snprintf(out, out_bytes, ", nor has host memory: %s of %s are in use",
			 units_format_size(host.used_bytes, used, sizeof(used)),
			 units_format_size(host.limit_bytes, limit, sizeof(limit)));
	return out;
}

void room_refused(struct dev dev, uint64_t bytes)
{
	char amount[16] = "a call", free_text[48], host_text[80];

	if (!log_enabled(LOG_WARN) || !enter_may_say())
		return;
	if (bytes)
		units_format_size(bytes, amount, sizeof(amount));
	log_warn("device %d (%.12s): %s refused: the card has no room for %s%s%s", dev.v,
		 quota_uuid(dev), amount, bytes ? "it" : "what it takes",
		 put_free(dev, free_text, sizeof(free_text)),
		 put_host(host_text, sizeof(host_text)));
}

bool room_make(struct room *room, struct dev dev, uint64_t bytes)
{
	bool is_made = make(room, dev, bytes);

	if (!is_made)
		room_refused(dev, bytes);
	return is_made;
}

bool room_make_here(struct room *room, uint64_t bytes)
{
	struct cuda_ord ord;
	struct dev dev;

	return init_is_member() && gpu_cuda_current_device(&ord) && device_by_ordinal(ord, &dev) &&
	       room_make(room, dev, bytes);
}
