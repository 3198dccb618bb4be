/* Destroyed pools with memory in them: what the card has back is found by looking at it. */
#include "core/charge.h"

#include "core/pool.h"
#include "member.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { CONTEXT = 64 << 20, UNIT = 32 << 20 };

static const char pool;
static struct member member;

/*
 * The card: what the driver says this process holds. Look i of those that are held waits for go[i].
 */
static struct {
	_Atomic uint64_t bytes;
	_Atomic int looks_to_hold, looks_held;
	sem_t is_asked, go[2];
} card;

static int card_bytes(const char *uuid, uint64_t *out_bytes)
{
	(void)uuid;
	*out_bytes = atomic_load(&card.bytes);
	if (atomic_load(&card.looks_held) < atomic_load(&card.looks_to_hold)) {
		int i = atomic_fetch_add(&card.looks_held, 1);

		sem_post(&card.is_asked);
		sem_wait(&card.go[i]);
	}
	return 0;
}

static const struct gpu_ops ops = { .process_bytes = card_bytes };

/* A context, and `units` of a pool that was destroyed and has not given them back. */
static void start(uint64_t units)
{
	uint64_t held = units * UNIT;

	member_join(&member, scratch_path("region"), "1g", 0, 1);
	charge_init(&ops);
	atomic_store(&card.bytes, CONTEXT);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
	CHECK(pool_enter(&pool, dev0, POOL_DEVICE));
	CHECK_EQ(pool_settle(&pool, pool_ask(), held, 0), 0);
	atomic_store(&card.bytes, CONTEXT + held);
	pool_end(pool_take(&pool), false);
	CHECK_EQ(charge_watch(dev0), 0);
	CHECK_EQ(quota_used(dev0), CONTEXT + held);
	CHECK_EQ(quota_held(dev0, QUOTA_CONTEXT), CONTEXT);
}

static void they_go_before_the_context_does(void)
{
	start(3);
	for (uint64_t units = 3; units-- > 0;) {
		atomic_store(&card.bytes, CONTEXT + units * UNIT);
		CHECK_EQ(charge_watch(dev0), 0);
		CHECK_EQ(quota_held(dev0, QUOTA_CONTEXT), CONTEXT);
		CHECK_EQ(quota_held(dev0, QUOTA_DATA), units * UNIT);
	}
	atomic_store(&card.bytes, 0);
	CHECK_EQ(charge_watch(dev0), 0);
	CHECK_EQ(quota_used(dev0), 0);
}

static void *watch(void *arg)
{
	int rc = charge_watch(dev0);

	CHECK(rc == 0 || rc == -EAGAIN);
	return arg;
}

/* Both see that a unit is gone: it is taken off once. */
static void two_looks_at_once(void)
{
	pthread_t looks[2];

	start(3);
	CHECK(sem_init(&card.is_asked, 0, 0) == 0);
	atomic_store(&card.bytes, CONTEXT + 2 * UNIT);
	atomic_store(&card.looks_to_hold, 2);
	for (int i = 0; i < 2; i++) {
		CHECK(sem_init(&card.go[i], 0, 0) == 0);
		CHECK(pthread_create(&looks[i], NULL, watch, NULL) == 0);
		sem_wait(&card.is_asked);
	}
	for (int i = 0; i < 2; i++) {
		sem_post(&card.go[i]);
		pthread_join(looks[i], NULL);
		CHECK_EQ(quota_used(dev0), CONTEXT + 2 * UNIT);
		CHECK_EQ(track_physical(dev0), 2 * UNIT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(they_go_before_the_context_does),
		fresh_test(two_looks_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
