/*
 * Random programs against a model of two pools of a driver: whatever they do, in however many
 * threads, what is charged is what the pools hold, and they never hold more than the limit, not for
 * a moment.
 */
#include "core/pool.h"

#include "core/doubt.h"
#include "core/track.h"
#include "member.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define UNIT MIB_BYTES(32)

static struct member member;

/*
 * A driver's pool: it serves requests from what it holds, grows by whole units when it must and now
 * and then when it need not, as room in pieces makes it, and gives back what it does not use
 * whenever it likes.
 */
struct model {
	const void *name;
	pthread_mutex_t mutex;
	/* mutex */
	uint64_t held, used;
	uint64_t late; /* of used: freed, but the stream is busy before it */
};

static struct model models[2];
/* What both hold, and the most that they ever did. */
static _Atomic uint64_t all_held, most_held;

/* mutex */
static void change_held(struct model *m, uint64_t held)
{
	uint64_t all = atomic_fetch_add(&all_held, held - m->held) + held - m->held;
	uint64_t most = atomic_load(&most_held);

	m->held = held;
	while (all > most && !atomic_compare_exchange_weak(&most_held, &most, all))
		;
}

static uint64_t whole(uint64_t bytes)
{
	return (bytes + UNIT - 1) / UNIT * UNIT;
}

static void model_alloc(struct model *m, uint64_t bytes, bool is_in_pieces)
{
	pthread_mutex_lock(&m->mutex);
	if (is_in_pieces || m->held < m->used + bytes)
		change_held(m, m->held + whole(bytes));
	m->used += bytes;
	pthread_mutex_unlock(&m->mutex);
}

static void model_free(struct model *m, uint64_t bytes)
{
	pthread_mutex_lock(&m->mutex);
	m->used -= bytes;
	pthread_mutex_unlock(&m->mutex);
}

static void model_free_late(struct model *m, uint64_t bytes)
{
	pthread_mutex_lock(&m->mutex);
	m->late += bytes;
	pthread_mutex_unlock(&m->mutex);
}

/* As a synchronisation of some thread does it. */
static void model_synchronise(struct model *m)
{
	pthread_mutex_lock(&m->mutex);
	m->used -= m->late;
	m->late = 0;
	pthread_mutex_unlock(&m->mutex);
}

static void model_shrink(struct model *m)
{
	pthread_mutex_lock(&m->mutex);
	change_held(m, m->held - (m->held - m->used) / UNIT * UNIT);
	pthread_mutex_unlock(&m->mutex);
}

static uint64_t held_of(struct model *m)
{
	uint64_t held;

	pthread_mutex_lock(&m->mutex);
	held = m->held;
	pthread_mutex_unlock(&m->mutex);
	return held;
}

/* Of an allocation, or as it is (NULL). */
static int settle_model(struct model *m, struct pool_doubt *d)
{
	uint64_t ticket;
	int rc;

	do {
		ticket = pool_ask();
		rc = d ? pool_settle_doubt(d, ticket, held_of(m)) :
			 pool_settle(m->name, ticket, held_of(m), 0);
	} while (rc == -EAGAIN);
	return rc;
}

static uint64_t room_of(struct model *m)
{
	uint64_t room;

	pthread_mutex_lock(&m->mutex);
	room = m->held - m->used;
	pthread_mutex_unlock(&m->mutex);
	return room;
}

/* May the driver be asked. */
static bool reserve(struct model *m, uint64_t bytes, struct pool_doubt *d)
{
	int64_t end_ns = 0;

	if (pool_doubt(d, m->name, whole(bytes), true) == 0)
		return true;
	if (room_of(m) < bytes)
		return false;
	while (pool_doubt(d, m->name, whole(bytes), false) < 0)
		if (!doubt_await(dev0, whole(bytes), &end_ns))
			return false;
	return true;
}

/* One request, as hook/cuda_pool.c makes it. True when the program has its memory. */
static bool request(struct model *m, uint64_t bytes, bool is_in_pieces)
{
	struct pool_doubt d;

	if (!reserve(m, bytes, &d)) {
		model_shrink(m);
		settle_model(m, NULL);
		if (!reserve(m, bytes, &d))
			return false;
	}
	model_alloc(m, bytes, is_in_pieces);
	if (settle_model(m, &d) == 0)
		return true;
	model_free_late(m, bytes);
	model_shrink(m);
	settle_model(m, NULL);
	pool_undone(&d);
	return false;
}

enum { THREADS = 4, KEPT = 16, STEPS = BUILD_SANITIZED ? 3000 : 20000 };

static void *use_pools(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg + 1;
	struct {
		struct model *m;
		uint64_t bytes;
	} kept[KEPT] = { { NULL, 0 } };

	for (int i = 0; i < STEPS + KEPT; i++) {
		int at = i < STEPS ? rand_r(&seed) % KEPT : i - STEPS;
		struct model *m = &models[rand_r(&seed) % 2];
		uint64_t bytes = 1 + (uint64_t)rand_r(&seed) % MIB_BYTES(40);

		if (kept[at].m) {
			model_free(kept[at].m, kept[at].bytes);
			kept[at].m = NULL;
		} else if (i < STEPS && request(m, bytes, rand_r(&seed) % 4 == 0)) {
			kept[at].m = m;
			kept[at].bytes = bytes;
		}
		if (rand_r(&seed) % 64 == 0)
			model_synchronise(m);
		if (rand_r(&seed) % 8 == 0)
			model_shrink(m);
		if (rand_r(&seed) % 8 == 0)
			settle_model(m, NULL);
	}
	return NULL;
}

static void check_models(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(settle_model(&models[i], NULL), 0);
		CHECK_EQ(pool_charged(models[i].name), models[i].held);
		sum += models[i].held;
	}
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), sum);
	CHECK_EQ(quota_used(dev0), sum);
	CHECK_EQ(track_physical(dev0), sum);
}

static void pools_that_grow_and_shrink_in_threads(void)
{
	pthread_t threads[THREADS];

	member_join(&member, scratch_path("region"), "300m", 0, 1);
	track_init();
	pool_init();
	for (int i = 0; i < 2; i++) {
		models[i].name = &models[i];
		pthread_mutex_init(&models[i].mutex, NULL);
		CHECK(pool_enter(models[i].name, dev0, POOL_DEVICE));
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, use_pools, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(atomic_load(&most_held) > MIB_BYTES(300) - 2 * UNIT);
	CHECK(atomic_load(&most_held) <= MIB_BYTES(300));
	for (int i = 0; i < 2; i++) {
		model_synchronise(&models[i]);
		model_shrink(&models[i]);
	}
	check_models();
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(models[i].used, 0);
		model_shrink(&models[i]);
	}
	check_models();
	CHECK_EQ(quota_used(dev0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(pools_that_grow_and_shrink_in_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
