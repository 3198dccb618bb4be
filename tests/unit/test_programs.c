/*
 * Random programs against the model driver: whatever they do, in however many threads, what is
 * charged is what the driver holds, and never more than the limit.
 */
#include "base/log.h"
#include "core/learnt.h"
#include "hook/enter.h"
#include "hook/lookup.h"

#include "member.h"
#include "model_driver.h"

#include <pthread.h>
#include <stdatomic.h>

#define MIB (UINT64_C(1) << 20)
#define MAP_BASE UINT64_C(0x7f9000000000)

enum {
	THREADS = 4,
	STEPS = BUILD_SANITIZED ? 1500 : 6000,
	KEPT = 24,
	SLOTS = 16, /* of 2 MiB, for mappings */
};

/* What one thread holds, as the driver told it. */
struct program {
	pthread_t thread;
	unsigned seed;
	uint64_t base; /* of its mappings */
	CUcontext ctx;
	bool has_modules;
	bool has_contexts;
	int addr_count, handle_count, module_count;
	CUdeviceptr addr[KEPT];
	CUmemGenericAllocationHandle handle[KEPT];
	CUmodule module[KEPT];
	bool is_mapped[SLOTS];
};

static struct {
	struct program programs[THREADS];
	CUcontext primary;
	/*
	 * Held to read by a thread in a step, to write by who forks, in a sanitizer's build: its
	 * allocator may not be forked in the midst of a call.
	 */
	pthread_rwlock_t fork_lock;
	/* What a watcher found; atomic. */
	_Atomic bool is_over;
	_Atomic uint64_t most_used, wrong_overhead;
} world;

static uint64_t pick(struct program *p, uint64_t below)
{
	return (uint64_t)rand_r(&p->seed) % below;
}

/* One call in sixteen fails in the driver. */
static void perhaps_fail(struct program *p)
{
	if (pick(p, 16) == 0)
		model_fail_next();
}

/* What is refused has written nothing, also where the driver had given it. */
#define UNWRITTEN 0x5a5a5a5a5a5a5a5a
#define IS_GIVEN(call, out)                                                 \
	({                                                                  \
		bool is_given = (call) == CUDA_SUCCESS;                     \
                                                                            \
		CHECK(is_given || (uint64_t)(uintptr_t)(out) == UNWRITTEN); \
		is_given;                                                   \
	})

static void step_alloc(struct program *p)
{
	uint64_t bytes = pick(p, 2) ? 1 + pick(p, MIB) : 1 + pick(p, 6 * MIB);
	CUdeviceptr addr = UNWRITTEN;

	if (p->addr_count < KEPT && IS_GIVEN(hook_cuMemAlloc_v2(&addr, bytes), addr))
		p->addr[p->addr_count++] = addr;
}

static void step_pitch(struct program *p)
{
	CUdeviceptr addr = UNWRITTEN;
	size_t pitch = UNWRITTEN;
	CUresult res;

	if (p->addr_count == KEPT)
		return;
	res = hook_cuMemAllocPitch_v2(&addr, &pitch, 1 + pick(p, 65536), 1 + pick(p, 64), 4);
	if (IS_GIVEN(res, addr) && IS_GIVEN(res, pitch))
		p->addr[p->addr_count++] = addr;
}

static void step_managed(struct program *p)
{
	CUdeviceptr addr = UNWRITTEN;

	if (p->addr_count < KEPT &&
	    IS_GIVEN(hook_cuMemAllocManaged(&addr, 1 + pick(p, 4 * MIB), 1), addr))
		p->addr[p->addr_count++] = addr;
}

static void step_free(struct program *p)
{
	uint64_t i;

	if (!p->addr_count)
		return;
	i = pick(p, (uint64_t)p->addr_count);
	if (hook_cuMemFree_v2(p->addr[i]) == CUDA_SUCCESS)
		p->addr[i] = p->addr[--p->addr_count];
}

/* Of what is not there, and what was never a pointer. */
static void step_free_nothing(struct program *p)
{
	CHECK(hook_cuMemFree_v2(0x1234) != CUDA_SUCCESS);
	model_fail_next();
	CHECK(hook_cuMemRelease(pick(p, 1000) + 1000) != CUDA_SUCCESS);
}

static void step_create(struct program *p)
{
	CUmemAllocationProp prop = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };

	if (p->handle_count < KEPT &&
	    hook_cuMemCreate(&p->handle[p->handle_count], 2 * MIB, &prop, 0) == CUDA_SUCCESS)
		p->handle_count++;
}

static void step_release(struct program *p)
{
	uint64_t i;

	if (!p->handle_count)
		return;
	i = pick(p, (uint64_t)p->handle_count);
	if (hook_cuMemRelease(p->handle[i]) == CUDA_SUCCESS)
		p->handle[i] = p->handle[--p->handle_count];
}

static uint64_t slot_addr(const struct program *p, uint64_t slot)
{
	return p->base + slot * 2 * MIB;
}

static void step_map(struct program *p)
{
	uint64_t slot = pick(p, SLOTS);

	if (p->handle_count &&
	    hook_cuMemMap(slot_addr(p, slot), 2 * MIB, 0,
			  p->handle[pick(p, (uint64_t)p->handle_count)], 0) == CUDA_SUCCESS)
		p->is_mapped[slot] = true;
}

static void step_unmap(struct program *p)
{
	uint64_t first = pick(p, SLOTS), count = 1 + pick(p, 3);

	if (first + count > SLOTS ||
	    hook_cuMemUnmap(slot_addr(p, first), count * 2 * MIB) != CUDA_SUCCESS)
		return;
	for (uint64_t i = first; i < first + count; i++) {
		CHECK(p->is_mapped[i]);
		p->is_mapped[i] = false;
	}
}

static void step_retain(struct program *p)
{
	void *at = (void *)(uintptr_t)(slot_addr(p, pick(p, SLOTS)) + pick(p, 2 * MIB));

	if (p->handle_count < KEPT &&
	    hook_cuMemRetainAllocationHandle(&p->handle[p->handle_count], at) == CUDA_SUCCESS)
		p->handle_count++;
}

static void step_module(struct program *p)
{
	unsigned char image[2] = { (unsigned char)(1 + pick(p, 32)) };
	CUmodule module = (CUmodule)UNWRITTEN;
	uint64_t i;

	if (pick(p, 2) && p->module_count < KEPT) {
		if (IS_GIVEN(hook_cuModuleLoadData(&module, image), module))
			p->module[p->module_count++] = module;
	} else if (p->module_count) {
		i = pick(p, (uint64_t)p->module_count);
		if (hook_cuModuleUnload(p->module[i]) == CUDA_SUCCESS)
			p->module[i] = p->module[--p->module_count];
	}
}

/* A context that comes and goes, and what is allocated in it goes along. */
static void step_context(struct program *p)
{
	CUcontext ctx = (CUcontext)UNWRITTEN;
	CUdeviceptr addr;

	if (pick(p, 2))
		model_fail_next();
	if (IS_GIVEN(hook_cuCtxCreate_v2(&ctx, 0, 0), ctx)) {
		for (uint64_t i = pick(p, 4); i > 0; i--)
			hook_cuMemAlloc_v2(&addr, 1 + pick(p, 2 * MIB));
		CHECK(hook_cuCtxDestroy_v2(ctx) == CUDA_SUCCESS);
	}
	model_set_current(p->ctx);
}

static void step(struct program *p)
{
	static void (*const steps[])(struct program *) = {
		step_alloc, step_alloc, step_alloc,        step_pitch,  step_managed, step_free,
		step_free,  step_free,  step_free_nothing, step_create, step_create,  step_release,
		step_map,   step_map,   step_unmap,        step_unmap,  step_retain,
	};
	uint64_t which = pick(p, 64);

	perhaps_fail(p);
	if (which <= 3 && p->has_contexts)
		step_context(p);
	else if (which <= 9 && p->has_modules)
		step_module(p);
	else
		steps[which % (sizeof(steps) / sizeof(*steps))](p);
	/* A failure that nobody met is over. */
	model_fail_next();
	CHECK(hook_cuMemFree_v2(0) != CUDA_SUCCESS);
}

/* Gives back all that the program holds. */
static void end(struct program *p)
{
	while (p->addr_count)
		CHECK(hook_cuMemFree_v2(p->addr[--p->addr_count]) == CUDA_SUCCESS);
	while (p->handle_count)
		CHECK(hook_cuMemRelease(p->handle[--p->handle_count]) == CUDA_SUCCESS);
	while (p->module_count)
		CHECK(hook_cuModuleUnload(p->module[--p->module_count]) == CUDA_SUCCESS);
	for (uint64_t i = 0; i < SLOTS; i++)
		if (p->is_mapped[i])
			CHECK(hook_cuMemUnmap(slot_addr(p, i), 2 * MIB) == CUDA_SUCCESS);
}

static void *run(void *arg)
{
	struct program *p = arg;

	model_set_current(p->ctx);
	for (int i = 0; i < STEPS; i++) {
		if (BUILD_SANITIZED)
			pthread_rwlock_rdlock(&world.fork_lock);
		step(p);
		if (BUILD_SANITIZED)
			pthread_rwlock_unlock(&world.fork_lock);
	}
	return NULL;
}

static uint64_t overhead(void)
{
	return quota_held(dev0, QUOTA_CONTEXT) + quota_held(dev0, QUOTA_MODULE);
}

/* Nothing is under way: what is charged is what the driver says. */
static void check_books(void)
{
	struct model_books books = model_look();

	CHECK_EQ(quota_held(dev0, QUOTA_DATA),
		 books.blocks_bytes + books.handles_bytes + books.managed_bytes);
	/* Every call that may change it has looked, or it is looked at before it is shown. */
	charge_settle(dev0);
	CHECK_EQ(overhead(), books.overhead_bytes);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(overhead(), books.overhead_bytes);
	CHECK_EQ(quota_used(dev0), quota_held(dev0, QUOTA_DATA) + overhead());
	CHECK_EQ(track_physical(dev0), books.blocks_bytes + books.handles_bytes);
}

/* Never above the limit; and contexts that stay cost the same whatever else goes on. */
static void *watch(void *arg)
{
	bool looks_at_overhead = arg;

	while (!atomic_load(&world.is_over)) {
		uint64_t used = quota_used(dev0);

		if (used > atomic_load(&world.most_used))
			atomic_store(&world.most_used, used);
		if (!looks_at_overhead)
			continue;
		charge_reconcile(dev0, QUOTA_MODULE);
		if (overhead() != MODEL_CONTEXT_BYTES)
			atomic_store(&world.wrong_overhead, overhead());
	}
	return NULL;
}

static void begin(const char *region, const char *limit, uint64_t card_bytes)
{
	/* Refusals are what this is about: they are not said. */
	log_set_level((enum log_level)(LOG_ERROR - 1));
	pthread_rwlock_init(&world.fork_lock, NULL);
	model_start(card_bytes);
	model_join(scratch_path(region), limit);
	CHECK(hook_cuDevicePrimaryCtxRetain(&world.primary, 0) == CUDA_SUCCESS);
	CHECK_EQ(overhead(), MODEL_CONTEXT_BYTES);
	for (unsigned i = 0; i < THREADS; i++) {
		world.programs[i].seed = 1000 + i;
		world.programs[i].base = MAP_BASE + i * 64 * MIB;
		world.programs[i].ctx = world.primary;
	}
}

static void run_all(void (*meanwhile)(void), bool looks_at_overhead)
{
	pthread_t watcher;

	CHECK(pthread_create(&watcher, NULL, watch, looks_at_overhead ? &world : NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&world.programs[i].thread, NULL, run, &world.programs[i]) ==
		      0);
	if (meanwhile)
		meanwhile();
	for (int i = 0; i < THREADS; i++)
		pthread_join(world.programs[i].thread, NULL);
	atomic_store(&world.is_over, true);
	pthread_join(watcher, NULL);
	check_books();
}

static void finish(void)
{
	for (int i = 0; i < THREADS; i++)
		end(&world.programs[i]);
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
	CHECK(hook_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	check_books();
	CHECK_EQ(quota_used(dev0), 0);
}

static void one_program(void)
{
	struct program *p = &world.programs[0];

	begin("region", "64m", 256 * MIB);
	model_set_current(world.primary);
	p->has_modules = p->has_contexts = true;
	for (int i = 0; i < STEPS; i++) {
		step(p);
		if (i % 8 == 0)
			check_books();
		CHECK(quota_used(dev0) <= 64 * MIB);
	}
	finish();
}

static void threads_under_a_tight_limit(void)
{
	begin("region", "64m", 256 * MIB);
	run_all(NULL, true);
	CHECK(atomic_load(&world.most_used) <= 64 * MIB);
	/* One thread at a time may have opened a block that it had to give back. */
	CHECK(model_look().most_bytes <= 64 * MIB - MODEL_CONTEXT_BYTES + MODEL_BLOCK_BYTES);
	CHECK_EQ(atomic_load(&world.wrong_overhead), 0);
	finish();
}

static void threads_on_a_full_card(void)
{
	begin("region", "200m", 64 * MIB);
	run_all(NULL, true);
	CHECK_EQ(atomic_load(&world.wrong_overhead), 0);
	finish();
}

/* With modules and contexts that come and go, nothing is lost of what no call shows. */
static void threads_with_modules_and_contexts(void)
{
	begin("region", "800m", 1024 * MIB);
	for (int i = 0; i < THREADS; i++)
		world.programs[i].has_modules = world.programs[i].has_contexts = true;
	run_all(NULL, false);
	finish();
}

/* What the child of a thread that is in the midst of it does, in a tenant of its own. */
static void be_child(void)
{
	struct program *p = &world.programs[0];

	memset(&world, 0, sizeof(world));
	begin("child", "64m", 256 * MIB);
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
	model_set_current(world.primary);
	for (int i = 0; i < 300; i++)
		step(p);
	check_books();
	finish();
}

static void fork_some(void)
{
	for (int i = 0; i < 6; i++) {
		int status;
		pid_t pid;

		if (BUILD_SANITIZED)
			pthread_rwlock_wrlock(&world.fork_lock);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			be_child();
			_exit(0);
		}
		if (BUILD_SANITIZED)
			pthread_rwlock_unlock(&world.fork_lock);
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK_EQ(status, 0);
	}
}

static void children_forked_in_the_middle(void)
{
	begin("region", "64m", 256 * MIB);
	run_all(fork_some, true);
	CHECK_EQ(atomic_load(&world.wrong_overhead), 0);
	finish();
}

/* A context that could not be made takes nothing of the one that is there along. */
static void contexts_that_fail(void)
{
	enum { TRIES = BUILD_SANITIZED ? 20000 : 200000 };
	pthread_t watcher;
	CUcontext ctx;

	begin("region", "64m", 256 * MIB);
	CHECK(pthread_create(&watcher, NULL, watch, &world) == 0);
	for (int i = 0; i < TRIES; i++) {
		model_fail_next();
		CHECK(hook_cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS);
	}
	atomic_store(&world.is_over, true);
	pthread_join(watcher, NULL);
	CHECK_EQ(quota_held(dev0, QUOTA_CONTEXT), MODEL_CONTEXT_BYTES);
	finish();
}

/* A module that was unloaded unseen is still counted when a context is asked for. */
static void a_context_is_refused_on_no_stale_figure(void)
{
	unsigned char image[2] = { 32 };
	CUmodule module;
	CUcontext ctx;

	begin("region", "27m", 256 * MIB);
	model_set_current(world.primary);
	CHECK(hook_cuModuleLoadData(&module, image) == CUDA_SUCCESS);
	CHECK_EQ(overhead(), MODEL_CONTEXT_BYTES + 2 * MIB);
	CHECK(hook_cuCtxCreate_v2(&ctx, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(real.cuModuleUnload(module) == CUDA_SUCCESS);
	CHECK(hook_cuCtxCreate_v2(&ctx, 0, 0) == CUDA_SUCCESS);
	check_books();
	/* What a context costs was learnt rightly. */
	CHECK_EQ(learnt_context_bytes(dev0), MODEL_CONTEXT_BYTES);
	CHECK(hook_cuCtxDestroy_v2(ctx) == CUDA_SUCCESS);
	finish();
}

/* The limit is met, and small requests find the open blocks full. */
static void hope_for_room(void)
{
	static int depth;
	CUdeviceptr addr;

	if (depth++ < 3)
		model_after_next(hope_for_room);
	CHECK(hook_cuMemAlloc_v2(&addr, MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	model_after_next(NULL);
}

static void *hope_again_and_again(void *arg)
{
	CUdeviceptr addr;

	(void)arg;
	model_set_current(world.primary);
	for (int i = 0; i < STEPS / 8; i++)
		if (hook_cuMemAlloc_v2(&addr, MIB) == CUDA_SUCCESS)
			CHECK(hook_cuMemFree_v2(addr) == CUDA_SUCCESS);
	return NULL;
}

static void small_requests_go_one_at_a_time(void)
{
	uint64_t room = 64 * MIB - MODEL_CONTEXT_BYTES;
	CUdeviceptr addr;

	begin("region", "64m", 256 * MIB);
	model_set_current(world.primary);
	/* Others come in the middle of a request that found no room. */
	CHECK(hook_cuMemAlloc_v2(&addr, MIB) == CUDA_SUCCESS);
	while (hook_cuMemAlloc_v2(&addr, 2 * MIB) == CUDA_SUCCESS)
		;
	/* A block is kept back, for what the driver opens in vain. */
	CHECK_EQ(quota_used(dev0), 62 * MIB);
	CHECK(hook_cuMemAlloc_v2(&addr, MIB) == CUDA_SUCCESS);
	CHECK_EQ(model_look().most_bytes, room - MODEL_BLOCK_BYTES);
	model_after_next(hope_for_room);
	CHECK(hook_cuMemAlloc_v2(&addr, MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(model_look().most_bytes, room);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&world.programs[i].thread, NULL, hope_again_and_again, NULL) ==
		      0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(world.programs[i].thread, NULL);
	CHECK_EQ(model_look().most_bytes, room);
	check_books();
	CHECK(hook_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	CHECK_EQ(quota_used(dev0), 0);
}

/* What other threads do in the middle of a call: they have no state of their own. */
static CUmemGenericAllocationHandle shared_handle, retained_handle;

static void release_shared(void)
{
	CHECK(hook_cuMemRelease(shared_handle) == CUDA_SUCCESS);
}

static void unmap_shared(void)
{
	CHECK(hook_cuMemUnmap(MAP_BASE, 2 * MIB) == CUDA_SUCCESS);
}

static void release_and_unmap_shared(void)
{
	release_shared();
	unmap_shared();
}

static void retain_shared(void)
{
	CHECK(hook_cuMemRetainAllocationHandle(&retained_handle, (void *)MAP_BASE) == CUDA_SUCCESS);
}

static CUmemGenericAllocationHandle create_handle(void)
{
	CUmemAllocationProp prop = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle handle;

	CHECK(hook_cuMemCreate(&handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS);
	return handle;
}

static CUresult map_shared(void)
{
	return hook_cuMemMap(MAP_BASE, 2 * MIB, 0, shared_handle, 0);
}

/* A handle that is released while it is being mapped. */
static void maps_in_a_race_with_releases(void)
{
	begin("region", "64m", 256 * MIB);
	shared_handle = create_handle();
	model_after_next(release_shared);
	CHECK(map_shared() == CUDA_SUCCESS);
	check_books();
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 2 * MIB);
	CHECK(hook_cuMemUnmap(MAP_BASE, 2 * MIB) == CUDA_SUCCESS);
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
	/* The map fails, and nothing holds the memory any more. */
	shared_handle = create_handle();
	model_fail_next();
	model_after_next(release_shared);
	CHECK(map_shared() != CUDA_SUCCESS);
	check_books();
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
	finish();
}

/* Mapped memory whose last mapping and handle go while a reference to it is asked for. */
static void retains_in_a_race_with_unmaps(void)
{
	CUmemGenericAllocationHandle handle;

	begin("region", "64m", 256 * MIB);
	for (int is_released = 0; is_released < 2; is_released++) {
		shared_handle = create_handle();
		CHECK(map_shared() == CUDA_SUCCESS);
		if (is_released)
			release_shared();
		model_after_next(is_released ? unmap_shared : release_and_unmap_shared);
		CHECK(hook_cuMemRetainAllocationHandle(&handle, (void *)MAP_BASE) == CUDA_SUCCESS);
		check_books();
		CHECK_EQ(quota_held(dev0, QUOTA_DATA), 2 * MIB);
		CHECK(hook_cuMemRelease(handle) == CUDA_SUCCESS);
		CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
	}
	/* One that fails gives its use back. */
	shared_handle = create_handle();
	CHECK(map_shared() == CUDA_SUCCESS);
	model_fail_next();
	model_after_next(release_and_unmap_shared);
	CHECK(hook_cuMemRetainAllocationHandle(&handle, (void *)MAP_BASE) != CUDA_SUCCESS);
	check_books();
	finish();
}

/* A release that fails while others take and give references. */
static void releases_that_fail_in_a_race(void)
{
	begin("region", "64m", 256 * MIB);
	shared_handle = create_handle();
	CHECK(map_shared() == CUDA_SUCCESS);
	/* Another reference comes while the last one cannot be released. */
	model_fail_next();
	model_after_next(retain_shared);
	CHECK(hook_cuMemRelease(shared_handle) != CUDA_SUCCESS);
	CHECK_EQ(retained_handle, shared_handle);
	CHECK(hook_cuMemUnmap(MAP_BASE, 2 * MIB) == CUDA_SUCCESS);
	release_shared();
	check_books();
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 2 * MIB);
	/* Of two references one is released while the other's release fails. */
	CHECK(map_shared() == CUDA_SUCCESS);
	retain_shared();
	unmap_shared();
	model_fail_next();
	model_after_next(release_shared);
	CHECK(hook_cuMemRelease(shared_handle) != CUDA_SUCCESS);
	check_books();
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 2 * MIB);
	release_shared();
	check_books();
	finish();
}

/* One thread's handles are mapped by another, that cannot know whether they are still there. */
static struct {
	_Atomic uint64_t handle; /* 0: none yet */
	_Atomic bool is_over;
} offer;

static void *map_what_is_offered(void *arg)
{
	(void)arg;
	while (!atomic_load(&offer.is_over)) {
		if (hook_cuMemMap(MAP_BASE, 2 * MIB, 0, atomic_load(&offer.handle), 0) !=
		    CUDA_SUCCESS)
			continue;
		CHECK(quota_held(dev0, QUOTA_DATA) >= 2 * MIB);
		CHECK(hook_cuMemUnmap(MAP_BASE, 2 * MIB) == CUDA_SUCCESS);
	}
	return NULL;
}

static void threads_that_share_handles(void)
{
	enum { ROUNDS = BUILD_SANITIZED ? 5000 : 50000 };
	pthread_t mapper;

	begin("region", "64m", 256 * MIB);
	CHECK(pthread_create(&mapper, NULL, map_what_is_offered, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		CUmemGenericAllocationHandle handle = create_handle();

		atomic_store(&offer.handle, handle);
		CHECK(hook_cuMemRelease(handle) == CUDA_SUCCESS);
	}
	atomic_store(&offer.is_over, true);
	pthread_join(mapper, NULL);
	check_books();
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
	finish();
}

static CUdeviceptr shared_addr;

static void free_shared(void)
{
	CHECK(hook_cuMemFree_v2(shared_addr) == CUDA_SUCCESS);
}

/* An address that is freed before its allocation has come back, as a second free of it can. */
static void frees_in_a_race_with_allocations(void)
{
	CUdeviceptr neighbour;

	begin("region", "64m", 256 * MIB);
	model_set_current(world.primary);
	model_after_next(free_shared);
	CHECK(hook_cuMemAlloc_v2(&shared_addr, 4 * MIB) == CUDA_SUCCESS);
	CHECK_EQ(model_look().blocks_bytes, 0);
	check_books();
	/* The address comes again, with another size. */
	CHECK(hook_cuMemAlloc_v2(&shared_addr, 2 * MIB) == CUDA_SUCCESS);
	check_books();
	CHECK(hook_cuMemFree_v2(shared_addr) == CUDA_SUCCESS);
	check_books();
	/* Two threads free it; the one whose node it is comes second. */
	CHECK(hook_cuMemAlloc_v2(&shared_addr, 2 * MIB) == CUDA_SUCCESS);
	model_fail_next();
	model_after_next(free_shared);
	CHECK(hook_cuMemFree_v2(shared_addr) != CUDA_SUCCESS);
	check_books();
	/* In a block with others: what is wrong would show only when those are gone. */
	CHECK(hook_cuMemAlloc_v2(&neighbour, MIB) == CUDA_SUCCESS);
	model_after_next(free_shared);
	CHECK(hook_cuMemAlloc_v2(&shared_addr, MIB / 2) == CUDA_SUCCESS);
	CHECK(hook_cuMemFree_v2(neighbour) == CUDA_SUCCESS);
	CHECK_EQ(model_look().blocks_bytes, 0);
	check_books();
	finish();
}

/* Addresses that all threads free and replace, some of them twice. */
static _Atomic uint64_t shared_slots[64];

static void *free_twice(void *arg)
{
	struct program *p = arg;

	model_set_current(world.primary);
	for (int i = 0; i < STEPS; i++) {
		_Atomic uint64_t *slot = &shared_slots[pick(p, 64)];
		CUdeviceptr addr = atomic_exchange(slot, 0);

		if (addr) {
			hook_cuMemFree_v2(addr);
			if (pick(p, 8) == 0)
				hook_cuMemFree_v2(addr);
		} else if (hook_cuMemAlloc_v2(&addr, 1 + pick(p, 6 * MIB)) == CUDA_SUCCESS) {
			addr = atomic_exchange(slot, addr);
			if (addr)
				hook_cuMemFree_v2(addr);
		}
	}
	return NULL;
}

static void *make_contexts(void *arg)
{
	struct program *p = arg;

	for (int i = 0; i < STEPS / 4; i++)
		step_context(p);
	return NULL;
}

static void threads_that_free_twice(void)
{
	begin("region", "200m", 256 * MIB);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&world.programs[i].thread, NULL,
				     i ? free_twice : make_contexts, &world.programs[i]) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(world.programs[i].thread, NULL);
	check_books();
	for (int i = 0; i < 64; i++)
		if (shared_slots[i])
			hook_cuMemFree_v2(shared_slots[i]);
	check_books();
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
	CHECK(hook_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	CHECK_EQ(quota_used(dev0), 0);
}

static CUcontext shared_ctx;

static void destroy_shared_context(void)
{
	CHECK(hook_cuCtxDestroy_v2(shared_ctx) == CUDA_SUCCESS);
}

/* The context goes, and the memory with it, while that is being freed. */
static void frees_in_a_race_with_the_end_of_the_context(void)
{
	begin("region", "64m", 256 * MIB);
	CHECK(hook_cuCtxCreate_v2(&shared_ctx, 0, 0) == CUDA_SUCCESS);
	CHECK(hook_cuMemAlloc_v2(&shared_addr, 40 * MIB) == CUDA_SUCCESS);
	model_fail_next();
	model_after_next(destroy_shared_context);
	CHECK(hook_cuMemFree_v2(shared_addr) != CUDA_SUCCESS);
	check_books();
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
	finish();
}

/* Memory that ends by ways no hook sees, until its context goes. */
static void frees_that_nobody_saw(void)
{
	struct program *p = &world.programs[0];

	begin("region", "256m", 1024 * MIB);
	model_set_current(world.primary);
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 8; i++)
			pick(p, 4) ? step_alloc(p) : step_managed(p);
		for (int i = 0; i < 3 && p->addr_count; i++)
			model_free_unseen(p->addr[--p->addr_count]);
		for (int i = 0; i < 5; i++)
			step_free(p);
		/* Never less is charged than is held. */
		CHECK(quota_held(dev0, QUOTA_DATA) >=
		      model_look().blocks_bytes + model_look().managed_bytes);
	}
	p->addr_count = 0;
	CHECK(hook_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	check_books();
	CHECK_EQ(quota_used(dev0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(one_program),
		fresh_test(threads_under_a_tight_limit),
		fresh_test(threads_on_a_full_card),
		fresh_test(threads_with_modules_and_contexts),
		fresh_test(children_forked_in_the_middle),
		fresh_test(contexts_that_fail),
		fresh_test(a_context_is_refused_on_no_stale_figure),
		fresh_test(small_requests_go_one_at_a_time),
		fresh_test(maps_in_a_race_with_releases),
		fresh_test(retains_in_a_race_with_unmaps),
		fresh_test(releases_that_fail_in_a_race),
		fresh_test(threads_that_share_handles),
		fresh_test(frees_in_a_race_with_allocations),
		fresh_test(threads_that_free_twice),
		fresh_test(frees_in_a_race_with_the_end_of_the_context),
		fresh_test(frees_that_nobody_saw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
