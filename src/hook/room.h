/*
 * Room on the card for what cannot move: where the driver has none for a call, what movable
 * tenants keep at hand with nothing in it goes back, then objects of an oversubscribed one leave
 * for host memory; and the call is made again.
 *
 * Not during a capture, which remembers where memory is, and not by a thread that is inside the
 * gate, since nothing would stand still. All waits are bounded.
 */
#pragma once

#include "core/gate.h"
#include "hook/enter.h"

/* What was done for one call. Begins as zeros. */
struct room {
	unsigned tries;
	unsigned asks; /* for what is at hand */
};

/*
 * After a call that found no room for `bytes` (0: nobody knows how many) on the device: true when
 * memory has left the card, so that it is worth another try. Less each time, and false in the end:
 * what is asked for grows. That is then said, as room_refused().
 */
bool room_make(struct room *room, struct dev dev, uint64_t bytes);

/* As that on the device of the calling thread's context. */
bool room_make_here(struct room *room, uint64_t bytes);

/*
 * Says that `bytes` (0: nobody knows how many) have no room on the card, and where it could take
 * its place, in host memory; of the first few refusals, as enter_refused().
 */
void room_refused(struct dev dev, uint64_t bytes);

/* What `call`, of the driver, says in the end. It is made inside the gate. */
#define ROOM_CALL(dev, bytes, call) ROOM_TRY(room_make(&room, dev, bytes), GATE_CALL(call))
#define ROOM_CALL_HERE(bytes, call) ROOM_TRY(room_make_here(&room, bytes), GATE_CALL(call))

/* As that for a call that needs not pass the gate: a question for which the driver loads code. */
#define ROOM_ASK(call) ROOM_TRY(room_make_here(&room, 0), call)

/* Names `room` for the first. */
#define ROOM_TRY(make, call)                                            \
	({                                                              \
		struct room room = { 0 };                               \
		CUresult room_res;                                      \
                                                                        \
		do                                                      \
			room_res = (call);                              \
		while (room_res == CUDA_ERROR_OUT_OF_MEMORY && (make)); \
		room_res;                                               \
	})
