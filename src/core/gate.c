#include "core/gate.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GATE_CELLS = 4096 };
#define HOLD_NAP_NS (10 * NSEC_PER_MSEC)

struct gate_state {
	/* Orders who has a cell and whether it is open; zero is an unlocked mutex. */
	pthread_mutex_t mutex;
	/* 0: open; raised by each gate_let() while closed. Written under mutex; a futex. */
	_Atomic uint32_t is_closed;
	uint32_t closer;         /* mutex: tid of who closed it, 0 = open */
	_Atomic uint32_t lets;   /* of a closed one, who may pass; written under mutex */
	bool (*is_enough)(void); /* mutex: true: nobody more, whatever lets says; may be NULL */
	_Atomic bool is_wanted;  /* another was told that it is closed; written under mutex */
	_Atomic uint32_t used;   /* cells 0..used-1 were ever taken; written under mutex */
	_Atomic uint32_t guests; /* threads inside without a cell; atomic */
	/* Cells that changed hands, and guests that came: what no cell says. Atomic. */
	_Atomic uint64_t unsaid;
	bool is_set_up;    /* mutex */
	unsigned watchers; /* mutex: enum gate_watcher */
	bool needs_fence;  /* mutex: the kernel has no membarrier for us, so no cell opens */
	struct gate_cell cells[GATE_CELLS];
};
PROCESS_STATE(gate_state, state);

/* Where a thread without a cell points. Its `in` is written by many and says nothing. */
static struct gate_cell nobody;

__thread struct gate_cell *gate_cell = &nobody;
/* A thread that found no cell and is inside: counted in guests. */
static __thread bool is_guest __attribute__((tls_model("initial-exec")));

static int barrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* mutex held. */
static void set_up(void)
{
	if (state.s.is_set_up)
		return;
	state.s.needs_fence = barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0;
	state.s.is_set_up = true;
}

static bool is_gone(uint32_t tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) < 0 && errno == ESRCH;
}

/*
 * mutex held: a cell for the calling thread. The cell of a thread that ended stays behind with its
 * tid; it is taken when the same tid comes again, or when none is left.
 */
static struct gate_cell *take_cell(uint32_t tid)
{
	uint32_t used = atomic_load_explicit(&state.s.used, memory_order_relaxed);
	struct gate_cell *free_cell = NULL;

	for (uint32_t i = 0; i < used; i++) {
		uint32_t of = atomic_load_explicit(&state.s.cells[i].tid, memory_order_relaxed);

		if (of == tid)
			return &state.s.cells[i];
		if (of == 0 && !free_cell)
			free_cell = &state.s.cells[i];
	}
	if (!free_cell && used < GATE_CELLS) {
		atomic_store_explicit(&state.s.used, used + 1, memory_order_release);
		return &state.s.cells[used];
	}
	for (uint32_t i = 0; i < used && !free_cell; i++)
		if (is_gone(atomic_load_explicit(&state.s.cells[i].tid, memory_order_relaxed)))
			free_cell = &state.s.cells[i];
	return free_cell;
}

/* mutex held: gives the thread a cell if it has none that is its own. */
static void own_cell(uint32_t tid)
{
	struct gate_cell *cell = gate_cell;

	if (cell != &nobody && atomic_load_explicit(&cell->tid, memory_order_relaxed) == tid)
		return;
	cell = take_cell(tid);
	if (!cell) {
		gate_cell = &nobody;
		return;
	}
	atomic_fetch_add_explicit(&state.s.unsaid, 1, memory_order_relaxed);
	atomic_store_explicit(&cell->in, 0, memory_order_relaxed);
	atomic_store_explicit(&cell->open, 0, memory_order_relaxed);
	atomic_store_explicit(&cell->tid, tid, memory_order_relaxed);
	gate_cell = cell;
}

/* mutex held: what an open gate's cells say. */
static uint32_t open_word(void)
{
	if (state.s.needs_fence)
		return GATE_SHUT;
	return GATE_OPEN | state.s.watchers;
}

/* mutex held, gate open or closed by the thread: it goes in. What its cell said before. */
static uint32_t go_in(void)
{
	uint32_t was_in;

	if (gate_cell == &nobody) {
		atomic_fetch_add(&state.s.guests, 1);
		atomic_fetch_add_explicit(&state.s.unsaid, 1, memory_order_relaxed);
		is_guest = true;
		return 0;
	}
	was_in = atomic_load_explicit(&gate_cell->in, memory_order_relaxed);
	atomic_store_explicit(&gate_cell->in, was_in | 1, memory_order_relaxed);
	atomic_store_explicit(&gate_cell->open, state.s.closer ? GATE_SHUT : open_word(),
			      memory_order_release);
	return was_in;
}

/* True when the thread was inside before: its own cell says so, or it is a guest. */
static bool is_inside(uint32_t was_in, uint32_t tid)
{
	if (is_guest)
		return atomic_load(&state.s.guests) > 0;
	return (was_in & 1) && gate_cell != &nobody &&
	       atomic_load_explicit(&gate_cell->tid, memory_order_relaxed) == tid;
}

/* mutex held: true when the thread may go in. Who passes one that is closed has one less do so. */
static bool may_go_in(uint32_t tid)
{
	uint32_t lets = atomic_load_explicit(&state.s.lets, memory_order_relaxed);

	if (!state.s.closer || state.s.closer == tid)
		return true;
	if (lets > 0 && state.s.is_enough && state.s.is_enough())
		lets = 0;
	if (lets > 0)
		atomic_store_explicit(&state.s.lets, lets - 1, memory_order_relaxed);
	return lets > 0;
}

/* True inside, with what gate_enter() says; false when it is shut and the thread does not wait. */
static bool pass(uint32_t was_in, bool waits, uint32_t *out_was_in)
{
	uint32_t tid = (uint32_t)sys_gettid(), closed;
	bool is_in = false;
	int saved = errno;

	*out_was_in = was_in | 1;
	if (is_inside(was_in, tid))
		return true;
	/* Out again: what it said before it came, or of another thread's cell nothing. */
	atomic_store_explicit(&gate_cell->in, was_in & ~1u, memory_order_release);
	process_check();
	/* Before the lock: a child forked while it is held must find it free. */
	process_wipe_on_fork(&state, sizeof(state));
	for (;;) {
		pthread_mutex_lock(&state.s.mutex);
		set_up();
		own_cell(tid);
		closed = atomic_load_explicit(&state.s.is_closed, memory_order_relaxed);
		is_in = may_go_in(tid);
		if (is_in)
			*out_was_in = go_in();
		pthread_mutex_unlock(&state.s.mutex);
		if (is_in || !waits)
			break;
		sys_futex_wait(&state.s.is_closed, closed, HOLD_NAP_NS);
	}
	errno = saved;
	return is_in;
}

uint32_t gate_enter_slow(uint32_t was_in)
{
	pass(was_in, true, &was_in);
	return was_in;
}

bool gate_enter_now(uint32_t *out_was_in)
{
	struct gate_cell *cell = gate_cell;
	uint32_t was_in = atomic_load_explicit(&cell->in, memory_order_relaxed);

	atomic_store_explicit(&cell->in, was_in | 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	*out_was_in = was_in;
	return atomic_load_explicit(&cell->open, memory_order_acquire) ||
	       pass(was_in, false, out_was_in);
}

void gate_leave_slow(uint32_t was_in)
{
	if (was_in & 1)
		return;
	/* In a child that was forked inside, the count is wiped. */
	if (is_guest && atomic_load(&state.s.guests) > 0)
		atomic_fetch_sub(&state.s.guests, 1);
	is_guest = false;
}

bool gate_has_entered(void)
{
	return is_inside(atomic_load_explicit(&gate_cell->in, memory_order_relaxed),
			 (uint32_t)sys_gettid());
}

unsigned gate_inside(void)
{
	uint32_t used = atomic_load_explicit(&state.s.used, memory_order_acquire);
	unsigned n = atomic_load(&state.s.guests) - (is_guest ? 1u : 0u);

	for (uint32_t i = 0; i < used; i++)
		if (&state.s.cells[i] != gate_cell &&
		    atomic_load_explicit(&state.s.cells[i].in, memory_order_acquire) & 1)
			n++;
	return n;
}

/* Also whether a cell says that its thread is inside. */
static uint64_t passes(bool *out_is_any_inside)
{
	uint32_t used = atomic_load_explicit(&state.s.used, memory_order_acquire);
	uint64_t unsaid = atomic_load_explicit(&state.s.unsaid, memory_order_relaxed);
	uint64_t sum = used;
	uint32_t all = 0;

	/* Each cell has its place in the sum. One that changes hands begins at 0 again. */
	for (uint32_t i = 0; i < used; i++) {
		uint32_t in = atomic_load_explicit(&state.s.cells[i].in, memory_order_acquire);

		sum = sum * 31 + in;
		all |= in;
	}
	*out_is_any_inside = all & 1;
	return sum + unsaid * UINT64_C(0x9e3779b97f4a7c15);
}

uint32_t gate_cells(void)
{
	return atomic_load_explicit(&state.s.used, memory_order_relaxed);
}

uint64_t gate_passes(void)
{
	bool is_any_inside;

	return passes(&is_any_inside);
}

bool gate_is_quiet(uint64_t *out_passes)
{
	bool is_any_inside;

	*out_passes = passes(&is_any_inside);
	return !is_any_inside && atomic_load(&state.s.guests) == 0;
}

/* mutex held: opens or shuts the cells of all threads. */
static void set_cells(bool is_open)
{
	uint32_t used = atomic_load_explicit(&state.s.used, memory_order_relaxed);

	for (uint32_t i = 0; i < used; i++) {
		struct gate_cell *cell = &state.s.cells[i];

		if (atomic_load_explicit(&cell->tid, memory_order_relaxed))
			atomic_store_explicit(&cell->open, is_open ? open_word() : GATE_SHUT,
					      memory_order_release);
	}
}

/*
 * Waits until the cell's thread was seen out once. After the barrier that is enough: if it marks
 * itself again it finds its cell shut. A thread that ended inside is not waited for.
 */
static bool wait_out(const struct gate_cell *cell, int64_t end_ns)
{
	for (int looks = 1; atomic_load_explicit(&cell->in, memory_order_acquire) & 1; looks++) {
		if (looks % 64 == 0 &&
		    is_gone(atomic_load_explicit(&cell->tid, memory_order_relaxed)))
			return true;
		if (clock_now_ns() >= end_ns)
			return false;
		clock_sleep_ns(20 * NSEC_PER_USEC);
	}
	return true;
}

static bool wait_all_out(int64_t end_ns)
{
	uint32_t used = atomic_load_explicit(&state.s.used, memory_order_acquire);

	for (uint32_t i = 0; i < used; i++)
		if (&state.s.cells[i] != gate_cell && !wait_out(&state.s.cells[i], end_ns))
			return false;
	while (atomic_load(&state.s.guests) > (is_guest ? 1u : 0u)) {
		if (clock_now_ns() >= end_ns)
			return false;
		clock_sleep_ns(20 * NSEC_PER_USEC);
	}
	return true;
}

int gate_close(int64_t wait_ns)
{
	int64_t end_ns = clock_now_ns() + wait_ns;
	bool was_closed;

	process_wipe_on_fork(&state, sizeof(state));
	pthread_mutex_lock(&state.s.mutex);
	set_up();
	was_closed = atomic_load_explicit(&state.s.is_closed, memory_order_relaxed);
	atomic_store_explicit(&state.s.is_wanted, was_closed, memory_order_relaxed);
	if (!was_closed) {
		atomic_store(&state.s.is_closed, 1);
		state.s.closer = (uint32_t)sys_gettid();
		set_cells(false);
	}
	pthread_mutex_unlock(&state.s.mutex);
	if (was_closed)
		return -EBUSY;
	if (!state.s.needs_fence)
		barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	if (wait_all_out(end_ns))
		return 0;
	gate_open();
	return -ETIMEDOUT;
}

void gate_let(uint32_t passes, bool (*is_enough)(void), int64_t wait_ns)
{
	int64_t end_ns = clock_now_ns() + wait_ns;

	pthread_mutex_lock(&state.s.mutex);
	atomic_store_explicit(&state.s.lets, passes, memory_order_relaxed);
	state.s.is_enough = is_enough;
	atomic_fetch_add_explicit(&state.s.is_closed, 1, memory_order_relaxed);
	pthread_mutex_unlock(&state.s.mutex);
	sys_futex_wake_all(&state.s.is_closed);
	while (atomic_load_explicit(&state.s.lets, memory_order_relaxed) > 0 &&
	       !(is_enough && is_enough()) && clock_now_ns() < end_ns)
		clock_sleep_ns(20 * NSEC_PER_USEC);
	pthread_mutex_lock(&state.s.mutex);
	atomic_store_explicit(&state.s.lets, 0, memory_order_relaxed);
	pthread_mutex_unlock(&state.s.mutex);
}

int gate_wait_out(int64_t wait_ns)
{
	return wait_all_out(clock_now_ns() + wait_ns) ? 0 : -ETIMEDOUT;
}

void gate_open(void)
{
	pthread_mutex_lock(&state.s.mutex);
	atomic_store(&state.s.is_closed, 0);
	state.s.closer = 0;
	set_cells(true);
	pthread_mutex_unlock(&state.s.mutex);
	sys_futex_wake_all(&state.s.is_closed);
}

bool gate_is_wanted(void)
{
	return atomic_load_explicit(&state.s.is_wanted, memory_order_relaxed);
}

void gate_watch(enum gate_watcher who, bool is_watched)
{
	unsigned watchers;

	process_wipe_on_fork(&state, sizeof(state));
	pthread_mutex_lock(&state.s.mutex);
	set_up();
	watchers = is_watched ? state.s.watchers | who : state.s.watchers & ~(unsigned)who;
	if (watchers != state.s.watchers) {
		state.s.watchers = watchers;
		set_cells(!atomic_load_explicit(&state.s.is_closed, memory_order_relaxed));
	}
	pthread_mutex_unlock(&state.s.mutex);
}
