#include "cuda_object.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

struct slot {
	const void *object; /* NULL: never used; &removed: was used */
	enum object_kind kind;
};

static struct {
	struct slot *slot;
	size_t room;   /* a power of two */
	size_t filled; /* live and removed */
	size_t live;
} set;

static const char removed;

static size_t hash(const void *object)
{
	return (size_t)(((uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15u) >> 20);
}

static struct slot *find(const void *object)
{
	if (!set.room || !object)
		return NULL;
	for (size_t i = hash(object);; i++) {
		struct slot *s = &set.slot[i & (set.room - 1)];

		if (!s->object)
			return NULL;
		if (s->object == object)
			return s;
	}
}

static void put(struct slot *slots, size_t room, struct slot value)
{
	size_t i = hash(value.object);

	while (slots[i & (room - 1)].object)
		i++;
	slots[i & (room - 1)] = value;
}

/* Keeps at least half of the slots never used. */
static int make_room(void)
{
	size_t room = 64;
	struct slot *slots;

	if (set.room && (set.filled + 1) * 2 <= set.room)
		return 0;
	while (room < (set.live + 1) * 4)
		room *= 2;
	slots = calloc(room, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < set.room; i++)
		if (set.slot[i].object && set.slot[i].object != &removed)
			put(slots, room, set.slot[i]);
	free(set.slot);
	set.slot = slots;
	set.room = room;
	set.filled = set.live;
	return 0;
}

int cuda_object_add(enum object_kind kind, const void *object)
{
	int err = make_room();

	if (err)
		return err;
	put(set.slot, set.room, (struct slot){ object, kind });
	set.filled++;
	set.live++;
	return 0;
}

void cuda_object_remove(const void *object)
{
	struct slot *s = find(object);

	if (!s)
		return;
	*s = (struct slot){ &removed, OBJECT_NONE };
	set.live--;
}

bool cuda_object_is(enum object_kind kind, const void *object)
{
	struct slot *s = find(object);

	return s && s->kind == kind;
}
