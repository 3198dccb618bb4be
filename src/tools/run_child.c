#include "tools/run_child.h"

#include "tools/tools_common.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* True when a directory of PATH has a file of that name. */
static bool is_in_path(const char *name)
{
	const char *at = getenv("PATH");
	char path[PATH_MAX];

	while (at && *at) {
		int n = (int)strcspn(at, ":");

		snprintf(path, sizeof(path), "%.*s/%s", n, at, name);
		if (access(path, F_OK) == 0)
			return true;
		at += at[n] ? n + 1 : n;
	}
	return false;
}

static bool is_there(const char *name)
{
	return strchr(name, '/') ? access(name, F_OK) == 0 : is_in_path(name);
}

_Noreturn static void execute(const char *command, char **argv)
{
	int error;

	execvp(argv[0], argv);
	error = errno;
	/* A directory of PATH that is closed to us says so, though the program is nowhere. */
	if (error == EACCES && !strchr(argv[0], '/') && !is_in_path(argv[0]))
		error = ENOENT;
	if (error == ENOENT && is_there(argv[0])) {
		tools_complain(command,
			       "cannot run '%s': it is there, but not the interpreter that it "
			       "names",
			       argv[0]);
		_exit(TOOLS_CANNOT_EXECUTE);
	}
	tools_complain(command, "cannot run '%s' (%s)", argv[0], strerror(error));
	_exit(error == ENOENT || error == ENOTDIR ? TOOLS_NOT_FOUND : TOOLS_CANNOT_EXECUTE);
}

/*
 * Stops this process as the terminal would. In a session without job control nothing could continue
 * it, and there the kernel drops the signal.
 */
static void stop_self(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL }, old;
	sigset_t stop;

	/* Who continues it already is not kept waiting: the kernel would drop his signal. */
	if (sigpending(&stop) == 0 && sigismember(&stop, SIGCONT))
		return;
	sigaction(SIGTSTP, &dfl, &old);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	/* Here it stops, and goes on at SIGCONT. */
	sigprocmask(SIG_BLOCK, &stop, NULL);
	sigaction(SIGTSTP, &old, NULL);
}

/* True once the program has ended. */
static bool has_ended(pid_t pid, int *out_status)
{
	int status;

	while (waitpid(pid, &status, WNOHANG | WUNTRACED) == pid) {
		if (!WIFSTOPPED(status)) {
			*out_status = status;
			return true;
		}
		stop_self();
	}
	return false;
}

/*
 * True of a signal that the program has not got by itself. What the terminal sends goes to it as
 * well, but for the hangup, of which the session's leader alone is told; what it sends us it does
 * not want.
 */
static bool is_to_pass_on(const siginfo_t *info, pid_t pid)
{
	if (info->si_code <= 0)
		return info->si_pid != pid;
	switch (info->si_signo) {
	case SIGCHLD:
	case SIGINT:
	case SIGQUIT:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
	case SIGWINCH:
		return false;
	case SIGHUP:
	case SIGCONT:
		return getsid(0) == getpid();
	default:
		return true; /* of a timer from before this program was started, for instance */
	}
}

static void watch(pid_t pid, const sigset_t *set, int *out_status)
{
	siginfo_t info;

	while (!has_ended(pid, out_status)) {
		int sig = sigwaitinfo(set, &info);

		if (sig > 0 && is_to_pass_on(&info, pid))
			kill(pid, sig);
	}
}

/*
 * Blocks all signals, to be taken by sigwaitinfo(): no handler, so nothing to inherit. Not by
 * sigprocmask(), which leaves out what libc uses itself. A fault of our own ends us all the same.
 */
static void block_all(sigset_t *out_all, sigset_t *out_old)
{
	memset(out_all, 0xff, sizeof(*out_all));
	sigemptyset(out_old);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, out_all, out_old, _NSIG / 8);
}

int run_child_wait(const char *command, char **argv, int *out_status)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL }, old_chld;
	sigset_t all, old;
	pid_t pid;
	int rc;

	/* Ignored, as some parents leave it, the kernel would reap the program itself. */
	sigaction(SIGCHLD, &dfl, &old_chld);
	block_all(&all, &old);
	pid = fork();
	if (pid == 0) {
		sigaction(SIGCHLD, &old_chld, NULL);
		sigprocmask(SIG_SETMASK, &old, NULL);
		execute(command, argv);
	}
	if (pid < 0) {
		rc = -errno;
		sigprocmask(SIG_SETMASK, &old, NULL);
		return rc;
	}
	watch(pid, &all, out_status);
	return 0;
}

int run_child_pass_on(int status)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t set;
	int sig;

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	sig = WTERMSIG(status);
	/* The program's core is the one of interest. */
	prctl(PR_SET_DUMPABLE, 0);
	sigaction(sig, &dfl, NULL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(sig);
	return 128 + sig;
}
