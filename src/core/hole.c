#include "core/hole.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/tree.h"
#include "base/turn.h"
#include "core/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* How long one waits to be alone, and others for who is. */
#define ALONE_WAIT_NS (20 * NSEC_PER_MSEC)
#define ALONE_NAP_NS (10 * NSEC_PER_USEC)
#define CALL_WAIT_NS (100 * NSEC_PER_MSEC)

enum { HOLES = 64, CALL_TRIES = 3 };

/* A large allocation, or what was one and is free. */
struct piece {
	RB_ENTRY(piece) entry; /* of an allocation */
	const void *pool;
	uint64_t addr, bytes;
	uint64_t stream; /* of a hole */
	bool is_free;    /* of a hole: the driver has freed it */
};

RB_HEAD(piece_tree, piece);

struct hole_state {
	struct turn alone;
	_Atomic unsigned calls;  /* under way; atomic */
	_Atomic unsigned pieces; /* allocations and holes; written under mutex */
	pthread_mutex_t mutex;
	/* mutex */
	struct piece_tree given;  /* by address */
	struct piece hole[HOLES]; /* pool NULL: none */
	unsigned next;
};
PROCESS_STATE(hole_state, state);

static int piece_compare(const struct piece *a, const struct piece *b)
{
	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

RB_GENERATE_STATIC(piece_tree, piece, entry, piece_compare)

void hole_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

static bool is_somebody_alone(void)
{
	return __atomic_load_n(&state.s.alone.tid, __ATOMIC_SEQ_CST) != 0;
}

void hole_call_begin(void)
{
	atomic_fetch_add(&state.s.calls, 1);
	for (int tries = 0; is_somebody_alone() && tries < CALL_TRIES; tries++) {
		atomic_fetch_sub(&state.s.calls, 1);
		if (turn_take(&state.s.alone, CALL_WAIT_NS))
			turn_give(&state.s.alone);
		atomic_fetch_add(&state.s.calls, 1);
	}
}

void hole_call_end(void)
{
	atomic_fetch_sub(&state.s.calls, 1);
}

bool hole_alone_begin(void)
{
	int64_t end_ns = clock_now_ns() + ALONE_WAIT_NS;

	if (!turn_take(&state.s.alone, ALONE_WAIT_NS))
		return false;
	/* hole_call_begin() counts first and then looks whose turn it is. */
	atomic_thread_fence(memory_order_seq_cst);
	while (atomic_load(&state.s.calls) > 0) {
		if (clock_now_ns() >= end_ns) {
			turn_give(&state.s.alone);
			return false;
		}
		clock_sleep_ns(ALONE_NAP_NS);
	}
	return true;
}

void hole_alone_end(void)
{
	turn_give(&state.s.alone);
}

/* mutex held. */
static void end_hole(struct piece *hole)
{
	hole->pool = NULL;
	atomic_fetch_sub(&state.s.pieces, 1);
}

/* mutex held: what is left of a hole when [addr, addr + bytes) was taken of it: its larger end. */
static void cut(struct piece *hole, uint64_t addr, uint64_t bytes)
{
	uint64_t end = hole->addr + hole->bytes;
	uint64_t before = addr > hole->addr ? addr - hole->addr : 0;
	uint64_t after = end > addr + bytes ? end - (addr + bytes) : 0;

	if (addr >= end || addr + bytes <= hole->addr)
		return;
	if (before >= after) {
		hole->bytes = before;
	} else {
		hole->addr = addr + bytes;
		hole->bytes = after;
	}
	if (hole->bytes <= POOL_STEP_BYTES)
		end_hole(hole);
}

/* mutex held. The one that begins there, or NULL. */
static struct piece *find_given(uint64_t addr)
{
	struct piece want = { .addr = addr };

	return RB_FIND(piece_tree, &state.s.given, &want);
}

/* mutex held. */
static void end_given(struct piece *piece)
{
	RB_REMOVE(piece_tree, &state.s.given, piece);
	free(piece);
	atomic_fetch_sub(&state.s.pieces, 1);
}

/*
 * mutex held: what lies in [addr, addr + bytes) was freed in a way that is not seen here, or it
 * would not be given out again.
 */
static void end_stale(uint64_t addr, uint64_t bytes)
{
	struct piece want = { .addr = addr };
	struct piece *piece = RB_NFIND(piece_tree, &state.s.given, &want), *next;
	struct piece *before = piece ? RB_PREV(piece_tree, &state.s.given, piece) :
				       RB_MAX(piece_tree, &state.s.given);

	if (before && before->addr + before->bytes > addr)
		end_given(before);
	for (; piece && piece->addr < addr + bytes; piece = next) {
		next = RB_NEXT(piece_tree, &state.s.given, piece);
		end_given(piece);
	}
}

/* mutex held: without memory for it, it will not be a hole. */
static void enter(const void *pool, uint64_t addr, uint64_t bytes)
{
	struct piece *piece = calloc(1, sizeof(*piece));

	if (!piece)
		return;
	*piece = (struct piece){ .pool = pool, .addr = addr, .bytes = bytes };
	RB_INSERT(piece_tree, &state.s.given, piece);
	atomic_fetch_add(&state.s.pieces, 1);
}

void hole_given(const void *pool, uint64_t addr, uint64_t bytes)
{
	if (bytes <= POOL_STEP_BYTES && !hole_any())
		return;
	pthread_mutex_lock(&state.s.mutex);
	for (int i = 0; i < HOLES; i++)
		if (state.s.hole[i].pool)
			cut(&state.s.hole[i], addr, bytes);
	end_stale(addr, bytes);
	if (bytes > POOL_STEP_BYTES)
		enter(pool, addr, bytes);
	pthread_mutex_unlock(&state.s.mutex);
}

void hole_free_begin(uint64_t addr, uint64_t stream)
{
	struct piece *piece, *hole;

	pthread_mutex_lock(&state.s.mutex);
	piece = find_given(addr);
	if (piece) {
		hole = &state.s.hole[state.s.next++ % HOLES];
		if (!hole->pool)
			atomic_fetch_add(&state.s.pieces, 1);
		*hole = *piece;
		hole->stream = stream;
		end_given(piece);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

void hole_free_end(uint64_t addr, bool is_freed)
{
	pthread_mutex_lock(&state.s.mutex);
	for (int i = 0; i < HOLES; i++) {
		struct piece *hole = &state.s.hole[i];

		if (!hole->pool || hole->addr != addr || hole->is_free)
			continue;
		hole->is_free = true;
		if (!is_freed) {
			end_stale(addr, hole->bytes);
			enter(hole->pool, addr, hole->bytes);
			end_hole(hole);
		}
	}
	pthread_mutex_unlock(&state.s.mutex);
}

bool hole_find(const void *pool, uint64_t stream, uint64_t bytes)
{
	bool is_found = false;

	pthread_mutex_lock(&state.s.mutex);
	for (int i = 0; i < HOLES && stream; i++) {
		const struct piece *hole = &state.s.hole[i];

		is_found |= hole->pool == pool && hole->is_free && hole->stream == stream &&
			    hole->bytes >= bytes;
	}
	pthread_mutex_unlock(&state.s.mutex);
	return is_found;
}

bool hole_any(void)
{
	return atomic_load(&state.s.pieces) > 0;
}

void hole_drop(const void *pool)
{
	if (!hole_any())
		return;
	pthread_mutex_lock(&state.s.mutex);
	for (int i = 0; i < HOLES; i++)
		if (state.s.hole[i].pool && (!pool || state.s.hole[i].pool == pool))
			end_hole(&state.s.hole[i]);
	pthread_mutex_unlock(&state.s.mutex);
}
