/*
 * The gate: the one place that every launch, every other use of device memory and every change of
 * where it lies passes. Whoever wants everything still closes it and waits until nobody is inside.
 *
 * Each thread has a cell of its own. Enter: say "in", then look whether the cell is open; leave:
 * say "out". Neither is a locked instruction, a fence or a shared line. Closing makes every cell
 * not open, has the kernel put a barrier into every running thread (membarrier), and waits until
 * none is in. Either a thread's look came after the barrier, then it saw the gate closed; or its
 * "in" came before, then the closer sees it.
 *
 * A cell that is not open is the one test for everything unusual: a new thread, a fork child (the
 * cells are wiped), a closed gate, a kernel without membarrier. A watched gate is open; what its
 * cells say more than that is who watches: work that is to be measured or held goes another way.
 *
 * A thread inside that enters again (a callback in a driver call) passes: it is inside already. So
 * does the thread that closed the gate: what it does meanwhile is its own affair.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum gate_open { GATE_SHUT, GATE_OPEN };

/* Who watches: bits beside GATE_OPEN. */
enum gate_watcher { GATE_FUNCTIONS = 2, GATE_METERING = 4, GATE_USES = 8, GATE_LINKED = 16 };

struct gate_cell {
	/* Its thread: odd between enter and leave, two more after each but questions. */
	_Alignas(64) _Atomic uint32_t in;
	/* enum gate_open, and while it is open who watches; any thread, under the gate's mutex. */
	_Atomic uint32_t open;
	_Atomic uint32_t tid; /* of its thread, 0 = free; under the mutex */
};

/* The calling thread's cell. Starts at a cell that never opens. */
extern __thread struct gate_cell *gate_cell
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * The unusual way in: returns inside, after a closed gate has opened, with what gate_enter() says.
 * `was_in` is what the cell said, which counts only if the cell is the thread's own.
 */
uint32_t gate_enter_slow(uint32_t was_in) __attribute__((cold));

/* Leaving by a thread that found no cell. */
void gate_leave_slow(uint32_t was_in) __attribute__((cold));

/* Passes the gate. Returns what gate_leave() wants: what the thread's cell said before. */
static inline uint32_t gate_enter(void)
{
	struct gate_cell *cell = gate_cell;
	uint32_t was_in = atomic_load_explicit(&cell->in, memory_order_relaxed);

	atomic_store_explicit(&cell->in, was_in | 1, memory_order_relaxed);
	/* The order of these two is made by membarrier on the closer's side. */
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(!atomic_load_explicit(&cell->open, memory_order_acquire), 0))
		was_in = gate_enter_slow(was_in);
	return was_in;
}

/*
 * As gate_enter(), but false, and the thread is outside, when another has the gate shut: for who
 * holds what that one may wait for.
 */
bool gate_enter_now(uint32_t *out_was_in);

/*
 * As gate_enter() where nothing is unusual: true, and *out_was_in is what it would have returned.
 * Else false and nothing is done.
 */
static inline bool gate_try(uint32_t *out_was_in)
{
	struct gate_cell *cell = gate_cell;
	uint32_t was_in = atomic_load_explicit(&cell->in, memory_order_relaxed);

	*out_was_in = was_in;
	atomic_store_explicit(&cell->in, was_in | 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&cell->open, memory_order_acquire), 1))
		return true;
	atomic_store_explicit(&cell->in, was_in, memory_order_release);
	return false;
}

/* Leaves. What the call did is visible to a closer that sees the thread out. */
static inline void gate_leave(uint32_t was_in)
{
	struct gate_cell *cell = gate_cell;

	if (__builtin_expect(!atomic_load_explicit(&cell->tid, memory_order_relaxed), 0))
		gate_leave_slow(was_in);
	else
		atomic_store_explicit(&cell->in, was_in + 2, memory_order_release);
}

/*
 * As gate_leave(), by who gave the device no work: gate_passes() says nothing of it. What the cell
 * says while the thread is inside may be what it says again later.
 */
static inline void gate_leave_asked(uint32_t was_in)
{
	struct gate_cell *cell = gate_cell;

	if (__builtin_expect(!atomic_load_explicit(&cell->tid, memory_order_relaxed), 0))
		gate_leave_slow(was_in);
	else
		atomic_store_explicit(&cell->in, was_in, memory_order_release);
}

/* True when the calling thread is inside. */
bool gate_has_entered(void);

/*
 * What `call`, a call of the driver, says; it is made inside the gate. Nothing that may wait for
 * room, for another thread or for the region belongs in there: who closes the gate waits for it.
 */
#define GATE_CALL(call)                              \
	({                                           \
		uint32_t gate_was_in = gate_enter(); \
		__typeof__(call) gate_res = (call);  \
                                                     \
		gate_leave(gate_was_in);             \
		gate_res;                            \
	})

/* The same of a question that gives the device no work. */
#define GATE_ASK(call)                               \
	({                                           \
		uint32_t gate_was_in = gate_enter(); \
		__typeof__(call) gate_res = (call);  \
                                                     \
		gate_leave_asked(gate_was_in);       \
		gate_res;                            \
	})

/*
 * Closes the gate and waits at most `wait_ns` until no thread but the caller is inside: 0, or
 * -ETIMEDOUT and the gate is open again; -EBUSY when somebody else has closed it.
 */
int gate_close(int64_t wait_ns);

/*
 * By who has it closed: so many may pass, of those who come within wait_ns, and before is_enough()
 * says so (NULL: never), which any thread asks. Returns when that is over; it is closed all along.
 */
void gate_let(uint32_t passes, bool (*is_enough)(void), int64_t wait_ns);

/* Likewise: waits until they are out again: 0 or -ETIMEDOUT. */
int gate_wait_out(int64_t wait_ns);

/* Opens it again and wakes who waits. */
void gate_open(void);

/* True when another thread would have closed it since it was closed, and was told -EBUSY. */
bool gate_is_wanted(void);

/*
 * Leaves after gate_try(). In a child that was forked inside, the cell is nobody's: no harm is
 * done.
 */
static inline void gate_leave_try(uint32_t was_in)
{
	atomic_store_explicit(&gate_cell->in, was_in + 2, memory_order_release);
}

/* Has all cells say from now on, or not any more, that `who` watches. Threads inside go on. */
void gate_watch(enum gate_watcher who, bool is_watched);

/*
 * What the calling thread's cell says: GATE_SHUT, GATE_OPEN, or that with who watches; a moment
 * later it may say something else.
 */
static inline uint32_t gate_word(void)
{
	return atomic_load_explicit(&gate_cell->open, memory_order_relaxed);
}

/* True when it is open, and watched. */
static inline bool gate_is_watched(void)
{
	return gate_word() > GATE_OPEN;
}

/* Changes whenever a thread passes the gate, but for questions; the value itself says nothing. */
uint64_t gate_passes(void);

/*
 * The same while nobody is inside, the caller neither: false when somebody is. Nobody has passed
 * since as long as gate_passes() says it again.
 */
bool gate_is_quiet(uint64_t *out_passes);

/* How many cells these two look at. */
uint32_t gate_cells(void);

/*
 * Threads that are marked now, the caller's own not counted. One that has just found the gate shut
 * may be among them for a moment.
 */
unsigned gate_inside(void);
