/*
 * Utilisation of the last second. Time is cut into cells of 250 us, and of each cell one moment is
 * looked at: busy or not. The moments lie irregularly, so that no rhythm of the work falls in step
 * with them, and the part of them that was busy is the part of the second that was. Work of several
 * streams and processes at the same moment counts once.
 */
#include "machine_file.h"

#include "base/clock.h"

#include <errno.h>
#include <time.h>

enum { CELL_NS = 250000, WORD_CELLS = 32 };

#define WINDOW_CELLS ((uint64_t)(NSEC_PER_SEC / CELL_NS))

/* The moment of a cell that is looked at, ns after its start. */
static uint64_t moment_ns(uint64_t cell)
{
	uint64_t mixed = (cell + 1) * UINT64_C(0x9e3779b97f4a7c15);

	mixed ^= mixed >> 32;
	mixed *= UINT64_C(0xd6e8feb86659fd93);
	return (mixed >> 32) % CELL_NS;
}

/* The first cell whose moment is not before `ns`. */
static uint64_t first_cell(uint64_t ns)
{
	uint64_t cell = ns / CELL_NS;

	return ns % CELL_NS <= moment_ns(cell) ? cell : cell + 1;
}

static void mark_word(struct machine_ring *ring, uint64_t number, uint32_t bits)
{
	_Atomic uint64_t *word = &ring->words[number % MACHINE_RING_WORDS];
	uint64_t lap = number / MACHINE_RING_WORDS & UINT32_MAX;
	uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
	uint64_t want;

	do {
		if ((int32_t)((uint32_t)(seen >> 32) - (uint32_t)lap) > 0)
			return; /* told so late that the place has passed to a later lap */
		want = seen >> 32 == lap ? seen | bits : lap << 32 | bits;
		if (want == seen)
			return;
	} while (!atomic_compare_exchange_weak_explicit(word, &seen, want, memory_order_relaxed,
							memory_order_relaxed));
}

void machine_start_context(void)
{
	struct machine_file *file = machine_self()->file;
	int64_t takes_ns = file->config.start_ms * NSEC_PER_MSEC;
	int64_t now_ns = clock_now_ns(), free_ns, end_ns;
	struct timespec end;

	if (takes_ns == 0)
		return;
	free_ns = atomic_load(&file->started_ns);
	do
		end_ns = (free_ns > now_ns ? free_ns : now_ns) + takes_ns;
	while (!atomic_compare_exchange_weak(&file->started_ns, &free_ns, end_ns));
	end = (struct timespec){ end_ns / NSEC_PER_SEC, end_ns % NSEC_PER_SEC };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

void machine_time_mark(struct machine_ring *ring, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t cell = first_cell(start_ns);
	uint64_t end = first_cell(end_ns);

	/* More than the window cannot be seen any more. */
	if (end - cell > WINDOW_CELLS && end > cell)
		cell = end - WINDOW_CELLS;
	while (cell < end) {
		uint64_t number = cell / WORD_CELLS;
		uint32_t bits = 0;

		for (; cell < end && cell / WORD_CELLS == number; cell++)
			bits |= UINT32_C(1) << cell % WORD_CELLS;
		mark_word(ring, number, bits);
	}
}

unsigned machine_time_busy_pct(const struct machine_ring *ring, uint64_t now_ns)
{
	uint64_t end = first_cell(now_ns);
	uint64_t cell = end > WINDOW_CELLS ? end - WINDOW_CELLS : 0;
	uint64_t busy = 0;

	while (cell < end) {
		uint64_t number = cell / WORD_CELLS;
		uint64_t word = atomic_load_explicit(&ring->words[number % MACHINE_RING_WORDS],
						     memory_order_relaxed);
		bool is_current = word >> 32 == (number / MACHINE_RING_WORDS & UINT32_MAX);

		for (; cell < end && cell / WORD_CELLS == number; cell++)
			busy += is_current && (word >> cell % WORD_CELLS & 1);
	}
	return (unsigned)((busy * 100 + WINDOW_CELLS / 2) / WINDOW_CELLS);
}

static uint32_t owner_name(int slot, int i)
{
	return (uint32_t)slot * MACHINE_DEVICES + (uint32_t)i + 1;
}

struct machine_ring *machine_time_find(int slot, int i)
{
	struct machine_file *file = machine_self()->file;
	uint32_t r = atomic_load_explicit(&file->slot[slot].share[i].ring, memory_order_acquire);

	if (!r || r > MACHINE_RINGS)
		return NULL;
	/* It may be one that this slot had in another process's time. */
	return atomic_load_explicit(&file->ring_owner[r - 1], memory_order_acquire) ==
			       owner_name(slot, i) ?
		       &file->ring[r - 1] :
		       NULL;
}

void machine_time_forget(int slot)
{
	struct machine_file *file = machine_self()->file;

	for (int r = 0; r < MACHINE_RINGS; r++) {
		uint32_t name = atomic_load_explicit(&file->ring_owner[r], memory_order_relaxed);

		if (name && (name - 1) / MACHINE_DEVICES == (uint32_t)slot)
			(void)atomic_compare_exchange_strong(&file->ring_owner[r], &name, 0);
	}
}

static uint32_t claim_ring(int i)
{
	struct machine_self *self = machine_self();
	uint32_t name = owner_name(self->slot, i);
	uint32_t r;

	for (r = 0; r < MACHINE_RINGS; r++) {
		uint32_t free = 0;

		if (atomic_compare_exchange_strong(&self->file->ring_owner[r], &free, name)) {
			atomic_store_explicit(&self->file->ring[r].last_us, 0,
					      memory_order_relaxed);
			for (int w = 0; w < MACHINE_RING_WORDS; w++)
				atomic_store_explicit(&self->file->ring[r].words[w], 0,
						      memory_order_relaxed);
			atomic_store_explicit(&self->file->slot[self->slot].share[i].ring, r + 1,
					      memory_order_release);
			break;
		}
	}
	return r + 1;
}

/* This process's own ring, or NULL where all are taken: then its share is not shown. */
static struct machine_ring *own_ring(int i)
{
	struct machine_self *self = machine_self();
	uint32_t ring = atomic_load_explicit(&self->ring[i], memory_order_acquire);

	if (!ring) {
		machine_lock(i, -1);
		ring = atomic_load_explicit(&self->ring[i], memory_order_relaxed);
		if (!ring) {
			ring = claim_ring(i);
			atomic_store_explicit(&self->ring[i], ring, memory_order_release);
		}
		machine_unlock(i);
	}
	return ring <= MACHINE_RINGS ? &self->file->ring[ring - 1] : NULL;
}

void machine_busy(int i, uint64_t start_ns, uint64_t end_ns)
{
	struct machine_ring *own;
	struct timespec now;

	if (i < 0 || i >= machine_count() || end_ns <= start_ns)
		return;
	machine_time_mark(&machine_self()->file->state[i].sm, start_ns, end_ns);
	own = own_ring(i);
	if (!own)
		return;
	machine_time_mark(own, start_ns, end_ns);
	clock_gettime(CLOCK_REALTIME, &now);
	atomic_store_explicit(&own->last_us,
			      (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000,
			      memory_order_relaxed);
}

void machine_memory_busy(int i, uint64_t start_ns, uint64_t end_ns)
{
	if (i < 0 || i >= machine_count() || end_ns <= start_ns)
		return;
	machine_time_mark(&machine_self()->file->state[i].memory, start_ns, end_ns);
}

unsigned machine_util_pct(int i)
{
	if (i < 0 || i >= machine_count())
		return 0;
	return machine_time_busy_pct(&machine_self()->file->state[i].sm, (uint64_t)clock_now_ns());
}

unsigned machine_mem_util_pct(int i)
{
	if (i < 0 || i >= machine_count())
		return 0;
	return machine_time_busy_pct(&machine_self()->file->state[i].memory,
				     (uint64_t)clock_now_ns());
}
