/*
 * Standing still: the gate is shut, nobody is in a driver call that uses device memory, and all
 * work that was submitted is done. So what is mapped where may be changed.
 *
 * One thread at a time has it; it may begin again inside, and its own calls pass the gate. Nothing
 * is waited for without an end: where work does not end in time the gate is open again, and the
 * caller tries later. Who waits for long can be asked to end that: by what it looks at itself, and
 * by another thread that would shut the gate.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How long each step may take. */
struct gpu_still_waits {
	int64_t shut_ns; /* until nobody is inside the gate */
	int64_t done_ns; /* until the work is done */
	/* Asked every millisecond or so while work is waited for: true ends that. May be NULL. */
	bool (*is_over)(void *arg);
	void *arg;
	bool gives_way; /* it ends, too, when another thread would shut the gate */
};

/* A move: a stall of the program that is worth it, or none. */
#define GPU_STILL_MOVE_WAITS                                                  \
	{                                                                     \
		.shut_ns = 50 * NSEC_PER_MSEC, .done_ns = 250 * NSEC_PER_MSEC \
	}
/* A suspension: somebody wants the device. */
#define GPU_STILL_SUSPEND_WAITS                                          \
	{                                                                \
		.shut_ns = 5 * NSEC_PER_SEC, .done_ns = 5 * NSEC_PER_SEC \
	}

/* Starts: fork children begin with nothing. */
void gpu_still_init(void);

/*
 * 0: all stands still until gpu_still_end(), as often. -EAGAIN: a capture is under way; -EBUSY:
 * threads or work did not end in time, or another thread has the gate shut; else why no fence can
 * be had. After an error the gate is as before.
 */
int gpu_still_begin(const struct gpu_still_waits *waits);
void gpu_still_end(void);

/*
 * The same in steps, for who lets some go on before all stands still. Shut: the gate is, until
 * gpu_still_open(). Wait: as gpu_still_begin() where the gate is shut, and stays so. Let:
 * gate_let(), after either; who had it has only the gate.
 */
int gpu_still_shut(const struct gpu_still_waits *waits);
int gpu_still_wait(const struct gpu_still_waits *waits);
void gpu_still_let(uint32_t passes, bool (*is_enough)(void), int64_t wait_ns);
void gpu_still_open(void);

/* True when the calling thread has it. */
bool gpu_still_is_mine(void);
