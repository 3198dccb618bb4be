#include "core/backing.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/sys.h"
#include "core/backing_use.h"
#include "core/bo_device.h"
#include "core/bo_reap.h"
#include "core/charge.h"
#include "core/gate.h"
#include "core/others.h"
#include "core/rdma.h"
#include "shm/residency.h"

#include <errno.h>
#include <stdlib.h>

/*
 * An object larger than this would move in one piece that is too large. Where some leave while
 * others come, one way of the link is idle until the first has left and once the last has.
 */
#define BO_BYTES (UINT64_C(256) << 20)
#define SPILL_BO_BYTES (UINT64_C(64) << 20)

/* Between two attempts at what is busy. */
#define BUSY_NAP_NS NSEC_PER_MSEC

static const struct bo_want in_vram[] = { { .place = BO_VRAM } };
static const struct bo_placement vram = { in_vram, 1 };
/* Fresh memory has no bytes yet that would be worth a move of others. */
static const struct bo_want in_either[] = { { .place = BO_VRAM, .flags = BO_DESIRED },
					    { .place = BO_GTT } };
static const struct bo_placement either = { in_either, 2 };

static bool is_host(enum bo_place place)
{
	return place == BO_GTT || place == BO_SYSTEM;
}

static int residency_place(const struct backing_device *device, enum bo_place place)
{
	return is_host(place) ? RESIDENCY_HOST : device->dev.v;
}

/* What the tenant may have in a place, of a region that is there; UINT64_MAX: no bound. */
static uint64_t bound(const struct backing_device *device, enum bo_place place)
{
	const struct ration_region *own = device->bounds.own;
	uint64_t bytes = is_host(place) ? residency_host_limit(own) :
					  __atomic_load_n(&own->resident_bytes, __ATOMIC_RELAXED);

	return bytes ? bytes : UINT64_MAX;
}

/* Counts memory where it lies. What is in host memory is charged and not in the card's figure. */
static void count(struct backing_device *device, enum bo_place place, int64_t bytes)
{
	if (is_host(place))
		track_managed_add(device->dev, bytes);
	else
		track_physical_add(device->dev, bytes);
}

/*
 * Counts bytes within the bound of a place. What the dead held there is none of it: it is looked
 * for before host memory is refused, and now and then where only the place of new memory depends
 * on it.
 */
static int enter(struct backing_device *device, enum bo_place place, uint64_t bytes,
		 uint64_t most_bytes)
{
	const struct backing_bounds *b = &device->bounds;
	int at = residency_place(device, place);

	if (residency_add(b->own, b->slot, at, bytes, most_bytes) == 0)
		return 0;
	if (is_host(place))
		quota_reap();
	else
		quota_settle(device->dev);
	if (!quota_has_region_now())
		return -ENODEV;
	return residency_add(b->own, b->slot, at, bytes, most_bytes);
}

static int take_host(void *arg, uint64_t bytes)
{
	struct backing_device *device = arg;
	const struct backing_bounds *b = &device->bounds;

	if (!quota_has_region_now())
		return -ENOSPC;
	if (enter(device, BO_SYSTEM, bytes, bound(device, BO_SYSTEM)) == 0)
		return 0;
	/* It may be had later: others of the tenant, and other devices, may keep some. */
	others_want_host(b);
	return -ENOSPC;
}

static void give_host(void *arg, uint64_t bytes)
{
	struct backing_device *device = arg;

	if (quota_has_region_now())
		residency_sub(device->bounds.own, device->bounds.slot, RESIDENCY_HOST, bytes);
}

static void keep_host(void *arg, int64_t bytes)
{
	struct backing_device *device = arg;

	if (quota_has_region_now())
		residency_keep(device->bounds.own, device->bounds.slot, bytes);
}

/* Before memory is taken in a place. Where the owner keeps host memory it asks itself. */
static int add(struct backing_device *device, const struct bo *bo, enum bo_place place)
{
	uint64_t most;

	if (is_host(place) && device->below->set_host)
		return 0;
	if (!quota_has_region_now())
		return -ENODEV;
	/* From host memory to host memory it stays the same. */
	most = is_host(bo->place) && is_host(place) ? UINT64_MAX : bound(device, place);
	return enter(device, place, bo->bytes, most);
}

/* Of what was added. */
static void sub(struct backing_device *device, enum bo_place place, uint64_t bytes)
{
	const struct backing_bounds *b = &device->bounds;

	if ((!is_host(place) || !device->below->set_host) && quota_has_region_now())
		residency_sub(b->own, b->slot, residency_place(device, place), bytes);
}

static int take(struct backing_device *device, const struct bo *bo, enum bo_place place,
		struct bo_memory *out_memory)
{
	int rc;

	if (add(device, bo, place) < 0)
		return -ENOSPC;
	charge_begin();
	rc = device->below->alloc(device->owner, bo, place, out_memory);
	if (rc == 0) {
		sub(device, place, bo->bytes - out_memory->bytes);
		count(device, place, (int64_t)out_memory->bytes);
	} else {
		sub(device, place, bo->bytes);
	}
	charge_over();
	return rc;
}

/*
 * What nobody uses goes before anything lies elsewhere. Others are asked only for fresh memory that
 * would: for what moves the program may be held, and who would be refused asks them later.
 */
static bool give_idle(struct backing_device *device, const struct bo *bo)
{
	if (device->give_idle && device->give_idle(device->idle_arg))
		return true;
	return bo->place == BO_NONE && device->bounds.may_spill &&
	       others_give(device->dev, bo->bytes);
}

static int alloc(void *owner, const struct bo *bo, enum bo_place place,
		 struct bo_memory *out_memory)
{
	struct backing_device *device = owner;
	int rc = take(device, bo, place, out_memory);

	if (rc == -ENOSPC && place == BO_VRAM && give_idle(device, bo))
		rc = take(device, bo, place, out_memory);
	return rc;
}

static void free_memory(void *owner, enum bo_place place, struct bo_memory memory)
{
	struct backing_device *device = owner;

	charge_begin();
	device->below->free(device->owner, place, memory);
	count(device, place, -(int64_t)memory.bytes);
	sub(device, place, memory.bytes);
	charge_over();
}

static void move(void *owner, struct bo_move *moves, unsigned count)
{
	struct backing_device *device = owner;
	uint64_t bytes = 0;

	device->below->move(device->owner, moves, count);
	for (unsigned i = 0; i < count; i++) {
		if (moves[i].rc != 0 || moves[i].to_place == BO_NONE)
			continue;
		backing_use_set_far((struct backing_object *)moves[i].bo,
				    moves[i].to_place != BO_VRAM);
		if (moves[i].from_place != BO_NONE)
			bytes += moves[i].bo->bytes;
	}
	if (bytes && quota_has_region_now())
		__atomic_fetch_add(&device->bounds.own->residency[device->bounds.slot].moved_bytes,
				   bytes, __ATOMIC_RELAXED);
}

static int begin_still(void *owner, const struct bo_patience *patience)
{
	struct backing_device *device = owner;

	return device->below->begin ? device->below->begin(device->owner, patience) : 0;
}

static void end_still(void *owner)
{
	struct backing_device *device = owner;

	if (device->below->end)
		device->below->end(device->owner);
}

static bool is_done(void *owner, uint64_t fence)
{
	struct backing_device *device = owner;

	return device->below->is_done(device->owner, fence);
}

static int wait_for(void *owner, uint64_t fence, int64_t until_ns)
{
	struct backing_device *device = owner;

	return device->below->wait(device->owner, fence, until_ns);
}

/* Where nothing may lie elsewhere an object that has no room is refused. */
static bool is_valuable(void *owner, const struct bo *bo, enum bo_place place)
{
	struct backing_device *device = owner;

	if (!device->bounds.may_spill || !device->below->evict_to || rdma_is_there())
		return false;
	return !device->below->is_valuable || device->below->is_valuable(device->owner, bo, place);
}

static const struct bo_placement *evict_to(void *owner, const struct bo *bo, enum bo_place place)
{
	struct backing_device *device = owner;

	return device->below->evict_to ? device->below->evict_to(device->owner, bo, place) : &vram;
}

static void destroy(void *owner, struct bo *bo)
{
	struct backing_device *device = owner;
	struct backing *backing = bo->user;

	quota_release(device->dev, QUOTA_DATA, bo->bytes);
	atomic_fetch_add(&device->ended, 1);
	if (atomic_fetch_sub(&backing->left, 1) > 1)
		return;
	if (backing->end)
		backing->end(backing, backing->arg);
	free(backing);
}

void backing_init(struct backing_device *device, struct dev dev,
		  const struct backing_bounds *bounds, const struct bo_ops *below, void *owner)
{
	device->dev = dev;
	device->bounds = *bounds;
	device->below = below;
	device->owner = owner;
	device->ops = (struct bo_ops){
		.alloc = alloc,
		.free = free_memory,
		.move = move,
		.begin = begin_still,
		.end = end_still,
		.is_done = is_done,
		.wait = wait_for,
		.is_valuable = is_valuable,
		.evict_to = evict_to,
		.destroy = destroy,
	};
	device->host = (struct bo_host){
		.arg = device, .take = take_host, .give = give_host, .keep = keep_host
	};
	bo_device_init(&device->bo, &device->ops, device);
	if (below->set_host)
		below->set_host(owner, &device->host);
}

/* Memory for one object. Nobody else knows it yet, so that its reservation is had at once. */
static int fill_once(struct backing_device *device, struct bo *bo)
{
	struct bo_ctx ctx = { 0 };
	int rc = bo_reserve(bo, &ctx);

	if (rc < 0)
		return rc;
	rc = bo_validate(bo, device->bounds.may_spill ? &either : &vram, &ctx);
	bo_unreserve(bo);
	return rc;
}

/*
 * What others have pending may be what is missing: who has no ticket waits for that a tenth of a
 * second at a time, and is not out of memory before it is known whether there is any.
 */
static int fill(struct backing_device *device, struct bo *bo)
{
	int64_t until_ns = clock_now_ns() + BO_WAIT_NS;
	int held = sys_cancel_hold(), rc;

	while ((rc = fill_once(device, bo)) == -EBUSY && clock_now_ns() < until_ns)
		clock_sleep_ns(BUSY_NAP_NS);
	sys_cancel_release(held);
	return rc;
}

static uint64_t bo_bytes(const struct backing_device *device)
{
	return device->bounds.may_spill ? SPILL_BO_BYTES : BO_BYTES;
}

/* Its i-th object, charged and with memory. It is one of those left even where it got none. */
static int make(struct backing *b, unsigned i)
{
	uint64_t most_bytes = bo_bytes(b->device), at = i * most_bytes;
	uint64_t bytes = bytes_least(b->bytes - at, most_bytes);
	int rc;

	/* Who is suspended takes nothing of the device. */
	gate_leave(gate_enter());
	rc = quota_reserve(b->device->dev, QUOTA_DATA, bytes);
	if (rc < 0)
		return rc;
	bo_init(&b->objects[i].bo, &b->device->bo, b->addr + at, bytes, 0);
	b->objects[i].bo.user = b;
	atomic_fetch_add(&b->left, 1);
	rc = fill(b->device, &b->objects[i].bo);
	if (rc < 0)
		bo_put(&b->objects[i].bo);
	return rc;
}

int backing_open(struct backing_device *device, uint64_t addr, uint64_t bytes, backing_end *end,
		 void *arg, struct backing **out_backing)
{
	unsigned count = (unsigned)(bytes_round_up(bytes, bo_bytes(device)) / bo_bytes(device));
	unsigned made = 0;
	struct backing *b = calloc(1, sizeof(*b) + count * sizeof(b->objects[0]));
	int rc = 0;

	if (!b)
		return -ENOMEM;
	b->device = device;
	b->addr = addr;
	b->bytes = bytes;
	b->arg = arg;
	b->count = count;
	/* One more than there are until it is known whether all have memory. */
	atomic_init(&b->left, 1);
	while (made < count && (rc = make(b, made)) == 0)
		made++;
	if (rc == 0) {
		b->end = end;
		atomic_fetch_sub(&b->left, 1);
		*out_backing = b;
		return 0;
	}
	while (made-- > 0)
		bo_put(&b->objects[made].bo);
	/* Nothing used it: all have ended, but for one that the driver's side still holds. */
	if (atomic_fetch_sub(&b->left, 1) == 1)
		free(b);
	return rc;
}

void backing_closes(struct backing_device *device, uint64_t bytes)
{
	atomic_fetch_add(&device->closing_bytes, bytes);
}

bool backing_is_in_hand(struct backing_device *device)
{
	return atomic_load(&device->closing_bytes) > 0 || bo_reap_is_under_way(&device->bo);
}

void backing_close(struct backing *backing, uint64_t fence)
{
	struct backing_device *device = backing->device;
	uint64_t bytes = backing->bytes;
	unsigned count = backing->count;
	int held = sys_cancel_hold();

	/* It may end with the last one. */
	for (unsigned i = 0; i < count; i++) {
		struct bo *bo = &backing->objects[i].bo;

		if (fence)
			bo_add_fence(bo, fence);
		bo_put(bo);
	}
	atomic_fetch_sub(&device->closing_bytes, bytes);
	sys_cancel_release(held);
}

bool backing_reap(struct backing_device *device)
{
	uint64_t before = atomic_load(&device->ended);
	int held = sys_cancel_hold();

	bo_reap(&device->bo);
	sys_cancel_release(held);
	return atomic_load(&device->ended) != before;
}

void backing_span(const struct backing *backing, uint64_t addr, uint64_t bytes, unsigned *out_first,
		  unsigned *out_end)
{
	uint64_t each_bytes = bo_bytes(backing->device), at = addr - backing->addr;

	*out_first = (unsigned)(at / each_bytes);
	*out_end = (unsigned)((at + bytes + each_bytes - 1) / each_bytes);
}

uint64_t backing_room(const struct backing_device *device, enum bo_place place)
{
	uint64_t most = quota_has_region_now() ? bound(device, place) : 0;

	if (most == 0 || most == UINT64_MAX)
		return most;
	quota_settle(device->dev);
	if (!quota_has_region_now())
		return 0;
	return bytes_beyond(most,
			    residency_sum(device->bounds.own, residency_place(device, place)));
}

bool backing_renew(struct backing *backing)
{
	bool is_near = true;

	bo_device_lock(&backing->device->bo);
	for (unsigned i = 0; i < backing->count && is_near; i++)
		is_near = backing->objects[i].bo.place == BO_VRAM;
	for (unsigned i = 0; i < backing->count && is_near; i++)
		bo_device_touch(&backing->objects[i].bo);
	bo_device_unlock(&backing->device->bo);
	return is_near;
}

void backing_trim(struct backing_device *device)
{
	if (device->below->trim)
		device->below->trim(device->owner);
}

int backing_pin_object(struct bo *bo)
{
	int held = sys_cancel_hold();
	int rc = bo_reserve(bo, NULL);

	if (rc == 0) {
		rc = bo_validate(bo, &vram, &(struct bo_ctx){ 0 });
		if (rc == 0)
			bo_pin(bo);
		bo_unreserve(bo);
	}
	sys_cancel_release(held);
	return rc;
}

int backing_pin(struct backing *backing, uint64_t addr, uint64_t bytes)
{
	unsigned first, end, i;
	int rc = 0;

	backing_span(backing, addr, bytes, &first, &end);
	for (i = first; i < end; i++) {
		rc = backing_pin_object(&backing->objects[i].bo);
		if (rc < 0)
			break;
	}
	while (rc < 0 && i-- > first)
		bo_unpin(&backing->objects[i].bo);
	return rc;
}

unsigned backing_get(struct backing *backing, uint64_t addr, uint64_t bytes, struct bo **out_bos,
		     unsigned most)
{
	unsigned first, end, n = 0;

	backing_span(backing, addr, bytes, &first, &end);
	for (unsigned i = first; i < end && n < most; i++)
		out_bos[n++] = bo_get(&backing->objects[i].bo);
	return n;
}

void backing_unpin(struct backing *backing, uint64_t addr, uint64_t bytes)
{
	unsigned first, end;

	backing_span(backing, addr, bytes, &first, &end);
	for (unsigned i = first; i < end; i++)
		bo_unpin(&backing->objects[i].bo);
}
