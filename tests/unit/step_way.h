/*
 * The way of a body: the addresses of its instructions as they followed each other in one run. A
 * later run gets to any place of it by a breakpoint, where single steps stop it at each instruction
 * before. The program is linked with -z now, so that no call takes another way the first time.
 * A run that goes another way is stopped elsewhere, or ends: a test counts where it was stopped.
 */
#pragma once

#include "step.h"

#include <stdint.h>
#include <stdlib.h>

enum {
	STEP_WAY_MAX = 1 << 18,
	STEP_WAY_TABLE = 1 << 16,
	/* So many single steps take as long as stopping at a breakpoint once. */
	STEP_WAY_STOP = 3,
};

struct step_way {
	uintptr_t *at;
	int *visit; /* the how manieth time that it is there */
	long count;
	uintptr_t *seen; /* addresses by their hash, and how often so far */
	int *times;
};

static inline void step_way_begin(struct step_way *way)
{
	if (!way->at) {
		way->at = calloc(STEP_WAY_MAX, sizeof(*way->at));
		way->visit = calloc(STEP_WAY_MAX, sizeof(*way->visit));
		way->seen = calloc(STEP_WAY_TABLE, sizeof(*way->seen));
		way->times = calloc(STEP_WAY_TABLE, sizeof(*way->times));
	}
	assert_true(way->at && way->visit && way->seen && way->times);
	memset(way->seen, 0, STEP_WAY_TABLE * sizeof(*way->seen));
	memset(way->times, 0, STEP_WAY_TABLE * sizeof(*way->times));
	way->count = 0;
}

static inline uintptr_t step_way_here(pid_t pid)
{
#if defined __x86_64__
	struct user_regs_struct regs;

	assert_int_equal(ptrace(PTRACE_GETREGS, pid, 0, &regs), 0);
	return regs.rip;
#else
	(void)pid;
	return 0;
#endif
}

/* Where the child stands is the next place. Once before each step. */
static inline void step_way_note(struct step_way *way, pid_t pid)
{
	uintptr_t here = step_way_here(pid);
	unsigned i = (unsigned)((here * UINT64_C(0x9e3779b97f4a7c15)) >> 48) % STEP_WAY_TABLE;

	while (way->seen[i] && way->seen[i] != here)
		i = (i + 1) % STEP_WAY_TABLE;
	assert_true(way->count < STEP_WAY_MAX);
	way->seen[i] = here;
	way->at[way->count] = here;
	way->visit[way->count++] = ++way->times[i];
}

/* The program's own: the kernel's clock, for one, takes another way as the time is. */
static inline bool step_way_is_own(uintptr_t address)
{
	extern const char __executable_start[], etext[];

	return address >= (uintptr_t)__executable_start && address < (uintptr_t)etext;
}

/* The place from which single steps to `n` begin: where it takes least. */
static inline long step_way_from(const struct step_way *way, long n)
{
	long best = 0;

	for (long i = 1; i <= n; i++)
		if (step_way_is_own(way->at[i]) &&
		    way->visit[i] * STEP_WAY_STOP + n - i <
			    (best ? way->visit[best] * STEP_WAY_STOP : 0) + n - best)
			best = i;
	return best;
}

/* Runs the child until it has come so often to `address`. False when it ended before: unwaited. */
static inline bool step_way_visit(pid_t pid, uintptr_t address, int visits)
{
#if defined __x86_64__
	unsigned long text = (unsigned long)ptrace(PTRACE_PEEKTEXT, pid, address, 0);
	unsigned long trap = (text & ~0xffUL) | 0xcc;
	struct user_regs_struct regs;
	siginfo_t end;

	for (int i = 0; i < visits; i++) {
		if (i > 0 && !step_one(pid))
			return false;
		assert_int_equal(ptrace(PTRACE_POKETEXT, pid, address, trap), 0);
		assert_int_equal(ptrace(PTRACE_CONT, pid, 0, 0), 0);
		assert_int_equal(waitid(P_PID, (id_t)pid, &end, WEXITED | WSTOPPED | WNOWAIT), 0);
		if (end.si_code == CLD_EXITED)
			return false;
		step_wait(pid);
		assert_int_equal(ptrace(PTRACE_POKETEXT, pid, address, text), 0);
		assert_int_equal(ptrace(PTRACE_GETREGS, pid, 0, &regs), 0);
		assert_int_equal(--regs.rip, address);
		assert_int_equal(ptrace(PTRACE_SETREGS, pid, 0, &regs), 0);
	}
	return true;
#else
	(void)pid;
	(void)address;
	return visits == 0;
#endif
}

/* Brings a child that has just started to the nth place. False when it was over before. */
static inline bool step_way_go(const struct step_way *way, pid_t pid, long n)
{
	long from;

	assert_in_range(n, 0, way->count - 1);
	from = step_way_from(way, n);
	if (from && !step_way_visit(pid, way->at[from], way->visit[from]))
		return false;
	for (; from < n; from++)
		if (!step_one_whole(pid))
			return false;
	return !*step_over;
}
