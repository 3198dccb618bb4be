#include "drv/gpu_bo.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "core/gate.h"
#include "core/rdma.h"
#include "drv/epoch.h"
#include "drv/gpu_fence.h"
#include "drv/gpu_move.h"
#include "drv/gpu_probe.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { FRESH_STEPS = 16 };

static const struct gpu_bo_setup usual = {
	.still = GPU_STILL_MOVE_WAITS,
	.copy_ns = 10 * NSEC_PER_SEC,
	.part_bytes = UINT64_C(256) << 20, /* takes longer to copy than to map */
	.keep_bytes = UINT64_MAX,
};

/* Whether host memory keeps what the device writes. */
enum probed { PROBED_NOT, PROBED_RIGHT, PROBED_WRONG };

struct gpu_bo {
	struct cuda_ord ord;       /* constant */
	struct gpu_bo_setup setup; /* constant */
	struct gpu_store store;
	struct gpu_access access;
	_Atomic bool is_shared, is_lost; /* atomic */
	_Atomic uint8_t probed;          /* enum probed; atomic */
	struct gpu_move move;            /* who has all stand still */
};

struct gpu_bo_state {
	pthread_mutex_t mutex; /* orders gpu_bo_open(); zero is an unlocked one */
	struct gpu_bo *_Atomic devices[GPU_VMM_DEVICES];
	_Atomic bool uses_pages;
};
PROCESS_STATE(gpu_bo_state, state);

void gpu_bo_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
	gpu_fence_init();
	gpu_still_init();
	epoch_init();
}

static int open_device(struct cuda_ord ord, const struct gpu_bo_setup *setup,
		       struct gpu_bo **out_owner)
{
	struct gpu_bo *o;
	int rc;

	if (!GATE_CALL(gpu_vmm_is_there(ord)))
		return -ENOTSUP;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->ord = ord;
	o->setup = *setup;
	gpu_access_init(&o->access, ord);
	GATE_CALL((gpu_store_init(&o->store, ord, setup->keep_bytes), 0));
	o->move = (struct gpu_move){ .access = &o->access,
				     .store = &o->store,
				     .alias_bytes = GPU_BO_MOST_BYTES,
				     .part_bytes = setup->part_bytes,
				     .copy_ns = setup->copy_ns,
				     .most_steps = setup->most_steps ? setup->most_steps :
								       GPU_MOVE_STEPS };
	rc = GATE_CALL(gpu_move_init(&o->move));
	if (rc < 0)
		free(o);
	else
		*out_owner = o;
	return rc;
}

int gpu_bo_open(struct cuda_ord ord, const struct gpu_bo_setup *setup, struct gpu_bo **out_owner)
{
	struct gpu_bo *o = NULL;
	int rc = 0;

	if (ord.v < 0 || ord.v >= GPU_VMM_DEVICES)
		return -ENOTSUP;
	pthread_mutex_lock(&state.s.mutex);
	o = atomic_load(&state.s.devices[ord.v]);
	if (!o)
		rc = open_device(ord, setup ? setup : &usual, &o);
	if (rc == 0)
		atomic_store(&state.s.devices[ord.v], o);
	pthread_mutex_unlock(&state.s.mutex);
	if (rc == 0)
		*out_owner = o;
	return rc;
}

bool gpu_bo_has_gtt(struct gpu_bo *owner)
{
	return owner->store.has_host && !atomic_load(&owner->is_shared) &&
	       atomic_load(&owner->probed) != PROBED_WRONG;
}

/*
 * Tried with the first memory that is asked for, before anything lies in host memory; until it can
 * be tried, what the driver says is believed. Two threads may try at once.
 */
static void probe(struct gpu_bo *o)
{
	int rc;

	if (!o->store.has_host || atomic_load(&o->probed) != PROBED_NOT)
		return;
	rc = GATE_CALL(gpu_probe_host(o->ord));
	if (rc == -EAGAIN)
		return;
	if (atomic_exchange(&o->probed, rc == 0 ? PROBED_RIGHT : PROBED_WRONG) == PROBED_NOT &&
	    rc < 0)
		log_error("device %d: host memory that is mapped for it does not keep what it "
			  "writes: nothing of its memory lies there",
			  o->ord.v);
}

static struct gpu_chunk *chunk_of(struct bo_memory memory)
{
	return (struct gpu_chunk *)(uintptr_t)memory.handle;
}

/* Host memory that an object has already is the same where it is mapped and where it is not. */
static bool is_same_memory(const struct bo *bo, enum bo_place place)
{
	if (bo->place == BO_SYSTEM && place == BO_GTT)
		return chunk_of(bo->memory)->handle != 0;
	return bo->place == BO_GTT && place == BO_SYSTEM && !atomic_load(&state.s.uses_pages);
}

static int take_pages(struct gpu_bo *o, const struct bo *bo, struct gpu_chunk **out_chunk)
{
	return gpu_store_take_pages(&o->store, bo->bytes,
				    bo->place == BO_GTT ? GPU_STORE_INSTEAD : GPU_STORE_MORE,
				    out_chunk);
}

/* Of what is not mapped the process's own pages will do. */
static int take_in(struct gpu_bo *o, const struct bo *bo, enum bo_place place,
		   struct gpu_chunk **out_chunk)
{
	enum gpu_vmm_kind kind = place == BO_VRAM ? GPU_VMM_DEVICE : GPU_VMM_HOST;
	int rc;

	if (place == BO_SYSTEM && atomic_load(&state.s.uses_pages))
		return take_pages(o, bo, out_chunk);
	rc = gpu_store_take(&o->store, kind, bo->bytes, out_chunk);
	return rc < 0 && place == BO_SYSTEM ? take_pages(o, bo, out_chunk) : rc;
}

/*
 * Fresh memory that the thread has in hand: it stays inside the gate until that is mapped or given
 * back, so that who has shut the gate finds none. Nothing is waited for meanwhile.
 */
static __thread struct {
	unsigned count;
	uint32_t was_in; /* for gate_leave() */
} in_hand __attribute__((tls_model("initial-exec")));

static void keep_inside(struct gpu_chunk *chunk, uint32_t was_in)
{
	chunk->is_fresh = true;
	if (in_hand.count++ == 0)
		in_hand.was_in = was_in;
	else
		gate_leave(was_in);
}

static void let_out(void)
{
	if (--in_hand.count == 0)
		gate_leave(in_hand.was_in);
}

/* Who is held gets nothing new. To move what is there needs no gate, and must not wait. */
static int take(struct gpu_bo *o, const struct bo *bo, enum bo_place place,
		struct gpu_chunk **out_chunk)
{
	uint32_t was_in;
	int rc;

	if (bo->place != BO_NONE)
		return take_in(o, bo, place, out_chunk);
	was_in = gate_enter();
	rc = take_in(o, bo, place, out_chunk);
	if (rc == 0)
		keep_inside(*out_chunk, was_in);
	else
		gate_leave(was_in);
	return rc;
}

static int alloc(void *owner, const struct bo *bo, enum bo_place place,
		 struct bo_memory *out_memory)
{
	struct gpu_bo *o = owner;
	struct gpu_chunk *chunk;
	int rc;

	if (place == BO_NONE || place >= BO_PLACES || bo->bytes > GPU_BO_MOST_BYTES)
		return -EINVAL;
	if (bo->place == BO_NONE)
		probe(o);
	if (place == BO_GTT && !gpu_bo_has_gtt(o))
		return -ENOSPC;
	if (is_same_memory(bo, place)) {
		chunk = chunk_of(bo->memory);
		gpu_store_share(chunk);
	} else {
		rc = take(o, bo, place, &chunk);
		if (rc < 0)
			return rc == -ENOMEM ? -ENOSPC : rc;
	}
	*out_memory = (struct bo_memory){ (uint64_t)(uintptr_t)chunk, chunk->bytes };
	return 0;
}

static void free_memory(void *owner, enum bo_place place, struct bo_memory memory)
{
	struct gpu_bo *o = owner;
	struct gpu_chunk *chunk = chunk_of(memory);
	bool is_fresh = chunk->is_fresh;

	(void)place;
	if (is_fresh)
		chunk->is_fresh = false;
	gpu_store_give(&o->store, chunk);
	if (is_fresh)
		let_out();
}

/*
 * Maps memory where nothing is, inside the gate since it was taken; or takes away what is there,
 * which no work can use any more and nobody has: for that a suspension waits, so it waits for none.
 */
static void place(struct gpu_bo *o, struct bo_move *moves, unsigned count)
{
	struct gpu_remap steps[FRESH_STEPS];
	unsigned n;

	for (unsigned i = 0; i < count; i++)
		gpu_remap_init(&steps[i], &moves[i]);
	for (unsigned i = 0; i < count; i += n) {
		n = 1;
		if (steps[i].was_there) {
			steps[i].rc = gpu_remap_clear(&steps[i]);
		} else if (steps[i].is_there) {
			n = gpu_remap_run(&steps[i], count - i);
			gpu_remap_place(&o->access, &steps[i], n);
		}
	}
	for (unsigned i = 0; i < count; i++) {
		moves[i].rc = steps[i].rc;
		if (steps[i].rc == 0 && steps[i].to && steps[i].to->is_fresh) {
			steps[i].to->is_fresh = false;
			let_out();
		}
	}
}

static void exchange(struct gpu_bo *o, struct bo_move *moves, unsigned count)
{
	unsigned lost;
	int rc = gpu_still_begin(&o->setup.still);

	if (rc < 0) {
		for (unsigned i = 0; i < count; i++)
			moves[i].rc = rc;
		return;
	}
	lost = gpu_move_run(&o->move, moves, count);
	gpu_still_end();
	if (lost && !atomic_exchange(&o->is_lost, true))
		log_error(
			"device %d: memory that was moved could neither be mapped where it is nor "
			"where it was: it is lost to this process",
			o->ord.v);
}

static int begin_still(void *owner, const struct bo_patience *patience)
{
	struct gpu_bo *o = owner;
	struct gpu_still_waits waits = o->setup.still;
	int rc;

	if (patience) {
		waits.done_ns = patience->work_ns;
		waits.gives_way = patience->is_over != NULL;
		waits.is_over = patience->is_over;
		waits.arg = patience->arg;
	}
	rc = gpu_still_begin(&waits);
	if (rc == 0)
		o->move.patience = patience;
	return rc;
}

static void end_still(void *owner)
{
	struct gpu_bo *o = owner;

	o->move.patience = NULL;
	gpu_still_end();
}

enum step { FRESH, EXCHANGE, REFUSED };

/* What leaves the device is refused where another may have the addresses of its memory. */
static enum step step_of(const struct bo_move *move, bool keeps)
{
	if (move->from_place == BO_NONE || move->to_place == BO_NONE)
		return FRESH;
	return move->from_place == BO_VRAM && keeps ? REFUSED : EXCHANGE;
}

static bool is_any_leaving(const struct bo_move *moves, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (moves[i].from_place == BO_VRAM && moves[i].to_place != BO_NONE)
			return true;
	return false;
}

static void refuse(struct bo_move *moves, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		moves[i].rc = -EPERM;
}

static void move(void *owner, struct bo_move *moves, unsigned count)
{
	bool keeps = is_any_leaving(moves, count) && rdma_look();
	unsigned n;

	for (unsigned i = 0; i < count; i += n) {
		enum step step = step_of(&moves[i], keeps);

		for (n = 1; i + n < count && step_of(&moves[i + n], keeps) == step; n++)
			if (step == FRESH && n == FRESH_STEPS)
				break;
		if (step == FRESH)
			place(owner, &moves[i], n);
		else if (step == EXCHANGE)
			exchange(owner, &moves[i], n);
		else
			refuse(&moves[i], n);
	}
}

static bool is_done(void *owner, uint64_t fence)
{
	(void)owner;
	return epoch_is_done(fence);
}

static int wait_for(void *owner, uint64_t fence, int64_t until_ns)
{
	(void)owner;
	return epoch_wait(fence, until_ns);
}

static const struct bo_want in_gtt[] = { { .place = BO_GTT } };
static const struct bo_placement gtt = { in_gtt, 1 };

/* Work reaches what lies in host memory too, so that it has nowhere to go from there. */
static bool is_valuable(void *owner, const struct bo *bo, enum bo_place place)
{
	struct gpu_bo *o = owner;

	(void)bo;
	return place == BO_VRAM && gpu_bo_has_gtt(o);
}

static const struct bo_placement *evict_to(void *owner, const struct bo *bo, enum bo_place place)
{
	(void)owner;
	(void)bo;
	(void)place;
	return &gtt;
}

static void set_host(void *owner, const struct bo_host *host)
{
	struct gpu_bo *o = owner;

	gpu_store_count(&o->store, host);
}

static void trim(void *owner)
{
	gpu_bo_trim(owner, 0);
}

const struct bo_ops gpu_bo_ops = {
	.alloc = alloc,
	.free = free_memory,
	.move = move,
	.begin = begin_still,
	.end = end_still,
	.is_done = is_done,
	.wait = wait_for,
	.is_valuable = is_valuable,
	.evict_to = evict_to,
	.set_host = set_host,
	.trim = trim,
};

int gpu_bo_add_peer(struct gpu_bo *owner, struct cuda_ord peer)
{
	struct gpu_access *access = &owner->access;
	int rc = 0;

	pthread_mutex_lock(&access->mutex);
	for (unsigned i = 0; i < access->count && rc == 0; i++)
		rc = access->ords[i].v == peer.v ? -EALREADY : 0;
	if (rc == 0 && access->count == GPU_VMM_DEVICES)
		rc = -ENOSPC;
	if (rc == 0)
		access->ords[access->count++] = peer;
	pthread_mutex_unlock(&access->mutex);
	atomic_store(&owner->is_shared, true);
	return rc == -EALREADY ? 0 : rc;
}

int gpu_bo_allow(struct gpu_bo *owner, uint64_t addr, uint64_t bytes)
{
	return gpu_access_allow(&owner->access, addr, bytes);
}

int gpu_bo_export(const struct bo *bo, int *out_fd)
{
	const struct gpu_chunk *chunk = chunk_of(bo->memory);

	if (bo->place != BO_VRAM || !chunk->handle)
		return -ENOTSUP;
	return gpu_vmm_export(chunk->handle, out_fd);
}

bool gpu_bo_is_lost(const struct gpu_bo *owner)
{
	return atomic_load(&owner->is_lost);
}

void gpu_bo_trim(struct gpu_bo *owner, uint64_t keep_bytes)
{
	gpu_store_trim(&owner->store, keep_bytes);
}

void gpu_bo_use_pages(bool is_wanted)
{
	atomic_store(&state.s.uses_pages, is_wanted);
}

int gpu_bo_drop_host(void)
{
	int rc = gpu_vmm_has_left() ? -EIO : 0;

	for (int i = 0; i < GPU_VMM_DEVICES; i++) {
		struct gpu_bo *o = atomic_load(&state.s.devices[i]);

		if (!o)
			continue;
		gpu_store_trim(&o->store, 0);
		if (gpu_store_has_host_handles(&o->store))
			rc = -EBUSY;
	}
	return rc;
}

void gpu_bo_tick(void)
{
	for (int i = 0; i < GPU_VMM_DEVICES; i++) {
		struct gpu_bo *o = atomic_load(&state.s.devices[i]);

		if (o)
			gpu_store_tick(&o->store);
	}
}
