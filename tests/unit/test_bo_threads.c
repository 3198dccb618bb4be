/*
 * Threads that want more than there is of a place, each several objects at once, while others
 * evict, free and pin. Each gets all it wants every time; the contents are what was written last;
 * whatever is taken is given back. Each change is looked at (bo_check.h).
 */
#include "core/bo.h"

#include "check.h"
#include "core/bo_bulk.h"
#include "core/bo_exec.h"
#include "core/bo_swap.h"
#include "fake_owner.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define MIB(n) ((uint64_t)(n) << 20)

enum { SHARED = 10, WANTED = 3, GANGS = 4, OWN = 6, TIMES = BUILD_SANITIZED ? 300 : 2000 };

static struct owner *owner;
static struct owned shared[SHARED];
static struct bo_bulk bulk;
static uint64_t last_fence, last_seed; /* atomic */
static bool may_fail; /* steps fail: so may who wants something, and loses nothing by it */

/* One thread. */
struct thread {
	pthread_t id;
	unsigned seed;
	unsigned times; /* that it got what it wanted */
	int rc;         /* the first error that should not be */
	struct owned own[OWN];
};

static unsigned dice(struct thread *thread, unsigned count)
{
	return (unsigned)rand_r(&thread->seed) % count;
}

static uint64_t next(uint64_t *last)
{
	return __atomic_add_fetch(last, 1, __ATOMIC_RELAXED);
}

/* Has them all in VRAM at once, as who begins work that needs all of them. */
static int use_together(struct thread *thread, struct bo *const *objects, unsigned count)
{
	struct bo_exec exec;
	int rc;

	bo_exec_begin(&exec, false);
	do {
		rc = bo_exec_reserve_all(&exec, objects, count);
		if (rc == 0)
			rc = bo_validate_all(objects, count, &owner_in[BO_VRAM], &exec.ctx);
	} while (bo_exec_again(&exec, &rc));
	for (unsigned i = 0; i < count && rc == 0; i++) {
		struct owned *owned = objects[i]->user;

		if (objects[i]->place != BO_VRAM)
			rc = -EFAULT;
		owner_look(owner, owned);
		if (dice(thread, 2))
			owner_fill(owner, owned, next(&last_seed));
		bo_add_fence(objects[i], next(&last_fence));
	}
	bo_exec_end(&exec);
	return rc;
}

static int of_failures(int rc)
{
	return may_fail && (rc == -EBUSY || rc == -ENOMEM) ? 0 : rc;
}

static void *use(void *arg)
{
	struct thread *thread = arg;

	for (unsigned i = 0; i < TIMES && thread->rc == 0; i++) {
		unsigned count = 1 + dice(thread, WANTED), first = dice(thread, SHARED);
		struct bo *objects[WANTED];

		/* Not in the same order everywhere: that is what tickets are for. */
		for (unsigned k = 0; k < count; k++)
			objects[k] = &shared[(first + k * 3) % SHARED].bo;
		thread->rc = of_failures(use_together(thread, objects, count));
		if (thread->rc == 0)
			thread->times++;
	}
	return NULL;
}

/* Takes memory for itself and frees it while work uses it. */
static int use_own(struct thread *thread)
{
	struct owned *own = &thread->own[dice(thread, OWN)];
	struct bo *objects[1] = { &own->bo };
	int rc;

	if (own->bo.device && !owner_is_destroyed(owner, own))
		return 0;
	owner_make(owner, own, MIB(1 + dice(thread, 4)));
	rc = use_together(thread, objects, 1);
	bo_put(&own->bo);
	return of_failures(rc);
}

static void pin_for_a_while(struct bo *bo)
{
	struct bo_ctx ctx = { .no_wait = true };

	bool is_pinned;

	if (bo_reserve(bo, &ctx) < 0)
		return;
	/* Elsewhere it would be in the way of who wants it in VRAM. */
	is_pinned = bo->place == BO_VRAM;
	if (is_pinned)
		bo_pin(bo);
	owner_look(owner, bo->user);
	bo_unreserve(bo);
	if (is_pinned)
		bo_unpin(bo);
}

/* Without a ticket: it may be refused, and lose nothing by that. */
static int place_alone(struct owned *owned, unsigned place)
{
	struct bo_ctx ctx = { .ticket = NULL };
	int rc = owner_place(owned, &owner_in[place], &ctx);

	return rc == -EBUSY || rc == -ENOMEM || rc == -EINVAL ? 0 : rc;
}

static int evict(struct thread *thread)
{
	struct bo_ctx ctx = { .no_wait = dice(thread, 2) };
	uint64_t gone_bytes;
	int rc = bo_evict(&owner->device, dice(thread, 2) ? BO_VRAM : BO_GTT, MIB(dice(thread, 8)),
			  &ctx, &gone_bytes);

	return rc == -EBUSY || rc == -ENOMEM ? 0 : rc;
}

static void *disturb(void *arg)
{
	struct thread *thread = arg;

	for (unsigned i = 0; i < TIMES && thread->rc == 0; i++) {
		struct owned *owned = &shared[dice(thread, SHARED)];

		switch (dice(thread, 10)) {
		case 0:
		case 1:
			thread->rc = use_own(thread);
			break;
		case 2:
			thread->rc = evict(thread);
			break;
		case 3:
			pin_for_a_while(&owned->bo);
			break;
		case 4:
			thread->rc = place_alone(owned, BO_VRAM + dice(thread, BO_PLACES - 1));
			break;
		case 5:
			bo_set_priority(&owned->bo, dice(thread, BO_PRIORITIES));
			break;
		case 6:
			bo_bulk_set(dice(thread, 2) ? &bulk : NULL, &owned->bo);
			break;
		case 7:
			bo_bulk_touch(&bulk);
			break;
		case 8:
			owner_finish(owner, __atomic_load_n(&last_fence, __ATOMIC_RELAXED));
			bo_reap(&owner->device);
			break;
		default:
			bo_device_set_limit(&owner->device, BO_VRAM, MIB(10 + dice(thread, 4)));
		}
		if (thread->rc == 0)
			thread->times++;
	}
	return NULL;
}

/* Some go and some come in their place, as the worker has it done: of one thread. */
static void *swap(void *arg)
{
	struct thread *thread = arg;

	for (unsigned i = 0; i < TIMES && thread->rc == 0; i++) {
		struct bo_swap goes[SHARED], comes[SHARED];
		unsigned goes_count = 0, comes_count = 0;

		for (unsigned k = 0; k < SHARED; k++) {
			struct bo_swap one = { .bo = &shared[k].bo };

			if (dice(thread, 2))
				goes[goes_count++] = one;
			else
				comes[comes_count++] = one;
		}
		thread->rc = bo_swap(&owner->device, goes, goes_count, comes, comes_count, NULL);
		if (thread->rc == -ENOMEM || thread->rc == -EBUSY)
			thread->rc = 0;
		for (unsigned k = 0; k < goes_count + comes_count && thread->rc == 0; k++) {
			int rc = k < goes_count ? goes[k].rc : comes[k - goes_count].rc;

			if (rc > 0 || rc == -EIO)
				thread->rc = -EFAULT;
		}
		if (thread->rc == 0)
			thread->times++;
	}
	return NULL;
}

static void begin(struct thread *thread, unsigned number, void *(*what)(void *))
{
	thread->seed = number;
	assert_int_equal(pthread_create(&thread->id, NULL, what, thread), 0);
}

static void run_all(void)
{
	static const struct bo_want gtt_or_system[] = { { BO_GTT, 0 }, { BO_SYSTEM, 0 } };
	static const struct bo_placement away = { gtt_or_system, 2 };
	static struct thread threads[GANGS + 3];

	memset(threads, 0, sizeof(threads));
	owner->evict_to[BO_VRAM] = &away;
	owner->yields = true;
	owner->fail_every = 0;
	bo_bulk_init(&bulk, &owner->device);
	bo_device_set_limit(&owner->device, BO_VRAM, MIB(10));
	bo_device_set_limit(&owner->device, BO_GTT, MIB(7));
	for (unsigned i = 0; i < SHARED; i++) {
		owner_make(owner, &shared[i], MIB(2));
		assert_ok(place_alone(&shared[i], BO_SYSTEM));
		owner_fill(owner, &shared[i], next(&last_seed));
	}
	owner->fail_every = may_fail ? 7 : 0;
	for (unsigned i = 0; i < GANGS + 3; i++)
		begin(&threads[i], i + 1, i < GANGS ? use : i < GANGS + 2 ? disturb : swap);
	for (unsigned i = 0; i < GANGS + 3; i++)
		assert_int_equal(pthread_join(threads[i].id, NULL), 0);
	for (unsigned i = 0; i < GANGS + 3; i++) {
		assert_ok(threads[i].rc);
		assert_int_equal(threads[i].times, TIMES);
	}
	owner->fail_every = 0;
	owner_finish(owner, last_fence);
	bo_reap(&owner->device);
	for (unsigned i = 0; i < SHARED; i++) {
		owner_look(owner, &shared[i]);
		assert_null(shared[i].bo.heir);
		bo_put(&shared[i].bo);
	}
}

static void everybody_gets_on(void **state)
{
	owner = *state;
	may_fail = false;
	run_all();
}

static void failures_lose_nothing(void **state)
{
	owner = *state;
	may_fail = true;
	run_all();
	may_fail = false;
}

/*
 * Two that each want both places' memory, which only one can have: nobody waits for long, and
 * nobody is refused. Each needs so much that it has to wait for memory which the other has taken
 * and not used.
 */
struct rival {
	pthread_t id;
	struct owned own[2];
	unsigned times;
	int rc;
};

static void *want_all(void *arg)
{
	struct rival *rival = arg;
	struct bo *objects[2] = { &rival->own[0].bo, &rival->own[1].bo };
	struct thread thread = { .seed = 1 };
	struct bo_ctx ctx = { .ticket = NULL };

	for (unsigned i = 0; i < TIMES && rival->rc == 0; i++) {
		rival->rc = use_together(&thread, objects, 2);
		if (rival->rc == 0)
			rival->rc = owner_place(&rival->own[i % 2], &owner_in[BO_SYSTEM], &ctx);
		rival->times++;
	}
	return NULL;
}

static void nobody_is_refused_what_is_taken_for_a_moment(void **state)
{
	static struct rival rivals[2];

	owner = *state;
	owner->evict_to[BO_VRAM] = &owner_in[BO_SYSTEM];
	owner->yields = true;
	bo_device_set_limit(&owner->device, BO_VRAM, MIB(4));
	for (unsigned i = 0; i < 4; i++) {
		owner_make(owner, &rivals[i / 2].own[i % 2], MIB(2));
		assert_ok(place_alone(&rivals[i / 2].own[i % 2], BO_SYSTEM));
		owner_fill(owner, &rivals[i / 2].own[i % 2], next(&last_seed));
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&rivals[i].id, NULL, want_all, &rivals[i]), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_join(rivals[i].id, NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_ok(rivals[i].rc);
		assert_int_equal(rivals[i].times, TIMES);
	}
	owner_finish(owner, last_fence);
	for (unsigned i = 0; i < 4; i++) {
		owner_look(owner, &rivals[i / 2].own[i % 2]);
		bo_put(&rivals[i / 2].own[i % 2].bo);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(everybody_gets_on),
		TEST(failures_lose_nothing),
		TEST(nobody_is_refused_what_is_taken_for_a_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
