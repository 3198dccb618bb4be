#include "core/pool.h"

#include "core/doubt.h"
#include "core/piece.h"
#include "core/track.h"
#include "member.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

static const char pool_a, pool_b;

static void join(struct member *m, const char *spec)
{
	member_join(m, scratch_path("region"), spec, 0, 1);
	track_init();
	pool_init();
}

static void settle(const void *pool, uint64_t held_bytes, uint64_t reserved_bytes)
{
	CHECK_EQ(pool_settle(pool, pool_ask(), held_bytes, reserved_bytes), 0);
}

static void destroy(const void *key, bool was_empty)
{
	struct pool *pool = pool_take(key);

	if (pool)
		pool_end(pool, was_empty);
}

static void a_pool_is_charged_by_what_it_holds(void)
{
	struct member m;
	struct dev dev;

	join(&m, "1g");
	CHECK(!pool_any());
	CHECK(!pool_device(&pool_a, &dev));
	CHECK((int)pool_reserve(&pool_a, 32) == -EDQUOT);
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	CHECK(pool_any());
	CHECK(pool_device(&pool_a, &dev) && dev.v == 0);
	CHECK_EQ(pool_reserve(&pool_a, 64), 0);
	CHECK_EQ(quota_used(dev0), 64);
	/* It grew by less, by nothing, by more; it shrank. */
	settle(&pool_a, 32, 64);
	CHECK_EQ(quota_used(dev0), 32);
	CHECK_EQ(pool_reserve(&pool_a, 64), 0);
	settle(&pool_a, 32, 64);
	CHECK_EQ(quota_used(dev0), 32);
	settle(&pool_a, 96, 0);
	CHECK_EQ(quota_used(dev0), 96);
	CHECK_EQ(pool_charged(&pool_a), 96);
	CHECK_EQ(track_physical(dev0), 96);
	settle(&pool_a, 0, 0);
	CHECK_EQ(quota_used(dev0), 0);
	CHECK_EQ(track_physical(dev0), 0);
	CHECK_EQ(pool_reserve(&pool_a, 64), 0);
	pool_cancel(&pool_a, 64);
	CHECK_EQ(quota_used(dev0), 0);
}

static void growth_over_the_limit_is_refused(void)
{
	struct member m;

	join(&m, "1m");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	CHECK((int)pool_reserve(&pool_a, MIB_BYTES(1) + 1) == -EDQUOT);
	CHECK_EQ(pool_reserve(&pool_a, MIB_BYTES(1)), 0);
	CHECK(!pool_any_over(dev0));
	/* It took more than that: all of it is charged, and the caller gives back. */
	CHECK((int)pool_settle(&pool_a, pool_ask(), MIB_BYTES(2), MIB_BYTES(1)) == -EDQUOT);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(2));
	CHECK_EQ(track_physical(dev0), MIB_BYTES(2));
	CHECK(pool_any_over(dev0));
	/* Until the card has it back: nobody finds room, nor does another figure make it right. */
	CHECK((int)pool_reserve(&pool_a, 1) == -EDQUOT);
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, 1) == -EDQUOT);
	CHECK((int)pool_settle(&pool_a, pool_ask(), MIB_BYTES(2), 0) == -EDQUOT);
	settle(&pool_a, MIB_BYTES(1), 0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(1));
	CHECK(!pool_any_over(dev0));
	/* Who got memory of a pool that did not grow keeps it, while another one is over. */
	CHECK(pool_enter(&pool_b, dev0, POOL_DEVICE));
	CHECK((int)pool_settle(&pool_b, pool_ask(), MIB_BYTES(1), 0) == -EDQUOT);
	settle(&pool_a, MIB_BYTES(1), 0);
	CHECK(pool_any_over(dev0) && !pool_any_over((struct dev){ 1 }));
}

/* It gave back what it grew by: that others hold the tenant above its limit is not its matter. */
static void a_pool_that_shrank_is_not_over(void)
{
	struct member m;

	join(&m, "4m");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	settle(&pool_a, MIB_BYTES(2), 0);
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(1)), 0);
	CHECK((int)pool_settle(&pool_a, pool_ask(), MIB_BYTES(4), 0) == -EDQUOT);
	quota_set_overhead(dev0, QUOTA_MODULE, MIB_BYTES(9));
	CHECK((int)pool_settle(&pool_a, pool_ask(), MIB_BYTES(3), 0) == -EDQUOT);
	settle(&pool_a, MIB_BYTES(2), 0);
	CHECK(!pool_any_over(dev0));
	CHECK(quota_is_over(dev0));
}

/* It never shrinks by itself: who asks pools for memory would be refused for ever. */
static void a_store_over_the_limit_refuses_no_pool(void)
{
	struct member m;

	join(&m, "1m");
	CHECK(pool_enter(&pool_a, dev0, POOL_STORE));
	CHECK((int)pool_settle(&pool_a, pool_ask(), MIB_BYTES(2), 0) == -EDQUOT);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(2));
	CHECK_EQ(track_physical(dev0), MIB_BYTES(2));
	CHECK(!pool_any_over(dev0));
}

/* One thread's figure may hold what another has grown by and not settled. */
static void growth_of_another_thread_is_charged_once(void)
{
	struct member m;

	join(&m, "1g");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	CHECK_EQ(pool_reserve(&pool_a, 32), 0);
	CHECK_EQ(pool_reserve(&pool_a, 64), 0);
	settle(&pool_a, 96, 32);
	CHECK_EQ(quota_used(dev0), 96);
	settle(&pool_a, 96, 64);
	CHECK_EQ(quota_used(dev0), 96);
	settle(&pool_a, 0, 0);
	CHECK_EQ(quota_used(dev0), 0);
}

/* Which of two figures is older cannot be told when they were asked for side by side. */
static void a_figure_that_was_overtaken_is_asked_for_again(void)
{
	struct pool_doubt d;
	struct member m;
	uint64_t old, new;

	join(&m, "1g");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	old = pool_ask();
	new = pool_ask();
	CHECK_EQ(pool_settle(&pool_a, new, 64, 0), 0);
	CHECK_EQ(pool_reserve(&pool_a, 32), 0);
	CHECK((int)pool_settle(&pool_a, old, 32, 32) == -EAGAIN);
	CHECK_EQ(quota_used(dev0), 96);
	/* Nor is a number of use that was drawn before another was settled. */
	new = pool_ask();
	CHECK_EQ(pool_settle(&pool_a, pool_ask(), 64, 0), 0);
	CHECK((int)pool_settle(&pool_a, new, 32, 32) == -EAGAIN);
	CHECK_EQ(pool_settle(&pool_a, pool_ask(), 64, 32), 0);
	CHECK_EQ(quota_used(dev0), 64);
	/* In the end the larger one counts, whichever it is. */
	CHECK_EQ(pool_settle(&pool_a, POOL_ASKED_OFTEN, 32, 0), 0);
	CHECK_EQ(quota_used(dev0), 64);
	CHECK_EQ(pool_settle(&pool_a, POOL_ASKED_OFTEN, 96, 0), 0);
	CHECK_EQ(quota_used(dev0), 96);
	old = pool_ask();
	settle(&pool_a, 64, 0);
	CHECK_EQ(pool_doubt(&d, &pool_a, 32, true), 0);
	CHECK((int)pool_settle_doubt(&d, old, 64) == -EAGAIN);
	CHECK_EQ(quota_used(dev0), 64 + 32 + POOL_STEP_BYTES);
	CHECK_EQ(pool_settle_doubt(&d, pool_ask(), 64), 0);
	CHECK_EQ(quota_used(dev0), 64);
}

#define STEP POOL_STEP_BYTES

static int settle_doubt(struct pool_doubt *d, uint64_t held_bytes)
{
	return pool_settle_doubt(d, pool_ask(), held_bytes);
}

/* Growth stays where the step was left beside it, or is left after all. */
static void what_may_stay(void)
{
	struct pool_doubt d, other;
	struct member m;

	join(&m, "160m");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	CHECK((int)pool_doubt(&d, &pool_b, STEP, true) == -EDQUOT);
	CHECK_EQ(pool_doubt(&d, &pool_a, STEP, true), 0);
	CHECK_EQ(quota_used(dev0), 2 * STEP);
	CHECK_EQ(settle_doubt(&d, STEP), 0);
	CHECK_EQ(quota_used(dev0), STEP);
	/* Nothing came of it. */
	CHECK_EQ(pool_doubt(&d, &pool_a, 3 * STEP, true), 0);
	CHECK_EQ(quota_used(dev0), 5 * STEP);
	CHECK_EQ(settle_doubt(&d, STEP), 0);
	CHECK_EQ(quota_used(dev0), STEP);
	CHECK((int)pool_doubt(&d, &pool_a, 4 * STEP, true) == -EDQUOT);
	/* It grew by less than it might have: the step is left. */
	CHECK_EQ(pool_doubt(&d, &pool_a, 4 * STEP, false), 0);
	CHECK_EQ(settle_doubt(&d, 4 * STEP), 0);
	CHECK_EQ(quota_used(dev0), 4 * STEP);
	/* The last step finds out, and no more. */
	CHECK((int)pool_doubt(&d, &pool_a, STEP, true) == -EDQUOT);
	CHECK_EQ(pool_doubt(&d, &pool_a, STEP, false), 0);
	CHECK((int)pool_doubt(&other, &pool_a, STEP, false) == -EDQUOT);
	CHECK_EQ(settle_doubt(&d, 4 * STEP), 0);
	CHECK_EQ(pool_doubt(&d, &pool_a, STEP, false), 0);
	CHECK((int)settle_doubt(&d, 5 * STEP) == -EDQUOT);
	CHECK_EQ(quota_used(dev0), 5 * STEP);
	CHECK(!pool_any_over(dev0));
	/* Others may wait for it until it is undone. */
	CHECK_EQ(doubt_left_at_best(dev0, 0), STEP);
	settle(&pool_a, 4 * STEP, 0);
	pool_undone(&d);
	CHECK_EQ(quota_used(dev0), 4 * STEP);
	CHECK_EQ(m.region.own->slots[m.slot.index].doubted_bytes, 0);
}

/* Of two that grew in doubt side by side one may stay: the other finds the step gone. */
static void one_of_two_may_stay(void)
{
	struct pool_doubt a, b;
	struct member m;

	join(&m, "95m");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	CHECK(pool_enter(&pool_b, dev0, POOL_DEVICE));
	CHECK_EQ(pool_doubt(&a, &pool_a, STEP, false), 0);
	CHECK_EQ(pool_doubt(&b, &pool_b, STEP, false), 0);
	CHECK_EQ(settle_doubt(&a, STEP), 0);
	CHECK((int)settle_doubt(&b, STEP) == -EDQUOT);
	settle(&pool_b, 0, 0);
	pool_undone(&b);
	CHECK_EQ(quota_used(dev0), STEP);
	/* In one pool: whose growth it was cannot be told, but how much. */
	settle(&pool_a, 0, 0);
	CHECK_EQ(pool_doubt(&a, &pool_a, STEP, false), 0);
	CHECK_EQ(pool_doubt(&b, &pool_a, STEP, false), 0);
	CHECK_EQ(settle_doubt(&a, 2 * STEP), 0);
	CHECK((int)settle_doubt(&b, 2 * STEP) == -EDQUOT);
	CHECK_EQ(quota_used(dev0), 2 * STEP);
	pool_undone(&b);
}

/* What was reserved for one pool and served by another, or by one that is gone. */
static void doubt_goes_with_the_pool_that_served(void)
{
	struct pool_doubt d;
	struct member m;

	join(&m, "1g");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	CHECK(pool_enter(&pool_b, dev0, POOL_DEVICE));
	CHECK_EQ(pool_doubt(&d, &pool_a, STEP, true), 0);
	pool_doubt_move(&d, &pool_b);
	CHECK_EQ(settle_doubt(&d, STEP), 0);
	CHECK_EQ(pool_charged(&pool_b), STEP);
	CHECK_EQ(quota_used(dev0), STEP);
	CHECK_EQ(pool_doubt(&d, &pool_a, STEP, true), 0);
	/* The one that is gone may have served it before: that stays until the card holds less. */
	destroy(&pool_a, true);
	CHECK_EQ(settle_doubt(&d, STEP), 0);
	CHECK_EQ(quota_used(dev0), 2 * STEP);
	CHECK_EQ(track_physical(dev0), 2 * STEP);
	CHECK_EQ(pool_release_orphans(dev0, 2 * STEP), STEP);
	CHECK_EQ(quota_used(dev0), STEP);
	/* Without a figure it stays charged, but for the step. */
	CHECK_EQ(pool_doubt(&d, &pool_b, 2 * STEP, true), 0);
	pool_keep_doubt(&d);
	CHECK_EQ(pool_charged(&pool_b), 3 * STEP);
	CHECK_EQ(quota_used(dev0), 3 * STEP);
	CHECK_EQ(m.region.own->slots[m.slot.index].doubted_bytes, 0);
	settle(&pool_b, STEP, 0);
	CHECK_EQ(quota_used(dev0), STEP);
}

static void without_a_figure_the_reservation_stays(void)
{
	struct member m;

	join(&m, "1g");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	CHECK_EQ(pool_reserve(&pool_a, 32), 0);
	pool_keep(&pool_a, 32);
	CHECK_EQ(quota_used(dev0), 32);
	CHECK_EQ(pool_charged(&pool_a), 32);
	CHECK_EQ(track_physical(dev0), 32);
	settle(&pool_a, 0, 0);
	CHECK_EQ(quota_used(dev0), 0);
}

static void managed_pools_are_not_in_the_cards_figure(void)
{
	struct member m;

	join(&m, "1g");
	CHECK(pool_enter(&pool_a, dev0, POOL_MANAGED));
	settle(&pool_a, 64, 0);
	CHECK_EQ(quota_used(dev0), 64);
	CHECK_EQ(track_physical(dev0), 0);
	settle(&pool_a, 32, 0);
	CHECK_EQ(track_physical(dev0), 0);
	destroy(&pool_a, true);
	CHECK_EQ(quota_used(dev0), 0);
	CHECK_EQ(track_physical(dev0), 0);
}

/* No figure tells when it goes: its pieces do. */
static void managed_pools_go_with_their_last_piece(void)
{
	struct piece *piece;
	struct member m;

	join(&m, "1g");
	CHECK(pool_enter(&pool_a, dev0, POOL_MANAGED) && pool_any_managed());
	CHECK(!piece_any());
	settle(&pool_a, 64, 0);
	pool_given(&pool_a, 0x1000);
	pool_given(&pool_a, 0x2000);
	pool_given(&pool_a, 0x3000);
	piece_over(piece_take(0x2000), true);
	destroy(&pool_a, false);
	CHECK(!pool_any_orphans(dev0));
	/* Another pool may have its handle by now. */
	CHECK(pool_enter(&pool_a, dev0, POOL_MANAGED));
	settle(&pool_a, 32, 0);
	pool_given(&pool_a, 0x4000);
	piece_over(piece_take(0x1000), true);
	CHECK_EQ(quota_used(dev0), 96);
	CHECK_EQ(track_managed(dev0), 96);
	piece = piece_take(0x3000);
	CHECK(piece && !piece_take(0x3000));
	piece_over(piece, false);
	CHECK_EQ(quota_used(dev0), 96);
	piece_over(piece_take(0x3000), true);
	CHECK_EQ(quota_used(dev0), 32);
	CHECK_EQ(track_managed(dev0), 32);
	/* One that comes to an address again was freed unseen. */
	destroy(&pool_a, false);
	CHECK(pool_enter(&pool_b, dev0, POOL_MANAGED));
	pool_given(&pool_b, 0x4000);
	CHECK_EQ(quota_used(dev0), 0);
	destroy(&pool_b, true);
	piece_over(piece_take(0x4000), true);
	CHECK(!piece_any());
	CHECK_EQ(quota_used(dev0), 0);
	/* With nothing given out, at once: the stream has yet to come to the frees. */
	CHECK(pool_enter(&pool_b, dev0, POOL_MANAGED));
	settle(&pool_b, 64, 0);
	destroy(&pool_b, false);
	CHECK_EQ(quota_used(dev0), 0);
	CHECK_EQ(track_managed(dev0), 0);
}

static void destroyed_pools_go_with_their_last_memory(void)
{
	struct member m;

	join(&m, "1g");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	CHECK(pool_enter(&pool_b, dev0, POOL_DEVICE));
	settle(&pool_a, 64, 0);
	settle(&pool_b, 32, 0);
	destroy(&pool_a, false);
	CHECK(pool_any());
	CHECK_EQ(quota_used(dev0), 96);
	CHECK_EQ(pool_charged(&pool_a), 0);
	pool_release_orphans(dev0, 16);
	CHECK_EQ(quota_used(dev0), 80);
	CHECK_EQ(track_physical(dev0), 80);
	/* Never more than they left. */
	pool_release_orphans(dev0, 1000);
	CHECK_EQ(quota_used(dev0), 32);
	destroy(&pool_b, true);
	CHECK_EQ(quota_used(dev0), 0);
	CHECK(!pool_any());
	destroy(&pool_b, true);
	/* What follows does nothing to one that is gone. */
	settle(&pool_b, 64, 0);
	pool_keep(&pool_b, 64);
	pool_cancel(&pool_b, 64);
	CHECK_EQ(quota_used(dev0), 0);
}

static void pools_of_a_device_are_listed(void)
{
	static const char keys[600];
	const void *at = NULL;
	struct member m;
	int n = 0;

	join(&m, "1g");
	CHECK(!pool_next(dev0, NULL));
	for (size_t i = 0; i < sizeof(keys); i++)
		CHECK(pool_enter(&keys[i], (struct dev){ i % 2 }, POOL_DEVICE));
	while ((at = pool_next(dev0, at))) {
		CHECK(((const char *)at - keys) % 2 == 0);
		n++;
	}
	CHECK_EQ(n, sizeof(keys) / 2);
	/* One that was destroyed meanwhile. */
	at = pool_next(dev0, NULL);
	destroy(at, true);
	CHECK(pool_next(dev0, at) == &keys[2]);
	CHECK(pool_next((struct dev){ 1 }, NULL) == &keys[1]);
}

/* The handle may be another pool's as soon as the driver has destroyed this one. */
static void a_pool_that_is_being_destroyed(void)
{
	struct pool *pool;
	struct member m;
	struct dev dev;

	join(&m, "1g");
	CHECK(!pool_take(&pool_a));
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	settle(&pool_a, 64, 0);
	pool = pool_take(&pool_a);
	CHECK(pool && !pool_device(&pool_a, &dev) && !pool_any());
	CHECK_EQ(quota_used(dev0), 64);
	pool_put_back(pool);
	CHECK(pool_any());
	CHECK_EQ(pool_charged(&pool_a), 64);
	pool = pool_take(&pool_a);
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	settle(&pool_a, 32, 0);
	pool_end(pool, false);
	CHECK(pool_any_orphans(dev0) && !pool_any_orphans((struct dev){ 1 }));
	CHECK_EQ(quota_used(dev0), 96);
	CHECK_EQ(pool_charged(&pool_a), 32);
}

/* It goes on being above the limit, which its successor does not forget. */
static void a_pool_that_was_over_is_destroyed(void)
{
	struct member m;

	join(&m, "1m");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	CHECK((int)pool_settle(&pool_a, pool_ask(), MIB_BYTES(2), 0) == -EDQUOT);
	destroy(&pool_a, false);
	CHECK(pool_any_over(dev0));
	CHECK_EQ(pool_release_orphans(dev0, MIB_BYTES(1)), MIB_BYTES(1));
	CHECK(!pool_any_over(dev0));
}

enum { THREADS = 4, ROUNDS = 2000, GROWTH = 1 << 20, LIMIT = 8 };

/* A pool of a driver's: what it holds is what its threads took. */
static _Atomic uint64_t held_units;
static _Atomic bool has_passed;

/* As drv/gpu_pool does. */
static int settle_now(uint64_t reserved_bytes)
{
	uint64_t ticket;
	int rc;

	do {
		ticket = pool_ask();
		rc = pool_settle(&pool_a, ticket, atomic_load(&held_units) * GROWTH,
				 reserved_bytes);
	} while (rc == -EAGAIN);
	return rc;
}

static void *grow_and_shrink(void *arg)
{
	int own = 0;

	for (int i = 0; i < ROUNDS; i++) {
		int rc;

		if (own && i % 3 == 0) {
			own--;
			atomic_fetch_sub(&held_units, 1);
			rc = settle_now(0);
			CHECK_EQ(rc, 0);
			continue;
		}
		if (pool_reserve(&pool_a, GROWTH) < 0)
			continue;
		own++;
		atomic_fetch_add(&held_units, 1);
		rc = settle_now(GROWTH);
		CHECK_EQ(rc, 0);
		if (quota_used(dev0) > (uint64_t)LIMIT * GROWTH)
			atomic_store(&has_passed, true);
	}
	atomic_fetch_sub(&held_units, (uint64_t)own);
	return arg;
}

static void threads_share_a_pool(void)
{
	pthread_t threads[THREADS];
	struct member m;

	join(&m, "8m");
	CHECK(pool_enter(&pool_a, dev0, POOL_DEVICE));
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, grow_and_shrink, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(!atomic_load(&has_passed));
	CHECK_EQ(atomic_load(&held_units), 0);
	settle(&pool_a, 0, 0);
	CHECK_EQ(quota_used(dev0), 0);
	CHECK_EQ(track_physical(dev0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(a_pool_is_charged_by_what_it_holds),
		fresh_test(growth_over_the_limit_is_refused),
		fresh_test(a_pool_that_shrank_is_not_over),
		fresh_test(a_store_over_the_limit_refuses_no_pool),
		fresh_test(growth_of_another_thread_is_charged_once),
		fresh_test(a_figure_that_was_overtaken_is_asked_for_again),
		fresh_test(what_may_stay),
		fresh_test(one_of_two_may_stay),
		fresh_test(doubt_goes_with_the_pool_that_served),
		fresh_test(without_a_figure_the_reservation_stays),
		fresh_test(managed_pools_are_not_in_the_cards_figure),
		fresh_test(managed_pools_go_with_their_last_piece),
		fresh_test(destroyed_pools_go_with_their_last_memory),
		fresh_test(pools_of_a_device_are_listed),
		fresh_test(a_pool_that_is_being_destroyed),
		fresh_test(a_pool_that_was_over_is_destroyed),
		fresh_test(threads_share_a_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
