#include "drv/gpu_move.h"

#include "failing_driver.h"
#include "moving.h"

#include <errno.h>
#include <limits.h>

#define MACHINE "mem=512m,context=8m"
/* Between the calls that fail. */
enum { OBJECTS = 3, STRIDE = BUILD_SANITIZED ? 9 : 1 };

/* Deadlines that a call which never answers meets soon. */
static const struct gpu_bo_setup impatient = {
	.still = { .shut_ns = 300 * NSEC_PER_MSEC, .done_ns = 300 * NSEC_PER_MSEC },
	.copy_ns = 300 * NSEC_PER_MSEC,
	.part_bytes = 2 * GRAIN,
};

static struct bo objects[OBJECTS];

/* Two side by side and one apart. */
static void make_objects(void)
{
	for (unsigned i = 0; i < OBJECTS; i++) {
		moving_make(&objects[i], (i < 2 ? i : 5) * GRAIN, GRAIN, BO_VRAM);
		moving_fill(&objects[i], i + 1);
	}
}

static int move_all(enum bo_place place)
{
	const struct bo_placement placement = { &moving_wants[place], 1 };
	struct bo *all[OBJECTS];
	struct bo_ctx ctx = { 0 };
	int rc;

	for (unsigned i = 0; i < OBJECTS; i++) {
		all[i] = &objects[i];
		CHECK_EQ(bo_reserve(&objects[i], NULL), 0);
	}
	rc = bo_validate_all(all, OBJECTS, &placement, &ctx);
	for (unsigned i = 0; i < OBJECTS; i++)
		bo_unreserve(&objects[i]);
	return rc;
}

/* The driver's own word for where it lies, and the bytes, brought to where they can be seen. */
static void check_whole(unsigned i)
{
	unsigned long long flags = 0;
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	CUresult res = cuMemGetAccess(&flags, &here, objects[i].addr);

	if (objects[i].place == BO_SYSTEM) {
		CHECK_EQ(res, CUDA_ERROR_INVALID_VALUE);
		CHECK_EQ(moving_put_at_last(&objects[i], BO_VRAM), 0);
	} else {
		CHECK_EQ(res, CUDA_SUCCESS);
		CHECK_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	}
	CHECK(moving_holds(&objects[i], i + 1));
}

/* As move_all(), with more patience than the owner has. How many calls the last attempt made. */
static unsigned move_at_last(enum bo_place place)
{
	int rc = -EBUSY;

	for (int i = 0; i < 100 && rc == -EBUSY; i++) {
		failing_none();
		rc = move_all(place);
	}
	CHECK_EQ(rc, 0);
	return failing.calls;
}

/* All of them in one place, nothing failing. */
static void settle(enum bo_place place)
{
	move_at_last(place);
	for (unsigned i = 0; i < OBJECTS; i++)
		CHECK_EQ(objects[i].place, place);
}

static void no_gate_is_shut(void)
{
	CHECK_EQ(gate_close(0), 0);
	gate_open();
}

/* How many calls a move of all of them makes, once streams and events are there. */
static unsigned calls_of(enum bo_place from, enum bo_place to)
{
	unsigned calls;

	settle(from);
	settle(to);
	settle(from);
	calls = move_at_last(to);
	CHECK(calls > 4);
	return calls;
}

static const enum bo_place ways[][2] = {
	{ BO_VRAM, BO_GTT },    { BO_GTT, BO_VRAM },   { BO_VRAM, BO_SYSTEM },
	{ BO_SYSTEM, BO_VRAM }, { BO_SYSTEM, BO_GTT }, { BO_GTT, BO_SYSTEM },
};
enum { WAYS = sizeof(ways) / sizeof(*ways) };

/* How many of the moves failed; some calls are made again or done without. */
static unsigned fail_each(enum bo_place from, enum bo_place to, CUresult res, unsigned at_once)
{
	unsigned calls = calls_of(from, to), failed = 0;

	for (unsigned k = 1; k <= calls + 2; k += STRIDE) {
		settle(from);
		failing_from(k, k + at_once - 1, res);
		failed += move_all(to) < 0;
		failing_none();
		no_gate_is_shut();
		for (unsigned i = 0; i < OBJECTS; i++) {
			CHECK(!objects[i].is_lost);
			CHECK(objects[i].place == from || objects[i].place == to);
			check_whole(i);
		}
	}
	CHECK(failed > 0 || STRIDE > 1);
	return failed;
}

static void each_call_failing_leaves_all_whole(void)
{
	unsigned failed = 0;

	moving_start(MACHINE, &impatient, 8 * GRAIN);
	make_objects();
	failing_start();
	for (unsigned w = 0; w < WAYS; w++)
		failed += fail_each(ways[w][0], ways[w][1],
				    w % 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN, 1);
	/* Two in a row: what undoes a failure fails once too. */
	failed += fail_each(BO_VRAM, BO_GTT, CUDA_ERROR_OUT_OF_MEMORY, 2);
	CHECK(failed > 0);
	for (unsigned i = 0; i < OBJECTS; i++)
		bo_put(&objects[i]);
	CHECK_EQ(bo_device_fini(&gpu.device), 0);
}

/* The driver without events of whole contexts. */
static void each_call_failing_with_an_older_driver(void)
{
	moving_start(MACHINE, &impatient, 8 * GRAIN);
	real.cuCtxRecordEvent = NULL;
	make_objects();
	failing_start();
	fail_each(BO_VRAM, BO_GTT, CUDA_ERROR_OUT_OF_MEMORY, 1);
	fail_each(BO_SYSTEM, BO_VRAM, CUDA_ERROR_UNKNOWN, 1);
}

/* From one call on nothing works until the move is over: the undo fails too. */
static void what_cannot_be_undone_is_lost(void)
{
	unsigned calls, lost = 0;

	moving_start(MACHINE, &impatient, 8 * GRAIN);
	make_objects();
	failing_start();
	calls = calls_of(BO_VRAM, BO_GTT);
	for (unsigned k = 1; k <= calls; k++) {
		settle(BO_VRAM);
		failing_from(k, UINT_MAX, CUDA_ERROR_OUT_OF_MEMORY);
		move_all(BO_GTT);
		failing_none();
		no_gate_is_shut();
		for (unsigned i = 0; i < OBJECTS; i++) {
			if (!objects[i].is_lost) {
				check_whole(i);
				continue;
			}
			lost++;
			CHECK_EQ(objects[i].place, BO_NONE);
			CHECK(gpu_bo_is_lost(gpu.owner));
			/* The address may be given again. */
			bo_put(&objects[i]);
			moving_make(&objects[i], objects[i].addr - gpu.start, GRAIN, BO_VRAM);
			moving_fill(&objects[i], i + 1);
		}
	}
	CHECK(lost > 0);
}

static bool is_hung;

static CUresult query_hung(CUstream stream)
{
	return is_hung ? CUDA_ERROR_NOT_READY : failing.real.cuStreamQuery(stream);
}

static CUresult query_event_hung(CUevent event)
{
	return is_hung ? CUDA_ERROR_NOT_READY : failing.real.cuEventQuery(event);
}

static void hung_copies_leave_all_where_it_was(void)
{
	uint64_t free_bytes;

	moving_start(MACHINE, &impatient, 8 * GRAIN);
	free_bytes = sim_gpu_free_bytes();
	make_objects();
	failing_start();
	real.cuStreamQuery = query_hung;
	real.cuEventQuery = query_event_hung;
	for (unsigned w = 0; w < 4; w++) {
		settle(ways[w][0]);
		is_hung = true;
		CHECK_EQ(move_all(ways[w][1]), -EBUSY);
		no_gate_is_shut();
		CHECK_EQ(move_all(ways[w][1]), -EBUSY);
		is_hung = false;
		move_at_last(ways[w][1]);
		for (unsigned i = 0; i < OBJECTS; i++) {
			CHECK_EQ(objects[i].place, ways[w][1]);
			check_whole(i);
		}
	}
	/* One whose memory stays the same moves no more than the others. */
	settle(BO_VRAM);
	CHECK_EQ(moving_put_at_last(&objects[0], BO_SYSTEM), 0);
	is_hung = true;
	CHECK_EQ(move_all(BO_GTT), -EBUSY);
	CHECK_EQ(objects[0].place, BO_SYSTEM);
	CHECK_EQ(objects[1].place, BO_VRAM);
	is_hung = false;
	move_at_last(BO_GTT);
	for (unsigned i = 0; i < OBJECTS; i++) {
		check_whole(i);
		bo_put(&objects[i]);
	}
	CHECK_EQ(bo_device_fini(&gpu.device), 0);
	CHECK_EQ(sim_gpu_free_bytes(), free_bytes);
}

static CUresult create_on_devices(CUmemGenericAllocationHandle *out_handle, size_t bytes,
				  const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return cuMemCreate(out_handle, bytes, prop, flags);
}

static void take_host_memory_away(void)
{
	real.cuMemCreate = create_on_devices;
}

/* Without host memory that the device can map. */
static void pages_take_the_place_of_host_memory(void)
{
	gpu.before_open = take_host_memory_away;
	moving_start(MACHINE, &impatient, 8 * GRAIN);
	make_objects();
	CHECK(!gpu_bo_has_gtt(gpu.owner));
	CHECK_EQ(move_all(BO_GTT), -ENOMEM);
	failing_start();
	fail_each(BO_VRAM, BO_SYSTEM, CUDA_ERROR_OUT_OF_MEMORY, 1);
	fail_each(BO_SYSTEM, BO_VRAM, CUDA_ERROR_OUT_OF_MEMORY, 1);
	for (unsigned i = 0; i < OBJECTS; i++)
		bo_put(&objects[i]);
	CHECK_EQ(bo_device_fini(&gpu.device), 0);
}

static CUresult unmap_one(CUdeviceptr addr, size_t bytes)
{
	return bytes == GRAIN ? cuMemUnmap(addr, bytes) : CUDA_ERROR_INVALID_VALUE;
}

/* A driver that takes one mapping away at a time. */
static void neighbours_go_one_by_one_if_need_be(void)
{
	moving_start(MACHINE, &impatient, 8 * GRAIN);
	real.cuMemUnmap = unmap_one;
	make_objects();
	failing_start();
	for (unsigned w = 0; w < WAYS; w++) {
		settle(ways[w][0]);
		settle(ways[w][1]);
		for (unsigned i = 0; i < OBJECTS; i++)
			check_whole(i);
	}
	fail_each(BO_VRAM, BO_GTT, CUDA_ERROR_UNKNOWN, 1);
}

static CUresult reserve_large(CUdeviceptr *out_addr, size_t bytes, size_t align, CUdeviceptr hint,
			      unsigned long long flags)
{
	return bytes == GRAIN ? CUDA_ERROR_OUT_OF_MEMORY :
				cuMemAddressReserve(out_addr, bytes, align, hint, flags);
}

static bool has_own_address(const struct bo *bo)
{
	return ((const struct gpu_chunk *)(uintptr_t)bo->memory.handle)->addr;
}

/* Host memory that got no address of its own is mapped for each move. */
static void an_alias_takes_the_place_of_an_address(void)
{
	moving_start(MACHINE, &impatient, 8 * GRAIN);
	real.cuMemAddressReserve = reserve_large;
	make_objects();
	failing_start();
	settle(BO_GTT);
	for (unsigned i = 0; i < OBJECTS; i++)
		CHECK(!has_own_address(&objects[i]));
	for (unsigned w = 0; w < 4; w++)
		fail_each(ways[w][0], ways[w][1], CUDA_ERROR_OUT_OF_MEMORY, 1);
	for (unsigned i = 0; i < OBJECTS; i++)
		bo_put(&objects[i]);
	CHECK_EQ(bo_device_fini(&gpu.device), 0);
}

static bool may_reserve_small;

static CUresult reserve_some(CUdeviceptr *out_addr, size_t bytes, size_t align, CUdeviceptr hint,
			     unsigned long long flags)
{
	may_reserve_small = !may_reserve_small;
	return may_reserve_small ? cuMemAddressReserve(out_addr, bytes, align, hint, flags) :
				   reserve_large(out_addr, bytes, align, hint, flags);
}

/* In one move some have an address and some have none. */
static void both_go_in_one_move(void)
{
	unsigned own = 0;

	moving_start(MACHINE, &impatient, 8 * GRAIN);
	real.cuMemAddressReserve = reserve_some;
	make_objects();
	failing_start();
	settle(BO_SYSTEM);
	for (unsigned i = 0; i < OBJECTS; i++)
		own += has_own_address(&objects[i]);
	CHECK(own > 0 && own < OBJECTS);
	fail_each(BO_SYSTEM, BO_VRAM, CUDA_ERROR_UNKNOWN, 1);
	fail_each(BO_VRAM, BO_SYSTEM, CUDA_ERROR_UNKNOWN, 1);
}

static void context_anew(void)
{
	gpu_fence_ending(gpu.ctx);
	SIM_OK(cuDevicePrimaryCtxReset_v2(0));
	gpu_fence_ended(gpu.ctx, true);
	SIM_OK(cuDevicePrimaryCtxRetain(&gpu.ctx, 0));
	SIM_OK(cuCtxSetCurrent(gpu.ctx));
	gpu_fence_add_context(gpu.ctx, ord0, true);
}

/* A context ends, and the driver takes away what was mapped at addresses of ours. */
static void a_context_that_ends_takes_addresses_with_it(void)
{
	moving_start(MACHINE, &impatient, 8 * GRAIN);
	make_objects();
	settle(BO_SYSTEM);
	context_anew();
	for (unsigned i = 0; i < OBJECTS; i++) {
		struct gpu_chunk *chunk = (struct gpu_chunk *)(uintptr_t)objects[i].memory.handle;

		CHECK(chunk->addr);
		SIM_OK(cuMemUnmap(chunk->addr, GRAIN));
	}
	failing_start();
	for (unsigned round = 0; round < 2; round++) {
		settle(BO_VRAM);
		for (unsigned i = 0; i < OBJECTS; i++)
			check_whole(i);
		settle(round ? BO_GTT : BO_SYSTEM);
		for (unsigned i = 0; i < OBJECTS; i++)
			CHECK(has_own_address(&objects[i]));
	}
	for (unsigned i = 0; i < OBJECTS; i++)
		check_whole(i);
}

static bool is_out_of_host;

static CUresult create_while_there_is(CUmemGenericAllocationHandle *out_handle, size_t bytes,
				      const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (is_out_of_host && prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return cuMemCreate(out_handle, bytes, prop, flags);
}

static void pages_take_its_place_when_it_is_out(void)
{
	moving_start(MACHINE, &impatient, 8 * GRAIN);
	real.cuMemCreate = create_while_there_is;
	make_objects();
	is_out_of_host = true;
	CHECK_EQ(move_all(BO_GTT), -ENOMEM);
	settle(BO_SYSTEM);
	CHECK_EQ(moving_put_at_last(&objects[0], BO_VRAM), 0);
	CHECK(moving_holds(&objects[0], 1));
	/* From pages to memory that can be mapped, and then it stays the same. */
	is_out_of_host = false;
	settle(BO_GTT);
	for (unsigned i = 0; i < OBJECTS; i++)
		CHECK(moving_holds(&objects[i], i + 1));
	is_out_of_host = true;
	settle(BO_SYSTEM);
	settle(BO_GTT);
	for (unsigned i = 0; i < OBJECTS; i++)
		check_whole(i);
}

/* Reservations and mappings that there are, by the driver's answers. */
static struct {
	struct real real;
	uint64_t reserved_bytes;
	int64_t mapped_bytes;
} counted;

static CUresult reserve_counted(CUdeviceptr *out_addr, size_t bytes, size_t align, CUdeviceptr hint,
				unsigned long long flags)
{
	CUresult res = counted.real.cuMemAddressReserve(out_addr, bytes, align, hint, flags);

	counted.reserved_bytes += res == CUDA_SUCCESS ? bytes : 0;
	return res;
}

static CUresult free_counted(CUdeviceptr addr, size_t bytes)
{
	CUresult res = counted.real.cuMemAddressFree(addr, bytes);

	counted.reserved_bytes -= res == CUDA_SUCCESS ? bytes : 0;
	return res;
}

static CUresult map_counted(CUdeviceptr addr, size_t bytes, size_t offset,
			    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult res = counted.real.cuMemMap(addr, bytes, offset, handle, flags);

	counted.mapped_bytes += res == CUDA_SUCCESS ? (int64_t)bytes : 0;
	return res;
}

static CUresult unmap_counted(CUdeviceptr addr, size_t bytes)
{
	CUresult res = counted.real.cuMemUnmap(addr, bytes);

	counted.mapped_bytes -= res == CUDA_SUCCESS ? (int64_t)bytes : 0;
	return res;
}

static void count_mappings(void)
{
	counted.real = real;
	real.cuMemAddressReserve = reserve_counted;
	real.cuMemAddressFree = free_counted;
	real.cuMemMap = map_counted;
	real.cuMemUnmap = unmap_counted;
}

enum { MANY = 6, ROUNDS = BUILD_SANITIZED ? 30 : 200 };

static unsigned seed = 7;

static unsigned dice(unsigned sides)
{
	return (unsigned)rand_r(&seed) % sides;
}

/* Some of them, together, with one call failing or none, or copies that hang. */
static void move_some(struct bo *many)
{
	static const CUresult errors[] = { CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN,
					   CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE };
	enum bo_place place = BO_VRAM + dice(3);
	const struct bo_placement placement = { &moving_wants[place], 1 };
	struct bo *some[MANY];
	struct bo_ctx ctx = { 0 };
	unsigned count = 0, at = 1 + dice(40);

	for (unsigned i = 0; i < MANY; i++)
		if (dice(2)) {
			some[count++] = &many[i];
			CHECK_EQ(bo_reserve(&many[i], NULL), 0);
		}
	is_hung = dice(30) == 0;
	if (dice(3))
		failing_from(at, at, errors[dice(4)]);
	bo_validate_all(some, count, &placement, &ctx);
	failing_none();
	is_hung = false;
	while (count)
		bo_unreserve(some[--count]);
}

/* What is left when it is over is what was there before, whatever failed on the way. */
static void nothing_is_lost_or_left_over(void)
{
	uint64_t free_bytes;
	struct bo many[MANY];

	moving_start(MACHINE, &impatient, 4 * MANY * GRAIN);
	free_bytes = sim_gpu_free_bytes();
	count_mappings();
	failing_start();
	real.cuStreamQuery = query_hung;
	real.cuEventQuery = query_event_hung;
	for (unsigned i = 0; i < MANY; i++) {
		moving_make(&many[i], 3 * i * GRAIN, (1 + i % 3) * GRAIN, BO_VRAM);
		moving_fill(&many[i], i + 1);
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		move_some(many);
		no_gate_is_shut();
		for (unsigned i = 0; i < MANY; i++) {
			CHECK(!many[i].is_lost && many[i].place != BO_NONE);
			CHECK(many[i].place == BO_SYSTEM || moving_holds(&many[i], i + 1));
		}
		if (dice(10) == 0)
			gpu_bo_trim(gpu.owner, dice(8) * GRAIN);
		if (dice(30) == 0)
			context_anew();
	}
	for (unsigned i = 0; i < MANY; i++) {
		CHECK_EQ(moving_put_at_last(&many[i], BO_VRAM), 0);
		CHECK(moving_holds(&many[i], i + 1));
		bo_put(&many[i]);
	}
	CHECK_EQ(bo_device_fini(&gpu.device), 0);
	gpu_bo_trim(gpu.owner, 0);
	CHECK_EQ(counted.mapped_bytes, 0);
	CHECK_EQ(sim_gpu_free_bytes(), free_bytes);
	CHECK_EQ(counted.reserved_bytes, 0);
}

struct death {
	enum bo_place from, to;
	unsigned at; /* the call before which it comes */
};

static void die_in_a_move(void *arg)
{
	const struct death *death = arg;

	moving_start(MACHINE, &impatient, 8 * GRAIN);
	make_objects();
	failing_start();
	calls_of(death->from, death->to);
	settle(death->from);
	failing_none();
	failing.kill_at = death->at;
	move_all(death->to);
}

static void nothing_is_left(void *arg)
{
	size_t free_bytes, total_bytes;

	(void)arg;
	sim_gpu_start(MACHINE);
	SIM_OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	CHECK_EQ(total_bytes - free_bytes, 8 * MIB);
}

/* kill -9 before each call of the driver that a move makes. */
static void a_death_leaves_nothing_behind(void **state)
{
	static const enum bo_place both[][2] = { { BO_VRAM, BO_GTT }, { BO_SYSTEM, BO_VRAM } };

	(void)state;
	for (unsigned w = 0; w < 2; w++) {
		struct death death = { both[w][0], both[w][1], 0 };
		int status;

		do {
			struct child c;

			death.at += STRIDE;
			c = child_start(die_in_a_move, &death);
			status = child_status(&c);
			assert_true(status == 0 || status == 128 + SIGKILL);
			child_run(nothing_is_left, NULL);
		} while (status != 0);
		assert_true(death.at > 5 * STRIDE || STRIDE > 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(each_call_failing_leaves_all_whole),
		fresh_test(each_call_failing_with_an_older_driver),
		fresh_test(what_cannot_be_undone_is_lost),
		fresh_test(hung_copies_leave_all_where_it_was),
		fresh_test(pages_take_the_place_of_host_memory),
		fresh_test(pages_take_its_place_when_it_is_out),
		fresh_test(neighbours_go_one_by_one_if_need_be),
		fresh_test(an_alias_takes_the_place_of_an_address),
		fresh_test(both_go_in_one_move),
		fresh_test(a_context_that_ends_takes_addresses_with_it),
		fresh_test(nothing_is_lost_or_left_over),
		scratch_test(a_death_leaves_nothing_behind),
	};

	return cmocka_run_group_tests_name("gpu_move", tests, NULL, NULL);
}
