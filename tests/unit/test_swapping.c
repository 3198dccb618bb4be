/*
 * Objects that come into the memory that others leave (core/bo_swap.h), on the software GPU: what
 * the driver is asked for, and what is left when something fails.
 */
#include "core/bo_swap.h"

#include "core/bo_batch.h"
#include "core/bo_device.h"
#include "failing_driver.h"
#include "moving.h"

#include <errno.h>

#define MACHINE "mem=512m,context=8m"
enum { COUNT = 6, MANY = 70, STRIDE = BUILD_SANITIZED ? 9 : 1 };

/*
 * Parts of two objects where others come, so that three of each kind are under way in turn. Copies
 * that hang are given up soon; what only takes its time on a busy machine is not.
 */
#define SETUP(wait_ns)                                                                   \
	{                                                                                \
		.still = { .shut_ns = wait_ns, .done_ns = wait_ns }, .copy_ns = wait_ns, \
		.part_bytes = 8 * GRAIN, .most_steps = 24, .keep_bytes = UINT64_MAX,     \
	}
static const struct gpu_bo_setup impatient = SETUP(300 * NSEC_PER_MSEC);
static const struct gpu_bo_setup patient = SETUP(100 * NSEC_PER_SEC);

/* The first half lies in one place, the others in the other. */
static struct {
	struct bo objects[2 * MANY];
	struct bo_swap near[MANY], far[MANY];
	unsigned count; /* of each half */
} s;

static void start_with(const struct gpu_bo_setup *setup, unsigned count)
{
	s.count = count;
	moving_start(MACHINE, setup, 4 * MANY * GRAIN);
	bo_device_set_limit(&gpu.device, BO_VRAM, count * GRAIN);
	for (unsigned i = 0; i < 2 * count; i++) {
		/* Some side by side and some apart. */
		moving_make(&s.objects[i], (i + i / 3) * GRAIN, GRAIN,
			    i < count ? BO_VRAM : BO_GTT);
		moving_fill(&s.objects[i], i + 1);
	}
}

static void start(unsigned count)
{
	start_with(&patient, count);
}

static void list_all(void)
{
	unsigned near = 0, far = 0;

	for (unsigned i = 0; i < 2 * s.count; i++) {
		struct bo *bo = &s.objects[i];

		if (bo->place == BO_VRAM)
			s.near[near++] = (struct bo_swap){ .bo = bo };
		else
			s.far[far++] = (struct bo_swap){ .bo = bo };
	}
	CHECK_EQ(near, s.count);
}

/* What lies near goes and all else comes. */
static int turn(const struct bo_patience *patience)
{
	list_all();
	return bo_swap(&gpu.device, s.near, s.count, s.far, s.count, patience);
}

/* All whole, and no more near than may be. How many are near. */
static unsigned check_all(void)
{
	unsigned near = 0;

	for (unsigned i = 0; i < 2 * s.count; i++) {
		const struct bo *bo = &s.objects[i];

		CHECK(!bo->is_lost);
		CHECK(bo->place == BO_VRAM || bo->place == BO_GTT);
		CHECK(moving_holds(bo, i + 1));
		near += bo->place == BO_VRAM;
	}
	CHECK(near <= s.count);
	CHECK_EQ(bo_device_used(&gpu.device, BO_VRAM), near * GRAIN);
	CHECK_EQ(gate_close(0), 0);
	gate_open();
	return near;
}

/* As many near as there may be, nothing failing. */
static void fill_up(void)
{
	failing_none();
	for (unsigned i = 0;
	     i < 2 * s.count && bo_device_used(&gpu.device, BO_VRAM) < s.count * GRAIN; i++)
		CHECK_EQ(moving_put_at_last(&s.objects[i], BO_VRAM), 0);
	CHECK_EQ(check_all(), s.count);
}

static void end(uint64_t free_bytes)
{
	/* Copies that hung let go with the next move. */
	CHECK_EQ(moving_put_at_last(&s.objects[0], BO_SYSTEM), 0);
	CHECK_EQ(moving_put_at_last(&s.objects[0], BO_GTT), 0);
	for (unsigned i = 0; i < 2 * s.count; i++) {
		CHECK(moving_holds(&s.objects[i], i + 1));
		bo_put(&s.objects[i]);
	}
	CHECK_EQ(bo_device_fini(&gpu.device), 0);
	gpu_bo_trim(gpu.owner, 0);
	CHECK_EQ(sim_gpu_free_bytes(), free_bytes);
}

static unsigned created, released;

static CUresult create_counted(CUmemGenericAllocationHandle *out_handle, size_t bytes,
			       const CUmemAllocationProp *prop, unsigned long long flags)
{
	created++;
	return cuMemCreate(out_handle, bytes, prop, flags);
}

static CUresult release_counted(CUmemGenericAllocationHandle handle)
{
	released++;
	return cuMemRelease(handle);
}

/* Once there is host memory at hand for what goes first. */
static void the_driver_makes_and_releases_nothing(void)
{
	uint64_t free_bytes;

	start(COUNT);
	free_bytes = sim_gpu_free_bytes() + COUNT * GRAIN;
	real.cuMemCreate = create_counted;
	real.cuMemRelease = release_counted;
	CHECK_EQ(turn(NULL), 0);
	CHECK_EQ(created, COUNT);
	CHECK_EQ(released, 0);
	for (unsigned round = 0; round < 20; round++) {
		CHECK_EQ(turn(NULL), 0);
		for (unsigned i = 0; i < s.count; i++)
			CHECK(s.near[i].rc == 0 && s.far[i].rc == 0);
		CHECK_EQ(check_all(), COUNT);
	}
	CHECK_EQ(created, COUNT);
	CHECK_EQ(released, 0);
	end(free_bytes);
}

/* More than the driver's side has in hand at once. */
static void there_may_be_many(void)
{
	start(MANY);
	for (unsigned round = 0; round < 3; round++) {
		CHECK_EQ(turn(NULL), 0);
		for (unsigned i = 0; i < s.count; i++)
			CHECK(s.near[i].rc == 0 && s.far[i].rc == 0);
		CHECK_EQ(check_all(), MANY);
	}
}

static void each_call_failing_leaves_all_whole(void)
{
	unsigned calls, failed = 0;

	/* Some failures are those of what tells that a copy is done. */
	start_with(&impatient, COUNT);
	failing_start();
	CHECK_EQ(turn(NULL), 0);
	failing_none();
	CHECK_EQ(turn(NULL), 0);
	calls = failing.calls;
	CHECK(calls > 6 * COUNT);
	for (unsigned at_once = 1; at_once <= 2; at_once++)
		for (unsigned k = 1; k <= calls + 2; k += STRIDE) {
			fill_up();
			failing_from(k, k + at_once - 1,
				     k % 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN);
			turn(NULL);
			failing_none();
			for (unsigned i = 0; i < s.count; i++) {
				CHECK_EQ(s.near[i].rc == 0, s.near[i].bo->place == BO_GTT);
				CHECK_EQ(s.far[i].rc == 0, s.far[i].bo->place == BO_VRAM);
				failed += s.near[i].rc < 0;
			}
			check_all();
		}
	CHECK(failed > 0 || STRIDE > 1);
}

static bool is_hung;
static unsigned queries_left; /* until it hangs */

static CUresult query_hung(CUevent event)
{
	if (is_hung && queries_left == 0)
		return CUDA_ERROR_NOT_READY;
	queries_left -= queries_left > 0;
	return failing.real.cuEventQuery(event);
}

static CUresult query_stream_hung(CUstream stream)
{
	return is_hung && queries_left == 0 ? CUDA_ERROR_NOT_READY :
					      failing.real.cuStreamQuery(stream);
}

/* From one question on, whatever is under way then. */
static void copies_that_hang_keep_what_they_use(void)
{
	uint64_t free_bytes;
	unsigned hung = 0;

	start_with(&impatient, COUNT);
	free_bytes = sim_gpu_free_bytes() + COUNT * GRAIN;
	failing_start();
	real.cuEventQuery = query_hung;
	real.cuStreamQuery = query_stream_hung;
	for (unsigned k = 0; k < 14; k += BUILD_SANITIZED ? 5 : 1) {
		fill_up();
		is_hung = true;
		queries_left = k;
		turn(NULL);
		for (unsigned i = 0; i < s.count; i++)
			hung += s.near[i].rc == -EBUSY || s.far[i].rc == -EBUSY;
		CHECK_EQ(gate_close(0), 0);
		gate_open();
		is_hung = false;
		/* What they held is free again with the next move. */
		fill_up();
	}
	CHECK(hung > 0);
	fill_up();
	end(free_bytes);
}

static unsigned copies, answers;

static CUresult copy_counted(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	copies++;
	return cuMemcpyAsync(to, from, bytes, stream);
}

/* The first part's two events are done; the others not before eight objects are on their way. */
static CUresult query_in_turn(CUevent event)
{
	CUresult res = answers >= 2 && copies < 8 ? CUDA_ERROR_NOT_READY : cuEventQuery(event);

	/* Before that all had to stand still. */
	answers += copies && res == CUDA_SUCCESS;
	return res;
}

/* With three parts of two: the third leaves while the second does, and the first comes. */
static void one_part_comes_while_the_next_leaves(void)
{
	unsigned number[COUNT], added[] = { 0, 0 };
	struct bo_batch batch;

	start(COUNT);
	CHECK_EQ(turn(NULL), 0);
	list_all();
	real.cuMemcpyAsync = copy_counted;
	real.cuEventQuery = query_in_turn;
	bo_batch_init(&batch, &gpu.device);
	for (const char *c = "ooooiiooiiii"; *c; c++) {
		struct bo_swap *one = *c == 'o' ? &s.near[added[0]] : &s.far[added[1]];
		struct bo_memory memory;
		uint64_t gains;

		CHECK_EQ(bo_reserve(one->bo, &(struct bo_ctx){ .no_wait = true }), 0);
		CHECK(bo_batch_has_room(&batch));
		if (*c == 'o') {
			CHECK_EQ(bo_device_take(one->bo, BO_GTT, &memory, &gains), 0);
			number[added[0]++] = batch.count;
			bo_batch_add(&batch, one->bo, BO_GTT, memory);
		} else {
			bo_batch_add_heir(&batch, one->bo, number[added[1]++]);
		}
	}
	CHECK_EQ(bo_batch_run(&batch), 2 * COUNT * GRAIN);
	bo_batch_fini(&batch);
	for (unsigned i = 0; i < COUNT; i++) {
		bo_unreserve(s.near[i].bo);
		bo_unreserve(s.far[i].bo);
	}
	CHECK_EQ(check_all(), COUNT);
}

struct clerk {
	unsigned left;
};

static bool asks(void *arg)
{
	struct clerk *clerk = arg;

	return clerk->left == 0 || clerk->left-- == 0;
}

/* A turn that is over when that was asked `left` times: how many have left. */
static unsigned turn_until(unsigned left)
{
	struct clerk clerk = { left };
	struct bo_patience patience = { .work_ns = 100 * NSEC_PER_SEC,
					.is_over = asks,
					.arg = &clerk };
	unsigned gone = 0;

	if (turn(&patience) == 0)
		for (unsigned i = 0; i < s.count; i++)
			gone += s.near[i].rc == 0;
	CHECK_EQ(check_all(), COUNT);
	return gone;
}

/* What has left by then makes room for as many, and nothing more leaves. */
static void when_it_is_over_no_more_leaves(void)
{
	unsigned most = 0, part_way = 0, gone;

	start(COUNT);
	CHECK_EQ(turn(NULL), 0);
	/* The slower the copies, the more often it is asked meanwhile. */
	for (unsigned asked = 4 * COUNT; most < COUNT || part_way == 0; asked *= 2)
		for (unsigned k = 0; k < asked; k++) {
			gone = turn_until(k);
			part_way += gone > 0 && gone < COUNT;
			most = gone > most ? gone : most;
		}
}

static unsigned seed = 5;

static unsigned dice(unsigned sides)
{
	return (unsigned)rand_r(&seed) % sides;
}

/* Goers and heirs in any order that is allowed: how many there are. Who has no heir goes alone. */
static void add_some(struct bo_batch *batch, struct bo **near, struct bo **far)
{
	unsigned goers = 0, heirs = 0, number[COUNT];

	while (goers < COUNT || heirs < COUNT) {
		CHECK(bo_batch_has_room(batch));
		if (goers < COUNT && (heirs == goers || dice(2))) {
			struct bo_memory memory;
			uint64_t gains;

			CHECK_EQ(bo_device_take(near[goers], BO_GTT, &memory, &gains), 0);
			number[goers] = batch->count;
			bo_batch_add(batch, near[goers++], BO_GTT, memory);
		} else if (dice(8)) {
			bo_batch_add_heir(batch, far[heirs], number[heirs]);
			heirs++;
		} else {
			heirs++;
		}
	}
}

/* Any order and any failure: what is left of memory is what the objects have. */
static void in_any_order(void)
{
	static const CUresult errors[] = { CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN,
					   CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE };
	uint64_t free_bytes;

	start_with(&impatient, COUNT);
	free_bytes = sim_gpu_free_bytes() + COUNT * GRAIN;
	failing_start();
	real.cuEventQuery = query_hung;
	real.cuStreamQuery = query_stream_hung;
	for (unsigned round = 0; round < (BUILD_SANITIZED ? 30 : 300); round++) {
		struct bo *near[COUNT], *far[COUNT];
		struct bo_batch batch;
		unsigned at = 1 + dice(80);

		fill_up();
		list_all();
		for (unsigned i = 0; i < COUNT; i++) {
			near[i] = s.near[i].bo;
			far[i] = s.far[i].bo;
			CHECK_EQ(bo_reserve(near[i], &(struct bo_ctx){ .no_wait = true }), 0);
			CHECK_EQ(bo_reserve(far[i], &(struct bo_ctx){ .no_wait = true }), 0);
		}
		bo_batch_init(&batch, &gpu.device);
		add_some(&batch, near, far);
		if (dice(3))
			failing_from(at, at, errors[dice(4)]);
		is_hung = dice(30) == 0;
		queries_left = dice(8);
		bo_batch_run(&batch);
		failing_none();
		is_hung = false;
		bo_batch_fini(&batch);
		for (unsigned i = 0; i < COUNT; i++) {
			bo_unreserve(near[i]);
			bo_unreserve(far[i]);
		}
		check_all();
	}
	fill_up();
	end(free_bytes);
}

static void die_in_a_turn(void *arg)
{
	const unsigned *at = arg;

	start(COUNT);
	failing_start();
	CHECK_EQ(turn(NULL), 0);
	failing_none();
	failing.kill_at = *at;
	turn(NULL);
}

static void nothing_is_left(void *arg)
{
	(void)arg;
	sim_gpu_start(MACHINE);
	CHECK_EQ(sim_gpu_free_bytes(), (512 - 8) * MIB);
}

/* kill -9 before some of the driver's calls: while one part leaves, another comes. */
static void a_death_leaves_nothing_behind(void **state)
{
	unsigned at = 0;
	int status;

	(void)state;
	do {
		struct child c;

		at += 3 * STRIDE;
		c = child_start(die_in_a_turn, &at);
		status = child_status(&c);
		assert_true(status == 0 || status == 128 + SIGKILL);
		child_run(nothing_is_left, NULL);
	} while (status != 0);
	assert_true(at > 6 * COUNT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(the_driver_makes_and_releases_nothing),
		fresh_test(there_may_be_many),
		fresh_test(each_call_failing_leaves_all_whole),
		fresh_test(copies_that_hang_keep_what_they_use),
		fresh_test(one_part_comes_while_the_next_leaves),
		fresh_test(when_it_is_over_no_more_leaves),
		fresh_test(in_any_order),
		scratch_test(a_death_leaves_nothing_behind),
	};

	return cmocka_run_group_tests_name("swapping", tests, NULL, NULL);
}
