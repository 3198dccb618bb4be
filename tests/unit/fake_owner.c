#include "fake_owner.h"

#include "check.h"
#include "core/bo_check.h"

#include <errno.h>
#include <sched.h>

/* Wants of one place each. */
static const struct bo_want just[BO_PLACES] = {
	[BO_VRAM] = { BO_VRAM, 0 },
	[BO_GTT] = { BO_GTT, 0 },
	[BO_SYSTEM] = { BO_SYSTEM, 0 },
};

const struct bo_placement owner_in[BO_PLACES] = {
	[BO_VRAM] = { &just[BO_VRAM], 1 },
	[BO_GTT] = { &just[BO_GTT], 1 },
	[BO_SYSTEM] = { &just[BO_SYSTEM], 1 },
};
const struct bo_placement owner_nowhere = { NULL, 0 };

static void expect(struct owner *owner, bool is_right, const char *what)
{
	if (!is_right && !owner->wrong)
		owner->wrong = what;
}

static void yield(const struct owner *owner)
{
	if (owner->yields)
		sched_yield();
}

static struct owned *owned_of(const struct bo *bo)
{
	return (struct owned *)bo->user;
}

/* True when this step is one that fails. With the mutex. */
static bool fails(struct owner *owner)
{
	owner->steps++;
	return owner->steps == owner->fail_at ||
	       (owner->fail_every && owner->steps % owner->fail_every == 0);
}

static int take(struct owner *owner, uint64_t bytes, enum bo_place place, struct bo_memory *out)
{
	if (owner->alloc_rc[place])
		return owner->alloc_rc[place];
	if (fails(owner))
		return -ENOMEM;
	if (owner->unit)
		bytes = (bytes + owner->unit - 1) / owner->unit * owner->unit;
	if (bytes > owner->room[place] - owner->taken[place])
		return -ENOSPC;
	for (unsigned i = 1; i < OWNER_MEMORIES; i++) {
		if (owner->memories[i].place != BO_NONE)
			continue;
		owner->memories[i].place = place;
		owner->memories[i].bytes = bytes;
		for (unsigned w = 0; w < OWNER_WORDS; w++)
			owner->memories[i].words[w] = UINT64_C(0xdeadbeef00000000) + i;
		owner->taken[place] += bytes;
		owner->takes[place]++;
		*out = (struct bo_memory){ .handle = i, .bytes = bytes };
		return 0;
	}
	return -ENOMEM;
}

static int owner_alloc(void *arg, const struct bo *bo, enum bo_place place,
		       struct bo_memory *out_memory)
{
	struct owner *owner = arg;
	int rc;

	yield(owner);
	pthread_mutex_lock(&owner->mutex);
	expect(owner, bo->is_reserved, "memory is taken for what nobody has");
	expect(owner, place > BO_NONE && place < BO_PLACES, "memory is taken nowhere");
	rc = take(owner, bo->bytes, place, out_memory);
	pthread_mutex_unlock(&owner->mutex);
	return rc;
}

static void owner_free(void *arg, enum bo_place place, struct bo_memory memory)
{
	struct owner *owner = arg;

	pthread_mutex_lock(&owner->mutex);
	expect(owner, owner->memories[memory.handle].place == place, "freed what is not there");
	expect(owner, owner->memories[memory.handle].bytes == memory.bytes, "freed another size");
	expect(owner, !owner->memories[memory.handle].is_mapped, "freed what is mapped");
	owner->memories[memory.handle].place = BO_NONE;
	owner->taken[place] -= memory.bytes;
	pthread_mutex_unlock(&owner->mutex);
	yield(owner);
}

/* Changes what the address leads to. */
static void map(struct owner *owner, struct owned *owned, uint64_t handle)
{
	if (owned->mapped)
		owner->memories[owned->mapped].is_mapped = false;
	if (handle) {
		expect(owner, !owner->memories[handle].is_mapped, "mapped twice");
		owner->memories[handle].is_mapped = true;
	}
	owned->mapped = handle;
}

static int move_one(struct owner *owner, const struct bo_move *move)
{
	struct owned *owned = owned_of(move->bo);

	expect(owner, move->bo->is_reserved, "moved what nobody has");
	expect(owner, !move->bo->pins || move->bo->is_deleted, "moved what is pinned");
	expect(owner, move->bo->fence <= owner->done, "moved under work");
	expect(owner, move->rc == -ECANCELED, "a move has an end before it began");
	expect(owner, move->from_place != move->to_place, "moved to where it lies");
	expect(owner, (move->from_place == BO_NONE) == !owned->mapped, "moved from nowhere");
	expect(owner, !owned->mapped || owned->mapped == move->from.handle, "moved from elsewhere");
	if (move->giver) {
		expect(owner, move->giver < move && move->giver->has_heir, "the giver follows");
		expect(owner, move->giver->from.handle == move->to.handle, "not what it leaves");
		expect(owner, move->giver->from.bytes == move->bo->bytes, "it leaves more or less");
		if (move->giver->rc < 0)
			return -ECANCELED;
	} else if (owner->patience && move->has_heir && owner->moved_out++ &&
		   owner->patience->is_over(owner->patience->arg)) {
		return -ECANCELED;
	}
	if (owned->move_rc) {
		int rc = owned->move_rc;

		owned->move_rc = 0;
		return rc;
	}
	if (fails(owner))
		return owner->fail_rc;
	if (move->from_place != BO_NONE && move->to_place != BO_NONE)
		memcpy(owner->memories[move->to.handle].words,
		       owner->memories[move->from.handle].words, sizeof(uint64_t[OWNER_WORDS]));
	if (move->from_place == BO_NONE || move->to_place == BO_NONE)
		owned->seed = 0;
	map(owner, owned, move->to_place == BO_NONE ? 0 : move->to.handle);
	return 0;
}

static void owner_move(void *arg, struct bo_move *moves, unsigned count)
{
	struct owner *owner = arg;

	yield(owner);
	if (owner->during_move)
		owner->during_move(owner->during_move_arg);
	pthread_mutex_lock(&owner->mutex);
	expect(owner, count > 0, "moved nothing");
	owner->moves++;
	owner->moved += count;
	owner->moved_out = 0;
	for (unsigned i = 0; i < count; i++) {
		moves[i].rc = move_one(owner, &moves[i]);
		if (moves[i].rc == -EIO) {
			map(owner, owned_of(moves[i].bo), 0);
			owned_of(moves[i].bo)->seed = 0;
		}
	}
	pthread_mutex_unlock(&owner->mutex);
}

static int owner_begin_still(void *arg, const struct bo_patience *patience)
{
	struct owner *owner = arg;
	int rc;

	pthread_mutex_lock(&owner->mutex);
	expect(owner, !owner->is_still, "began twice");
	owner->patience = patience && patience->is_over ? patience : NULL;
	rc = fails(owner) ? -EBUSY : owner->begin_rc;
	owner->is_still = rc == 0;
	owner->begun += rc == 0;
	pthread_mutex_unlock(&owner->mutex);
	return rc;
}

static void owner_end_still(void *arg)
{
	struct owner *owner = arg;

	pthread_mutex_lock(&owner->mutex);
	expect(owner, owner->is_still, "an end without a begin");
	owner->is_still = false;
	owner->patience = NULL;
	pthread_mutex_unlock(&owner->mutex);
}

static bool owner_is_done(void *arg, uint64_t fence)
{
	struct owner *owner = arg;
	bool is;

	pthread_mutex_lock(&owner->mutex);
	is = fence <= owner->done;
	pthread_mutex_unlock(&owner->mutex);
	return is;
}

static int owner_wait(void *arg, uint64_t fence, int64_t until_ns)
{
	struct owner *owner = arg;
	int rc;

	yield(owner);
	pthread_mutex_lock(&owner->mutex);
	expect(owner, until_ns > 0 && until_ns < INT64_MAX, "a wait without an end");
	owner->waits++;
	rc = fails(owner) ? -EBUSY : owner->wait_rc;
	if (fence <= owner->done)
		rc = 0;
	else if (rc == 0)
		owner->done = fence;
	pthread_mutex_unlock(&owner->mutex);
	return rc;
}

static bool owner_is_valuable(void *arg, const struct bo *bo, enum bo_place place)
{
	(void)arg, (void)place;
	return !owned_of(bo)->is_kept;
}

static const struct bo_placement *owner_evict_to(void *arg, const struct bo *bo,
						 enum bo_place place)
{
	struct owner *owner = arg;

	(void)bo;
	return owner->evict_to[place];
}

static void owner_destroy(void *arg, struct bo *bo)
{
	struct owner *owner = arg;

	pthread_mutex_lock(&owner->mutex);
	expect(owner, !owned_of(bo)->is_destroyed, "destroyed twice");
	expect(owner, !owned_of(bo)->mapped, "destroyed while it is mapped");
	owned_of(bo)->is_destroyed = true;
	owner->destroyed++;
	pthread_mutex_unlock(&owner->mutex);
}

static const struct bo_ops ops = {
	.alloc = owner_alloc,
	.free = owner_free,
	.move = owner_move,
	.begin = owner_begin_still,
	.end = owner_end_still,
	.is_done = owner_is_done,
	.wait = owner_wait,
	.is_valuable = owner_is_valuable,
	.evict_to = owner_evict_to,
	.destroy = owner_destroy,
};

static void on_change(const struct bo_device *device)
{
	struct owner *owner = device->owner;
	const char *wrong = bo_check(device);

	if (!wrong)
		return;
	pthread_mutex_lock(&owner->mutex);
	expect(owner, false, wrong);
	pthread_mutex_unlock(&owner->mutex);
}

void owner_begin(struct owner *owner)
{
	memset(owner, 0, sizeof(*owner));
	pthread_mutex_init(&owner->mutex, NULL);
	for (unsigned place = 0; place < BO_PLACES; place++)
		owner->room[place] = UINT64_MAX;
	owner->evict_to[BO_VRAM] = &owner_in[BO_GTT];
	owner->evict_to[BO_GTT] = &owner_in[BO_SYSTEM];
	owner->evict_to[BO_SYSTEM] = &owner_in[BO_SYSTEM];
	owner->fail_rc = -ENOMEM;
	bo_device_init(&owner->device, &ops, owner);
	owner->device.on_change = on_change;
}

void owner_end(struct owner *owner)
{
	owner_finish(owner, UINT64_MAX);
	assert_ok(bo_device_fini(&owner->device));
	for (unsigned place = 0; place < BO_PLACES; place++)
		assert_int_equal(owner->taken[place], 0);
	if (owner->wrong)
		fail_msg("%s", owner->wrong);
	pthread_mutex_destroy(&owner->mutex);
}

const char *owner_wrong(struct owner *owner)
{
	const char *wrong;

	pthread_mutex_lock(&owner->mutex);
	wrong = owner->wrong;
	pthread_mutex_unlock(&owner->mutex);
	return wrong;
}

void owner_make(struct owner *owner, struct owned *owned, uint64_t bytes)
{
	static uint64_t last_addr = UINT64_C(1) << 40; /* atomic */

	memset(owned, 0, sizeof(*owned));
	bo_init(&owned->bo, &owner->device,
		__atomic_add_fetch(&last_addr, UINT64_C(1) << 32, __ATOMIC_RELAXED), bytes, 0);
	owned->bo.user = owned;
}

void owner_fill(struct owner *owner, struct owned *owned, uint64_t seed)
{
	pthread_mutex_lock(&owner->mutex);
	expect(owner, owned->mapped, "filled what is nowhere");
	for (unsigned w = 0; w < OWNER_WORDS; w++)
		owner->memories[owned->mapped].words[w] = seed * (w + 1);
	owned->seed = seed;
	pthread_mutex_unlock(&owner->mutex);
}

void owner_look(struct owner *owner, struct owned *owned)
{
	pthread_mutex_lock(&owner->mutex);
	expect(owner, owned->mapped == owned->bo.memory.handle, "another memory than is mapped");
	for (unsigned w = 0; owned->seed && w < OWNER_WORDS; w++)
		expect(owner, owner->memories[owned->mapped].words[w] == owned->seed * (w + 1),
		       "the bytes are not its own");
	pthread_mutex_unlock(&owner->mutex);
}

bool owner_is_destroyed(struct owner *owner, const struct owned *owned)
{
	bool is;

	pthread_mutex_lock(&owner->mutex);
	is = owned->is_destroyed;
	pthread_mutex_unlock(&owner->mutex);
	return is;
}

void owner_finish(struct owner *owner, uint64_t fence)
{
	pthread_mutex_lock(&owner->mutex);
	if (fence > owner->done)
		owner->done = fence;
	pthread_mutex_unlock(&owner->mutex);
}

int owner_setup(void **state)
{
	static struct owner owner;

	owner_begin(&owner);
	*state = &owner;
	return 0;
}

int owner_teardown(void **state)
{
	owner_end(*state);
	return 0;
}

int owner_place(struct owned *owned, const struct bo_placement *placement, struct bo_ctx *ctx)
{
	int rc = bo_reserve(&owned->bo, ctx);

	if (rc < 0)
		return rc;
	rc = bo_validate(&owned->bo, placement, ctx);
	bo_unreserve(&owned->bo);
	return rc;
}

void owner_make_in(struct owner *owner, struct owned *owned, uint64_t bytes, enum bo_place place)
{
	struct bo_ctx ctx = { .ticket = NULL };

	owner_make(owner, owned, bytes);
	assert_ok(owner_place(owned, &owner_in[place], &ctx));
	assert_int_equal(owned->bo.place, place);
	owner_fill(owner, owned, (uintptr_t)owned | 1);
}
