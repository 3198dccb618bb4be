#include "core/backing_use.h"

#include "base/bytes.h"
#include "core/slab.h"

/* The bytes of both. */
static uint64_t overlap(const struct bo *bo, uint64_t addr, uint64_t bytes)
{
	uint64_t from = addr > bo->addr ? addr : bo->addr;
	uint64_t to = addr + bytes < bo->addr + bo->bytes ? addr + bytes : bo->addr + bo->bytes;

	return to - from;
}

/* What the program asked for ends within the last block. */
static bool is_whole(const struct backing *backing, uint64_t addr, uint64_t bytes)
{
	return addr == backing->addr && bytes_beyond(backing->bytes, bytes) < SLAB_BLOCK_BYTES;
}

static void use_part(struct backing_object *o, uint64_t bytes, struct backing_uses *uses)
{
	uint32_t part = (uint32_t)(uses->weight * bytes / o->bo.bytes);

	atomic_fetch_add_explicit(&o->uses, part ? part : 1, memory_order_relaxed);
	if (atomic_load_explicit(&o->is_far, memory_order_relaxed))
		uses->far_bytes += bytes;
}

void backing_use(struct backing *backing, uint64_t addr, uint64_t bytes, struct backing_uses *uses)
{
	unsigned first, end;

	if (is_whole(backing, addr, bytes)) {
		atomic_fetch_add_explicit(&backing->whole_uses, uses->weight, memory_order_relaxed);
		uses->far_bytes += bytes_least(atomic_load_explicit(&backing->far_bytes,
								    memory_order_relaxed),
					       bytes);
		return;
	}
	backing_span(backing, addr, bytes, &first, &end);
	for (unsigned i = first; i < end; i++)
		use_part(&backing->objects[i], overlap(&backing->objects[i].bo, addr, bytes), uses);
}

static struct backing *backing_of(const struct backing_object *object)
{
	return (struct backing *)object->bo.user;
}

uint32_t backing_use_take(struct backing_object *object)
{
	uint32_t whole = atomic_load_explicit(&backing_of(object)->whole_uses,
					      memory_order_relaxed);
	uint32_t uses = atomic_exchange(&object->uses, 0) + (whole - object->whole_seen);

	object->whole_seen = whole;
	return uses;
}

void backing_use_set_far(struct backing_object *object, bool is_far)
{
	struct backing *backing = backing_of(object);

	if (atomic_exchange(&object->is_far, is_far) == is_far)
		return;
	if (is_far)
		atomic_fetch_add(&backing->far_bytes, object->bo.bytes);
	else
		atomic_fetch_sub(&backing->far_bytes, object->bo.bytes);
}
