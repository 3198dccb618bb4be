/*
 * signals none|before|after|siginfo|chain|jump: handles SIGUSR1 and SIGUSR2 itself, from before or
 * after the driver is started; says how often each came, for each line. With "none" it has no
 * handler; with "chain" it goes on to the one that it found, with "jump" it jumps out of it.
 * signals waits: without a handler; says how each call that waits has ended, one after the other.
 */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

static _Atomic int came[2];

static void count(int number)
{
	came[number == SIGUSR2]++;
}

static void count_info(int number, siginfo_t *info, void *context)
{
	if (info && info->si_signo == number && context)
		count(number);
}

static struct sigaction found[2];

static void count_and_go_on(int number, siginfo_t *info, void *context)
{
	const struct sigaction *next = &found[number == SIGUSR2];

	count_info(number, info, context);
	CHECK(came[number == SIGUSR2] < 100);
	if (next->sa_flags & SA_SIGINFO)
		next->sa_sigaction(number, info, context);
}

static sigjmp_buf back;

static void count_and_jump(int number)
{
	count(number);
	siglongjmp(back, 1);
}

/* From after the library has put its own in. */
static void handle_late(const char *how)
{
	struct sigaction action = { .sa_flags = SA_RESTART };

	usleep(300000);
	if (!strcmp(how, "chain")) {
		action.sa_sigaction = count_and_go_on;
		action.sa_flags |= SA_SIGINFO;
	} else {
		action.sa_handler = count_and_jump;
	}
	CHECK(sigaction(SIGUSR1, &action, &found[0]) == 0);
	CHECK(sigaction(SIGUSR2, &action, &found[1]) == 0);
}

static void handle(int with_info)
{
	struct sigaction action = { .sa_flags = SA_RESTART };

	if (with_info)
		action.sa_sigaction = count_info;
	else
		action.sa_handler = count;
	action.sa_flags |= with_info ? SA_SIGINFO : 0;
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
}

/* How a fork child that has no GPU ends by the signal. */
static int child_status(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		raise(SIGUSR1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

/* The next call comes with the test's next line. */
static void say_end(const char *call, bool is_early)
{
	char c;

	printf("%s %s\n", call, is_early ? "early" : "whole");
	fflush(stdout);
	CHECK(read(STDIN_FILENO, &c, 1) == 1);
}

static void *post_when_asked(void *sem)
{
	sigset_t all;
	char c;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	CHECK(read(STDIN_FILENO, &c, 1) == 1);
	sem_post(sem);
	return NULL;
}

/* Each wait is long; a line ends those that start again after a signal. */
static void wait_in_each_way(void)
{
	struct timespec minute = { .tv_sec = 60 };
	struct pollfd nothing = { .fd = -1 };
	pthread_t thread;
	sem_t sem;
	char c;

	say_end("read", read(STDIN_FILENO, &c, 1) != 1);
	CHECK(sem_init(&sem, 0, 0) == 0);
	CHECK(pthread_create(&thread, NULL, post_when_asked, &sem) == 0);
	say_end("sem_wait", sem_wait(&sem) != 0);
	pthread_join(thread, NULL);
	say_end("nanosleep", nanosleep(&minute, NULL) < 0 && errno == EINTR);
	say_end("poll", poll(&nothing, 1, 60000) < 0 && errno == EINTR);
}

int main(int argc, char **argv)
{
	CUdeviceptr addr;
	CUcontext ctx;
	int c;

	CHECK(argc == 2);
	if (!strcmp(argv[1], "before"))
		handle(0);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc_v2(&addr, 4 * MIB));
	if (!strcmp(argv[1], "after") || !strcmp(argv[1], "siginfo"))
		handle(argv[1][0] == 's');
	if (!strcmp(argv[1], "chain") || !strcmp(argv[1], "jump"))
		handle_late(argv[1]);
	printf("ready\n");
	fflush(stdout);
	if (!strcmp(argv[1], "waits")) {
		wait_in_each_way();
		return 0;
	}
	sigsetjmp(back, 1);
	while ((c = getchar()) != EOF) {
		printf("%d %d\n", came[0], came[1]);
		fflush(stdout);
	}
	printf("child %d\n", strcmp(argv[1], "jump") ? child_status() : 0);
	printf("end\n");
	return 0;
}
