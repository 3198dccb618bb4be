/*
 * A child that is run instruction by instruction, so that it can be killed after any of them.
 */
#pragma once

#include "check.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP_REASON "single steps are taken on x86-64 only, and without a sanitizer"

static bool *step_over; /* shared: the body is at its end */

static inline bool step_is_possible(void)
{
#if defined __x86_64__
	return !BUILD_SANITIZED;
#else
	return false;
#endif
}

/* In the child: steps begin here. */
static inline void step_from_here(void)
{
#if defined __x86_64__
	/* Not raise(): it would have instructions of its own to return through. */
	__asm__ volatile("int3");
#endif
}

/* Starts a child that runs the body, up to its step_from_here(). */
static inline pid_t step_start(void (*body)(void))
{
	pid_t pid;
	int status;

	if (!step_over)
		step_over = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
				 0);
	assert_true((void *)step_over != MAP_FAILED);
	*step_over = false;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		body();
		*step_over = true;
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
		fail_msg("the child did not come to its first step: %x", (unsigned)status);
	return pid;
}

static inline void step_wait(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
		fail_msg("the child ended within its steps: %x", (unsigned)status);
}

/* One instruction. False when the body was over. */
static inline bool step_one(pid_t pid)
{
	if (*step_over)
		return false;
	if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) < 0)
		fail_msg("step: %s", strerror(errno));
	step_wait(pid);
	return true;
}

/* As step_one(), but a repeated string instruction, which traps for every byte, is one. */
static inline bool step_one_whole(pid_t pid)
{
#if defined __x86_64__
	struct user_regs_struct regs;
	unsigned long text, behind;
	unsigned length;

	if (*step_over)
		return false;
	assert_int_equal(ptrace(PTRACE_GETREGS, pid, 0, &regs), 0);
	text = (unsigned long)ptrace(PTRACE_PEEKTEXT, pid, regs.rip, 0);
	if ((text & 0xff) != 0xf3)
		return step_one(pid);
	/* rep, a REX prefix or none, then movs or stos; what else begins so has no repetition. */
	length = (text >> 8 & 0xf0) == 0x40 ? 3 : 2;
	switch (text >> 8 * (length - 1) & 0xff) {
	case 0xa4:
	case 0xa5:
	case 0xaa:
	case 0xab:
		break;
	default:
		return step_one(pid);
	}
	behind = (unsigned long)ptrace(PTRACE_PEEKTEXT, pid, regs.rip + length, 0);
	ptrace(PTRACE_POKETEXT, pid, regs.rip + length, (behind & ~0xffUL) | 0xcc);
	assert_int_equal(ptrace(PTRACE_CONT, pid, 0, 0), 0);
	step_wait(pid);
	ptrace(PTRACE_POKETEXT, pid, regs.rip + length, behind);
	assert_int_equal(ptrace(PTRACE_GETREGS, pid, 0, &regs), 0);
	regs.rip--;
	assert_int_equal(ptrace(PTRACE_SETREGS, pid, 0, &regs), 0);
	return true;
#else
	return step_one(pid);
#endif
}

/* Kills the child where it is. True when that was before the end of the body. */
static inline bool step_kill(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) == pid && !WIFSIGNALED(status) && !WIFEXITED(status))
		;
	return !*step_over;
}
