#include "hook/again.h"

#include "check.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUNCTION ((CUfunction)(uintptr_t)0x1000)
#define STREAM ((CUstream)(uintptr_t)0x2000)
#define CTX ((CUcontext)(uintptr_t)0x300)

struct real real;

static CUcontext current;
static struct again places[AGAIN_PLACES];
static struct meter_thread thread;
static struct lane lane;
static struct means_entry entry;

static CUresult get_current(CUcontext *out_ctx)
{
	*out_ctx = current;
	return CUDA_SUCCESS;
}

/* One launch was found out about: 10 us of the 100 that the thread may submit. */
static struct work_call keep(void)
{
	struct work_call call = work_kernel(STREAM, false, FUNCTION, 64);

	real.cuCtxGetCurrent = get_current;
	current = CTX;
	again_init();
	again_clear(places);
	again_places = places;
	thread = (struct meter_thread){ .grant_ns = 100000, .id = 1 };
	lane = (struct lane){ .owner = 1, .due_ns = INT64_MAX };
	entry = (struct means_entry){ .key = work_call_kind(&call),
				      .mean_ns = 10000,
				      .samples = 1 };
	*again_place(&call) = (struct again){ .what = call.what,
					      .amount = call.amount,
					      .stream = STREAM,
					      .epoch = again_epoch(),
					      .thread = &thread,
					      .lane = &lane,
					      .entry = &entry,
					      .kind = entry.key,
					      .ctx = CTX };
	return call;
}

/* One that is like it and may go, and goes; else NULL. */
static struct again *begin(const struct work_call *call, int64_t *out_cost_ns)
{
	struct again *like = again_find(call);

	if (!like || !again_may_go(like, out_cost_ns))
		return NULL;
	again_begin(like, *out_cost_ns);
	return like;
}

static bool is_found(const struct work_call *call)
{
	int64_t cost_ns;

	return begin(call, &cost_ns) != NULL;
}

static void a_launch_like_the_last_is_counted(void **unused)
{
	struct work_call call = keep();
	int64_t cost_ns = 0;
	struct again *like = begin(&call, &cost_ns);

	(void)unused;
	assert_non_null(like);
	assert_int_equal(cost_ns, 10000);
	assert_int_equal(thread.grant_ns, 90000);
	again_end(like, cost_ns);
	assert_int_equal(lane.launches, 1);
	assert_int_equal(lane.cost_ns, 10000);
}

static void what_was_granted_is_all_that_goes(void **unused)
{
	struct work_call call = keep();

	(void)unused;
	for (int i = 0; i < 10; i++)
		assert_true(is_found(&call));
	assert_false(is_found(&call));
	assert_int_equal(thread.grant_ns, 0);
}

static void another_launch_is_not_like_it(void **unused)
{
	struct work_call call = keep(), other;

	(void)unused;
	other = work_kernel(STREAM, false, FUNCTION, 65);
	assert_false(is_found(&other));
	other = work_kernel(NULL, false, FUNCTION, 64);
	assert_false(is_found(&other));
	other = work_kernel(STREAM, false, (CUfunction)(uintptr_t)0x1001, 64);
	assert_false(is_found(&other));
	other = work_bytes(STREAM, false, 64);
	assert_false(is_found(&other));
	assert_true(is_found(&call));
	assert_int_equal(thread.grant_ns, 90000);
	/* Whose NULL stream is the thread's own says nothing of a created one. */
	other = work_kernel(STREAM, true, FUNCTION, 64);
	assert_true(is_found(&other));
	assert_int_equal(thread.grant_ns, 80000);
}

/* The thread's own default stream has two names; the legacy one is another. */
static void a_default_stream_is_known_by_each_name(void **unused)
{
	struct work_call call = keep();
	struct again kept = *again_place(&call);

	(void)unused;
	kept.stream = CU_STREAM_PER_THREAD;
	call = work_kernel(NULL, true, FUNCTION, 64);
	*again_place(&call) = kept;
	assert_true(is_found(&call));
	call = work_kernel(CU_STREAM_PER_THREAD, false, FUNCTION, 64);
	assert_true(is_found(&call));
	call = work_kernel(NULL, false, FUNCTION, 64);
	assert_false(is_found(&call));
}

static void what_changed_meanwhile_makes_it_void(void **unused)
{
	struct work_call call = keep();

	(void)unused;
	again_void();
	assert_false(is_found(&call));
	call = keep();
	thread.attention = 1;
	assert_false(is_found(&call));
	call = keep();
	lane.wants_pair = true;
	assert_false(is_found(&call));
	call = keep();
	/* The kind was forgotten, and its place given to another. */
	entry.key++;
	assert_false(is_found(&call));
	assert_int_equal(thread.grant_ns, 100000);
}

static void where_the_context_decides_it_is_the_same(void **unused)
{
	struct work_call call = keep();

	(void)unused;
	again_place(&call)->epoch |= AGAIN_BY_CONTEXT;
	assert_true(is_found(&call));
	current = NULL;
	assert_false(is_found(&call));
	current = CTX;
	again_void();
	assert_false(is_found(&call));
}

static void a_new_thread_and_a_child_have_nothing(void **unused)
{
	struct work_call call = keep();
	int status;
	pid_t pid;

	(void)unused;
	pid = fork();
	if (pid == 0)
		_exit(is_found(&call));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* Nor once it has started: its life is another. */
	pid = fork();
	if (pid == 0) {
		again_init();
		_exit(is_found(&call));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(is_found(&call));
	again_clear(places);
	assert_false(is_found(&call));
}

static void a_launch_that_failed_gives_its_time_back(void **unused)
{
	struct work_call call = keep();
	struct meter *meter = calloc(1, sizeof(*meter));
	struct pace_device *device = aligned_alloc(64, sizeof(*device));
	struct again *like;
	int64_t cost_ns = 0;

	(void)unused;
	assert_non_null(meter);
	assert_non_null(device);
	memset(device, 0, sizeof(*device));
	meter->pace.device = device;
	device->active[0] = 1;
	device->slots[0].unmeasured_ns = 100000;
	again_place(&call)->meter = meter;
	like = begin(&call, &cost_ns);
	assert_non_null(like);
	again_cancel(like, cost_ns);
	assert_int_equal(device->slots[0].unmeasured_ns, 90000);
	assert_int_equal(lane.launches, 0);
	free(device);
	free(meter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_launch_like_the_last_is_counted),
		cmocka_unit_test(what_was_granted_is_all_that_goes),
		cmocka_unit_test(another_launch_is_not_like_it),
		cmocka_unit_test(a_default_stream_is_known_by_each_name),
		cmocka_unit_test(what_changed_meanwhile_makes_it_void),
		cmocka_unit_test(where_the_context_decides_it_is_the_same),
		cmocka_unit_test(a_new_thread_and_a_child_have_nothing),
		cmocka_unit_test(a_launch_that_failed_gives_its_time_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
