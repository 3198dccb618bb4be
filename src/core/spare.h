/*
 * Pairs of markers that are spared. One takes a program that launches a short kernel and waits for
 * it as long as the kernel does. Where a thread waits after each of its launches and the kind is
 * steady (core/means.h), seven of eight that are to be measured go without, as long as their waits
 * return when they usually do: from the submission to the return of its wait passes the mean of the
 * kind and a little more, which is learnt for each lane. One that does not has the next measured.
 *
 * A wait whose lane has nothing to be checked is not even timed (spare_may_pass()).
 *
 * The wait only says that nothing has changed. What a launch takes it cannot: behind a marker it
 * returns later than without one, nobody knows by how much. So the means are those of pairs alone.
 *
 * Not while the limit is near, launches were held, other processes use the device, or the process
 * has kernels that may wait for others.
 */
#pragma once

#include "base/clock.h"
#include "core/marker.h"

/* A call that waited longer than this returned because the work ended. */
#define SPARE_WAITED_NS (2 * NSEC_PER_USEC)

/*
 * The lane in which the thread's launches are measured, if it is of the context; of the event's
 * stream, with nothing launched in it since the event was recorded. Else NULL.
 */
struct lane *spare_lane(struct meter *meter, const struct meter_thread *thread, uint64_t context);
struct lane *spare_lane_at(const struct meter_thread *thread, const struct marker_point *point);

/* Before a launch of this kind that is to be measured: true when it needs no markers. No lock. */
bool spare_begin(const struct meter *meter, struct lane *lane, struct means_entry *work,
		 int64_t now_ns);

/*
 * Before a wait for the lane's stream, by its thread: it need not be timed, for an end was measured
 * a moment ago, what is launched is steady, the limit is not near and nobody else is there. Then
 * spare_pass() is all that is told of it.
 */
bool spare_may_pass(const struct meter *meter, const struct lane *lane);

static inline void spare_pass(struct lane *lane)
{
	struct lane_spare *spare = &lane->spare;

	spare->run = lane->launches - spare->waited == 1 ? spare->run + 1 : 0;
	spare->waited = lane->launches;
}

/* The slow side of spare_waited(): how long the launch without markers took, with its wait. */
void spare_check(struct lane *lane, int64_t span_ns);

/* The lane's thread waited for all of it from begin_ns to now_ns. */
static inline void spare_waited(struct lane *lane, int64_t begin_ns, int64_t now_ns)
{
	struct lane_spare *spare = &lane->spare;

	if (spare->waited == lane->launches)
		return;
	spare_pass(lane);
	if (now_ns - begin_ns <= SPARE_WAITED_NS)
		spare->run = 0;
	if (__builtin_expect(spare->work != NULL, 0))
		spare_check(lane, now_ns - lane->last_ns);
}
