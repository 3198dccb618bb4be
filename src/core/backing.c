#include "core/backing.h"

#include "core/charge.h"

#include <errno.h>
#include <stdlib.h>

/* An object larger than this would move in one piece that is too large. */
#define BO_BYTES (UINT64_C(256) << 20)

/* Why the calling thread's last reservation failed, told apart from a card that is full. */
static __thread bool was_refused;

static const struct bo_want in_vram[] = { { .place = BO_VRAM } };
static const struct bo_placement vram = { in_vram, 1 };

static int charge_vram(struct dev dev, uint64_t bytes)
{
	int rc = quota_reserve(dev, QUOTA_DATA, bytes);

	if (rc < 0)
		was_refused = true;
	return rc < 0 ? -ENOSPC : 0;
}

/* Between charge_begin() and charge_over(). */
static void uncharge_vram(struct dev dev, uint64_t bytes)
{
	track_physical_add(dev, -(int64_t)bytes);
	quota_release(dev, QUOTA_DATA, bytes);
}

static int alloc(void *owner, const struct bo *bo, enum bo_place place,
		 struct bo_memory *out_memory)
{
	struct backing_device *device = owner;
	uint64_t more_bytes;
	int rc;

	if (place != BO_VRAM)
		return device->below->alloc(device->owner, bo, place, out_memory);
	rc = charge_vram(device->dev, bo->bytes);
	if (rc < 0)
		return rc;
	charge_begin();
	rc = device->below->alloc(device->owner, bo, place, out_memory);
	if (rc < 0) {
		quota_release(device->dev, QUOTA_DATA, bo->bytes);
		goto out_over;
	}
	track_physical_add(device->dev, (int64_t)out_memory->bytes);
	more_bytes = out_memory->bytes - bo->bytes;
	rc = more_bytes ? charge_vram(device->dev, more_bytes) : 0;
	if (rc == 0)
		goto out_over;
	device->below->free(device->owner, place, *out_memory);
	track_physical_add(device->dev, -(int64_t)out_memory->bytes);
	quota_release(device->dev, QUOTA_DATA, bo->bytes);
out_over:
	charge_over();
	return rc;
}

static void free_memory(void *owner, enum bo_place place, struct bo_memory memory)
{
	struct backing_device *device = owner;

	if (place != BO_VRAM) {
		device->below->free(device->owner, place, memory);
		return;
	}
	charge_begin();
	device->below->free(device->owner, place, memory);
	uncharge_vram(device->dev, memory.bytes);
	charge_over();
}

static void move(void *owner, struct bo_move *moves, unsigned count)
{
	struct backing_device *device = owner;

	device->below->move(device->owner, moves, count);
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

/* Where nothing is said of it nothing is evicted: an object that has no room is refused. */
static bool is_valuable(void *owner, const struct bo *bo, enum bo_place place)
{
	struct backing_device *device = owner;

	return device->below->evict_to && (!device->below->is_valuable ||
					   device->below->is_valuable(device->owner, bo, place));
}

static const struct bo_placement *evict_to(void *owner, const struct bo *bo, enum bo_place place)
{
	struct backing_device *device = owner;

	return device->below->evict_to ? device->below->evict_to(device->owner, bo, place) : &vram;
}

static void destroy(void *owner, struct bo *bo)
{
	struct backing *backing = bo->user;

	atomic_fetch_add(&backing->device->ended, 1);
	(void)owner;
	if (atomic_fetch_sub(&backing->left, 1) > 1)
		return;
	if (backing->end)
		backing->end(backing, backing->arg);
	free(backing);
}

void backing_init(struct backing_device *device, struct dev dev, const struct bo_ops *below,
		  void *owner)
{
	device->dev = dev;
	device->below = below;
	device->owner = owner;
	device->ops = (struct bo_ops){
		.alloc = alloc,
		.free = free_memory,
		.move = move,
		.is_done = is_done,
		.wait = wait_for,
		.is_valuable = is_valuable,
		.evict_to = evict_to,
		.destroy = destroy,
	};
	bo_device_init(&device->bo, &device->ops, device);
}

/* Memory for one object. Nobody else knows it yet, so that its reservation is had at once. */
static int fill(struct bo *bo)
{
	struct bo_ctx ctx = { 0 };
	int rc = bo_reserve(bo, &ctx);

	if (rc < 0)
		return rc;
	was_refused = false;
	rc = bo_validate(bo, &vram, &ctx);
	bo_unreserve(bo);
	return rc == -ENOMEM && was_refused ? -EDQUOT : rc;
}

int backing_open(struct backing_device *device, uint64_t addr, uint64_t bytes, backing_end *end,
		 void *arg, struct backing **out_backing)
{
	unsigned count = (unsigned)((bytes + BO_BYTES - 1) / BO_BYTES), made;
	struct backing *b = calloc(1, sizeof(*b) + count * sizeof(b->bos[0]));
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
	for (made = 0; made < count && rc == 0; made++) {
		uint64_t at = made * BO_BYTES;

		bo_init(&b->bos[made], &device->bo, addr + at,
			bytes - at < BO_BYTES ? bytes - at : BO_BYTES, 0);
		b->bos[made].user = b;
		atomic_fetch_add(&b->left, 1);
		rc = fill(&b->bos[made]);
	}
	if (rc == 0) {
		b->end = end;
		atomic_fetch_sub(&b->left, 1);
		*out_backing = b;
		return 0;
	}
	while (made-- > 0)
		bo_put(&b->bos[made]);
	/* Nothing used it: all have ended, but for one that the driver's side still holds. */
	if (atomic_fetch_sub(&b->left, 1) == 1)
		free(b);
	return rc;
}

void backing_close(struct backing *backing, uint64_t fence)
{
	unsigned count = backing->count;

	/* It may end with the last one. */
	for (unsigned i = 0; i < count; i++) {
		struct bo *bo = &backing->bos[i];

		if (fence)
			bo_add_fence(bo, fence);
		bo_put(bo);
	}
}

bool backing_reap(struct backing_device *device)
{
	uint64_t before = atomic_load(&device->ended);

	bo_reap(&device->bo);
	return atomic_load(&device->ended) != before;
}

/* The objects [*out_first, *out_end) that have a part of it. */
static void span(const struct backing *backing, uint64_t addr, uint64_t bytes, unsigned *out_first,
		 unsigned *out_end)
{
	*out_first = (unsigned)((addr - backing->addr) / BO_BYTES);
	*out_end = (unsigned)((addr + bytes - backing->addr + BO_BYTES - 1) / BO_BYTES);
}

int backing_pin(struct backing *backing, uint64_t addr, uint64_t bytes)
{
	unsigned first, end, i;
	int rc = 0;

	span(backing, addr, bytes, &first, &end);
	for (i = first; i < end && rc == 0; i++) {
		rc = bo_reserve(&backing->bos[i], NULL);
		if (rc < 0)
			break;
		rc = bo_validate(&backing->bos[i], &vram, &(struct bo_ctx){ 0 });
		if (rc == 0)
			bo_pin(&backing->bos[i]);
		bo_unreserve(&backing->bos[i]);
		if (rc < 0)
			break;
	}
	if (rc < 0)
		while (i-- > first) {
			bo_reserve(&backing->bos[i], NULL);
			bo_unpin(&backing->bos[i]);
			bo_unreserve(&backing->bos[i]);
		}
	return rc;
}

void backing_unpin(struct backing *backing, uint64_t addr, uint64_t bytes)
{
	unsigned first, end;

	span(backing, addr, bytes, &first, &end);
	for (unsigned i = first; i < end; i++) {
		bo_reserve(&backing->bos[i], NULL);
		bo_unpin(&backing->bos[i]);
		bo_unreserve(&backing->bos[i]);
	}
}
