#include "drv/gpu_event.h"

#include "base/clock.h"
#include "drv/real.h"
#include "fresh.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { EVENTS = 2000 };

#define CTX ((CUcontext)(uintptr_t)0x100)
#define OTHER ((CUcontext)(uintptr_t)0x200)

/* The driver: events that run when the test says, at its GPU's time. */
static struct {
	int made;
	bool is_short;     /* of events */
	bool is_slow;      /* in a query */
	_Atomic int asked; /* 1 while it is, 2 after */
	bool is_done[EVENTS];
	double at_ms[EVENTS];
	CUresult elapsed_res;
	CUevent whole; /* recorded last for a whole context */
	CUevent single;
} driver;

struct real real;

static int index_of(CUevent event)
{
	return (int)(uintptr_t)event - 1;
}

static CUresult create(CUevent *out_event, unsigned int flags)
{
	CHECK_EQ(flags, CU_EVENT_DEFAULT);
	if (driver.is_short || driver.made == EVENTS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out_event = (CUevent)(uintptr_t)++driver.made;
	return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
	if (driver.is_slow) {
		atomic_store(&driver.asked, 1);
		clock_sleep_ns(50 * NSEC_PER_MSEC);
		atomic_store(&driver.asked, 2);
	}
	return driver.is_done[index_of(event)] ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult elapsed(float *out_ms, CUevent start, CUevent end)
{
	*out_ms = (float)(driver.at_ms[index_of(end)] - driver.at_ms[index_of(start)]);
	return driver.elapsed_res;
}

static CUresult record(CUevent event, CUstream stream)
{
	CHECK(stream);
	driver.single = event;
	return CUDA_SUCCESS;
}

static CUresult record_whole(CUcontext ctx, CUevent event)
{
	CHECK(ctx == CTX);
	driver.whole = event;
	return CUDA_SUCCESS;
}

static uint64_t start(void)
{
	real = (struct real){ .cuEventCreate = create,
			      .cuEventQuery = query,
			      .cuEventElapsedTime = elapsed,
			      .cuEventRecord = record,
			      .cuCtxRecordEvent = record_whole };
	gpu_event_init();
	return gpu_event_context(CTX);
}

/* The driver's event. */
static int driver_index(uint64_t event)
{
	CHECK(gpu_event_record(event, (CUstream)(uintptr_t)5, false));
	return index_of(driver.single);
}

/* An event that ran at this time. */
static uint64_t ran(uint64_t ctx, double ms)
{
	uint64_t event = gpu_event_take(ctx, true);
	int i;

	CHECK(event);
	i = driver_index(event);
	driver.is_done[i] = true;
	driver.at_ms[i] = ms;
	return event;
}

static int64_t read_ns(uint64_t event)
{
	int64_t gpu_ns = -1;

	CHECK_EQ(gpu_event_read(event, &gpu_ns), GPU_EVENT_DONE);
	gpu_event_give(event);
	return gpu_ns;
}

static void time_is_that_of_the_first_event_on(void)
{
	uint64_t ctx = start(), event;
	int64_t ns;

	CHECK_EQ(read_ns(ran(ctx, 5000)), 0);
	CHECK_EQ(read_ns(ran(ctx, 5000.5)), 500000);
	CHECK_EQ(read_ns(ran(ctx, 4999.5)), -500000);
	event = gpu_event_take(ctx, true);
	driver.is_done[driver_index(event)] = false;
	CHECK_EQ(gpu_event_read(event, &ns), GPU_EVENT_RUNNING);
	driver.is_done[driver_index(event)] = true;
	driver.elapsed_res = CUDA_ERROR_INVALID_HANDLE;
	CHECK_EQ(gpu_event_read(event, &ns), GPU_EVENT_LOST);
}

/*
 * For an hour each step is right to 0.2 us, the sum to a part in ten million, and few events are
 * used.
 */
static void time_stays_exact(void)
{
	const int64_t step_ns = 100001000;
	uint64_t ctx = start();
	int64_t before_ns = 0;

	for (int i = 0; i < 36000; i++) {
		int64_t ns = read_ns(ran(ctx, 77 + i * 100.001));
		int64_t off_ns = ns - i * step_ns;

		CHECK(i == 0 || labs(ns - before_ns - step_ns) <= 200);
		CHECK(labs(off_ns) <= i * step_ns / 10000000);
		before_ns = ns;
	}
	CHECK(driver.made <= 4);
}

static void events_are_used_again(void)
{
	uint64_t ctx = start(), first, second;

	read_ns(ran(ctx, 1));
	first = gpu_event_take(ctx, true);
	second = gpu_event_take(ctx, true);
	CHECK(first && second && first != second);
	gpu_event_give(first);
	CHECK_EQ(gpu_event_take(ctx, false), first);
	/* None is left, and without the context none can be made. */
	CHECK_EQ(gpu_event_take(ctx, false), 0);
	driver.is_short = true;
	CHECK_EQ(gpu_event_take(ctx, true), 0);
}

static void there_is_an_end_to_events(void)
{
	uint64_t ctx = start(), event, last = 0;
	int taken = 0;

	while (taken < EVENTS && (event = gpu_event_take(ctx, true))) {
		last = event;
		taken++;
	}
	CHECK(taken >= 100 && taken < EVENTS);
	/* A failure takes nothing away for good. */
	gpu_event_give(last);
	driver.is_short = true;
	CHECK_EQ(gpu_event_take(ctx, true), last);
}

static void the_context_or_the_stream(void)
{
	uint64_t ctx = start(), event = gpu_event_take(ctx, true);
	CUstream stream = (CUstream)(uintptr_t)5;

	CHECK(gpu_event_record(event, stream, true));
	CHECK(driver.whole && !driver.single);
	real.cuCtxRecordEvent = NULL;
	CHECK(gpu_event_record(event, stream, true));
	CHECK(driver.single);
	driver.single = NULL;
	CHECK(gpu_event_record(event, stream, false));
	CHECK(driver.single);
}

/* A later context by the same handle is another. */
static void a_context_ends(void)
{
	uint64_t ctx = start(), event = ran(ctx, 1), again;
	int64_t ns;

	CHECK(ctx && gpu_event_context(CTX) == ctx);
	CHECK(gpu_event_context(OTHER) != ctx && gpu_event_context(NULL) == 0);
	CHECK_EQ(gpu_event_forget(CTX), ctx);
	CHECK_EQ(gpu_event_forget(CTX), 0);
	again = gpu_event_context(CTX);
	CHECK(again && again != ctx);
	CHECK_EQ(gpu_event_read(event, &ns), GPU_EVENT_LOST);
	gpu_event_give(event);
	CHECK_EQ(gpu_event_take(again, false), 0);
	CHECK_EQ(gpu_event_take(ctx, true), 0);
	CHECK(gpu_event_take(again, true));
}

/* The reference of a context that ends while somebody has it is given back once. */
static void a_context_ends_with_its_reference_out(void)
{
	uint64_t ctx = start(), event = ran(ctx, 1), seen[4];
	int64_t ns;

	CHECK_EQ(gpu_event_read(event, &ns), GPU_EVENT_DONE);
	gpu_event_forget(CTX);
	gpu_event_give(event);
	ctx = gpu_event_context(CTX);
	for (int i = 0; i < 4; i++) {
		seen[i] = gpu_event_take(ctx, true);
		for (int j = 0; j < i; j++)
			CHECK(seen[i] && seen[i] != seen[j]);
	}
}

static void *forget_meanwhile(void *unused)
{
	(void)unused;
	while (atomic_load(&driver.asked) == 0)
		;
	gpu_event_forget(CTX);
	/* The driver ends the context now, and its events with it. */
	CHECK_EQ(atomic_load(&driver.asked), 2);
	return NULL;
}

/* Nobody is at a question about an event of a context that has ended. */
static void a_context_does_not_end_in_a_question(void)
{
	uint64_t event = ran(start(), 5000);
	pthread_t other;
	int64_t ns;

	CHECK(pthread_create(&other, NULL, forget_meanwhile, NULL) == 0);
	driver.is_slow = true;
	CHECK_EQ(gpu_event_read(event, &ns), GPU_EVENT_DONE);
	CHECK(pthread_join(other, NULL) == 0);
	driver.is_slow = false;
	CHECK_EQ(gpu_event_read(event, &ns), GPU_EVENT_LOST);
}

/* So many places are free that were ever taken: each is found once. */
static void forget_and_take_all(uint64_t ctx, int count)
{
	uint64_t other, events[8];

	CHECK_EQ(gpu_event_forget(CTX), ctx);
	other = gpu_event_context(OTHER);
	for (int i = 0; i < count; i++) {
		events[i] = gpu_event_take(other, true);
		CHECK(events[i]);
		for (int k = 0; k < i; k++)
			CHECK(events[k] != events[i]);
	}
}

/* Two threads ask about one, and the second only when the first has had it and given it back. */
static void who_asks_too_late_gets_no_answer(void)
{
	uint64_t ctx = start(), event = ran(ctx, 1), again;
	int64_t gpu_ns;

	gpu_event_give(event);
	CHECK_EQ(gpu_event_read(event, &gpu_ns), GPU_EVENT_LOST);
	/* Nor is it given back once more. */
	gpu_event_give(event);
	again = ran(ctx, 2);
	CHECK_EQ(again, event);
	CHECK(gpu_event_take(ctx, true) != again);
	CHECK_EQ(read_ns(again), 0);
	forget_and_take_all(ctx, 3);
}

/* It becomes the reference, and is that no more, before who asked first gives it back. */
static void a_reference_that_is_still_out(void)
{
	uint64_t ctx = start(), first = ran(ctx, 0), event;
	int64_t gpu_ns;

	CHECK_EQ(gpu_event_read(first, &gpu_ns), GPU_EVENT_DONE);
	for (int i = 1; i <= 3; i++)
		read_ns(ran(ctx, i * 1500.0));
	event = gpu_event_take(ctx, false);
	CHECK(event != first);
	gpu_event_give(first);
	CHECK(gpu_event_take(ctx, false) == first);
	gpu_event_give(first);
	forget_and_take_all(ctx, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(time_is_that_of_the_first_event_on),
		fresh_test(time_stays_exact),
		fresh_test(events_are_used_again),
		fresh_test(there_is_an_end_to_events),
		fresh_test(the_context_or_the_stream),
		fresh_test(a_context_ends),
		fresh_test(a_context_ends_with_its_reference_out),
		fresh_test(a_context_does_not_end_in_a_question),
		fresh_test(who_asks_too_late_gets_no_answer),
		fresh_test(a_reference_that_is_still_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
