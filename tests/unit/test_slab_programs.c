/*
 * Random programs in one and in several threads against a model that knows for every chunk of some
 * regions whether it has memory, who has it and what it waits for: nobody gets memory that is
 * another's, that is not there, or that may still be used.
 */
#include "core/slab.h"

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { REGIONS = 3, THREADS = 4, KEPT = 64, STEPS = BUILD_SANITIZED ? 3000 : 20000 };

#define BASE (UINT64_C(1) << 40)
#define REGION_BYTES (UINT64_C(12) << 20)
#define STRIDE (UINT64_C(128) << 20)
#define REGION_CHUNKS (REGION_BYTES / SLAB_ALIGN_BYTES)
#define NOBODY UINT64_MAX

static struct slab *slab;

/* Of each chunk: NOBODY, 0 while it is somebody's, or the fence that it waits for. */
static _Atomic uint64_t state_of[REGIONS * REGION_CHUNKS];
static _Atomic bool has_memory[REGIONS * REGION_CHUNKS / 4096];
static _Atomic uint64_t fence, done; /* done <= fence */
static _Atomic bool is_wrong;

/* In threads nothing of cmocka's may fail. */
static void expect(bool is_right)
{
	if (!is_right)
		atomic_store(&is_wrong, true);
}

static uint64_t chunk_of(uint64_t addr)
{
	uint64_t at = addr - BASE;

	return at / STRIDE * REGION_CHUNKS + at % STRIDE / SLAB_ALIGN_BYTES;
}

struct piece {
	uint64_t addr, bytes;
};

static void got(const struct piece *p)
{
	uint64_t first = chunk_of(p->addr);

	for (uint64_t i = first; i < first + (p->bytes + 511) / 512; i++) {
		uint64_t was = atomic_exchange(&state_of[i], 0);

		expect(was == NOBODY || (was != 0 && was <= atomic_load(&done)));
		expect(atomic_load(&has_memory[i / 4096]));
	}
}

static void give(struct piece *p)
{
	uint64_t first = chunk_of(p->addr), waits = atomic_load(&fence);

	for (uint64_t i = first; i < first + (p->bytes + 511) / 512; i++)
		expect(atomic_exchange(&state_of[i], waits ? waits : NOBODY) == 0);
	expect(slab_free(slab, p->addr, waits) == 0);
	p->bytes = 0;
}

static void try_grow(uint64_t bytes)
{
	struct slab_piece extent;

	if (slab_grow_begin(slab, bytes, &extent) < 0)
		return;
	for (uint64_t i = 0; i < extent.bytes / SLAB_BLOCK_BYTES; i++) {
		uint64_t block = chunk_of(extent.addr) / 4096 + i;

		expect(!atomic_exchange(&has_memory[block], true));
	}
	slab_grow_commit(slab, &extent);
}

/* The last region is only handed in once: a program in threads may see it taken out. */
static void try_shrink(void)
{
	struct slab_piece extent;

	if (!slab_shrink_begin(slab, SLAB_BLOCK_BYTES, &extent))
		return;
	for (uint64_t i = 0; i < extent.bytes / SLAB_ALIGN_BYTES; i++) {
		uint64_t was = atomic_load(&state_of[chunk_of(extent.addr) + i]);

		expect(was == NOBODY || (was != 0 && was <= atomic_load(&done)));
	}
	for (uint64_t i = 0; i < extent.bytes / SLAB_BLOCK_BYTES; i++)
		expect(atomic_exchange(&has_memory[chunk_of(extent.addr) / 4096 + i], false));
	if (slab_shrink_end(slab, &extent))
		expect(slab_add(slab, extent.region_addr, extent.region_bytes, NULL) == 0);
}

/* The fences that are done go on, but never beyond those that were given out. */
static void work_is_done(unsigned *seed)
{
	uint64_t now = atomic_load(&done), to = atomic_load(&fence);

	to -= to > now ? (uint64_t)rand_r(seed) % (to - now + 1) : 0;
	while (now < to && !atomic_compare_exchange_weak(&done, &now, to))
		;
	slab_poll(slab, atomic_load(&done));
}

static void check_find(const struct piece *p, unsigned *seed)
{
	struct slab_piece found;

	expect(slab_find(slab, p->addr + (uint64_t)rand_r(seed) % p->bytes, &found) == 0);
	expect(found.addr == p->addr && found.bytes == (p->bytes + 511) / 512 * 512);
	if (p->bytes > 512)
		expect(slab_free(slab, p->addr + 512, 1) == -EINVAL);
	expect(slab_free(slab, p->addr + 1, 1) == -EINVAL);
}

static void step(struct piece *p, unsigned *seed)
{
	uint64_t bytes = (uint64_t)rand_r(seed) % (UINT64_C(512) << rand_r(seed) % 13) + 1;

	if (p->bytes && rand_r(seed) % 4 == 0) {
		check_find(p, seed);
	} else if (p->bytes) {
		give(p);
	} else if (slab_takes(bytes) && slab_alloc(slab, bytes, &p->addr) == 0) {
		p->bytes = bytes;
		got(p);
	} else if (slab_takes(bytes)) {
		try_grow(bytes);
	}
	if (rand_r(seed) % 4 == 0)
		atomic_fetch_add(&fence, 1);
	if (rand_r(seed) % 16 == 0)
		work_is_done(seed);
	if (rand_r(seed) % 32 == 0)
		try_shrink();
}

static void *program(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct piece kept[KEPT] = { { 0, 0 } };

	for (int i = 0; i < STEPS; i++)
		step(&kept[rand_r(&seed) % KEPT], &seed);
	for (int i = 0; i < KEPT; i++)
		if (kept[i].bytes)
			give(&kept[i]);
	return NULL;
}

static void start(void)
{
	slab = slab_open();
	assert_non_null(slab);
	for (uint64_t i = 0; i < REGIONS * REGION_CHUNKS; i++)
		state_of[i] = NOBODY;
	for (uint64_t i = 0; i < REGIONS; i++)
		assert_ok(slab_add(slab, BASE + i * STRIDE, REGION_BYTES, NULL));
	fence = 0;
	done = 0;
}

/* When all work is done, all memory is there again, and can go. */
static void finish(void)
{
	struct slab_piece extent;
	struct slab_stats stats;

	assert_false(is_wrong);
	while (slab_poll(slab, UINT64_MAX))
		;
	stats = slab_stats(slab);
	assert_int_equal(stats.taken, 0);
	assert_int_equal(stats.quarantine, 0);
	assert_int_equal(stats.empty, stats.held);
	while (slab_shrink_begin(slab, 0, &extent)) {
		for (uint64_t i = 0; i < extent.bytes / SLAB_BLOCK_BYTES; i++)
			assert_true(atomic_exchange(&has_memory[chunk_of(extent.addr) / 4096 + i],
						    false));
		slab_shrink_end(slab, &extent);
	}
	for (unsigned i = 0; i < REGIONS * REGION_CHUNKS / 4096; i++)
		assert_false(has_memory[i]);
	assert_int_equal(slab_stats(slab).held, 0);
	slab_close(slab);
}

static void one_thread(void **state)
{
	(void)state;
	for (uintptr_t seed = 1; seed <= 3; seed++) {
		start();
		program((void *)seed);
		finish();
	}
}

static void several_threads(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	start();
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, program, (void *)(i + 10)), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread),
		cmocka_unit_test(several_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
