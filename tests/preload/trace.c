/*
 * Runs a program and writes its system calls, one a line, into a file: the number, and for an open
 * the path. Threads and children of the program are followed.
 *
 *   trace FILE PROGRAM [ARGUMENT...]
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
		  PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL
};

static FILE *out;

static void write_path(pid_t pid, unsigned long long address)
{
	char text[512] = "";
	struct iovec here = { text, sizeof(text) - 1 };
	/* Up to the end of a page at most: what follows may not be mapped. */
	size_t room = 4096 - (size_t)(address & 4095);
	struct iovec there = { (void *)(size_t)address, room < here.iov_len ? room : here.iov_len };

	if (process_vm_readv(pid, &here, 1, &there, 1, 0) < 0)
		strcpy(text, "?");
	fprintf(out, " %s", text);
}

static void note(pid_t pid, const struct __ptrace_syscall_info *info)
{
	if (info->op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	fprintf(out, "%llu", (unsigned long long)info->entry.nr);
	if (info->entry.nr == SYS_openat)
		write_path(pid, info->entry.args[1]);
	fputc('\n', out);
}

/* Lets a stopped thread go on; returns false when it was the program's last word. */
static void go_on(pid_t pid, int status)
{
	struct __ptrace_syscall_info info;
	int sig = WSTOPSIG(status);

	if (sig == (SIGTRAP | 0x80)) {
		if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0)
			note(pid, &info);
		sig = 0;
	} else if (sig == SIGTRAP || sig == SIGSTOP) {
		sig = 0;
	}
	ptrace(PTRACE_SYSCALL, pid, 0, sig);
}

int main(int argc, char **argv)
{
	pid_t first, pid;
	int status, end = 0;

	out = argc > 2 ? fopen(argv[1], "we") : NULL;
	if (!out)
		return 2;
	first = fork();
	if (first == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		execv(argv[2], argv + 2);
		_exit(127);
	}
	if (waitpid(first, &status, 0) != first || !WIFSTOPPED(status))
		return 2;
	if (ptrace(PTRACE_SETOPTIONS, first, 0, OPTIONS) < 0)
		return 77;
	ptrace(PTRACE_SYSCALL, first, 0, 0);
	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		if (WIFSTOPPED(status))
			go_on(pid, status);
		else if (pid == first)
			end = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
	fclose(out);
	return end;
}
