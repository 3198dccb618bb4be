/*
 * Random programs against a model of two pools of a driver: whatever they do, in however many
 * threads, what is charged is what the pools hold, and above the limit by one request of each
 * thread at most.
 */
#include "core/pool.h"

#include "core/track.h"
#include "member.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define UNIT MIB_BYTES(32)

static struct member member;

/*
 * A driver's pool: it serves requests from what it holds, grows by whole units when it must, and
 * gives back what it does not use whenever it likes.
 */
struct model {
	const void *name;
	pthread_mutex_t mutex;
	/* mutex */
	uint64_t held, used;
	uint64_t late; /* of used: freed, but the stream is busy before it */
};

static struct model models[2];
static _Atomic uint64_t most_used;
static _Atomic bool is_over;

static void model_alloc(struct model *m, uint64_t bytes)
{
	pthread_mutex_lock(&m->mutex);
	m->used += bytes;
	while (m->held < m->used)
		m->held += UNIT;
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
	while (m->held >= m->used + UNIT)
		m->held -= UNIT;
	pthread_mutex_unlock(&m->mutex);
}

static int settle_model(struct model *m, uint64_t reserved)
{
	uint64_t ticket = pool_ask(), held;

	pthread_mutex_lock(&m->mutex);
	held = m->held;
	pthread_mutex_unlock(&m->mutex);
	return pool_settle(m->name, ticket, held, reserved);
}

static uint64_t room_of(struct model *m)
{
	uint64_t room;

	pthread_mutex_lock(&m->mutex);
	room = m->held - m->used;
	pthread_mutex_unlock(&m->mutex);
	return room;
}

/* May the driver be asked, and what is reserved for it. */
static bool reserve(struct model *m, uint64_t bytes, uint64_t *out_reserved)
{
	uint64_t want = (bytes + UNIT - 1) / UNIT * UNIT;

	*out_reserved = 0;
	if (!pool_any_over(dev0) && room_of(m) >= bytes)
		return true;
	if (pool_reserve(m->name, want) < 0)
		return false;
	*out_reserved = want;
	return true;
}

/* One request, as hook/cuda_pool.c makes it. True when the program has its memory. */
static bool request(struct model *m, uint64_t bytes)
{
	uint64_t reserved;

	if (!reserve(m, bytes, &reserved)) {
		model_shrink(m);
		settle_model(m, 0);
		if (!reserve(m, bytes, &reserved))
			return false;
	}
	model_alloc(m, bytes);
	if (settle_model(m, reserved) == 0)
		return true;
	/* The room was gone when the driver looked, and there is none to grow. */
	model_free_late(m, bytes);
	return false;
}

/* Of what the pools truly hold. */
static void note_use(void)
{
	uint64_t used = 0;

	for (int i = 0; i < 2; i++) {
		pthread_mutex_lock(&models[i].mutex);
		used += models[i].held;
		pthread_mutex_unlock(&models[i].mutex);
	}
	if (used > atomic_load(&most_used))
		atomic_store(&most_used, used);
}

static void *watch(void *arg)
{
	(void)arg;
	while (!atomic_load(&is_over))
		note_use();
	return NULL;
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
		} else if (i < STEPS && request(m, bytes)) {
			kept[at].m = m;
			kept[at].bytes = bytes;
			note_use();
		}
		if (rand_r(&seed) % 64 == 0)
			model_synchronise(m);
		if (rand_r(&seed) % 8 == 0)
			model_shrink(m);
		if (rand_r(&seed) % 8 == 0)
			settle_model(m, 0);
	}
	return NULL;
}

static void check_models(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(settle_model(&models[i], 0), 0);
		CHECK_EQ(pool_charged(models[i].name), models[i].held);
		sum += models[i].held;
	}
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), sum);
	CHECK_EQ(quota_used(dev0), sum);
	CHECK_EQ(track_physical(dev0), sum);
}

static void pools_that_grow_and_shrink_in_threads(void)
{
	pthread_t threads[THREADS], watcher;

	member_join(&member, scratch_path("region"), "300m", 0, 1);
	track_init();
	pool_init();
	for (int i = 0; i < 2; i++) {
		models[i].name = &models[i];
		pthread_mutex_init(&models[i].mutex, NULL);
		CHECK(pool_enter(models[i].name, dev0, POOL_DEVICE));
	}
	CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, use_pools, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&is_over, true);
	pthread_join(watcher, NULL);
	CHECK(atomic_load(&most_used) <= MIB_BYTES(300) + THREADS * 2 * UNIT);
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
