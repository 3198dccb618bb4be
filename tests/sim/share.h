/* Two processes of a test on one machine: descriptors from one to the other. */
#pragma once

#include "../fd.h"
#include "check.h"

static inline void share_send_fd(int socket, int fd)
{
	TRUE(fd_send(socket, fd));
}

static inline int share_receive_fd(int socket)
{
	return fd_receive(socket);
}

/* Initialises a driver without removing the machine that another process uses. */
static inline void share_start(void)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
}

/* Runs `importer` in a child that is there before this process's driver, and `exporter` here, with a
 * socket between them. */
static inline void share_run(int (*importer)(int socket), void (*exporter)(int socket))
{
	int pair[2], status = -1;
	pid_t pid;

	TRUE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		check_failures = 0;
		status = importer(pair[1]);
		fflush(stdout);
		_exit(status || check_failures ? 1 : 0);
	}
	close(pair[1]);
	share_start();
	exporter(pair[0]);
	close(pair[0]);
	waitpid(pid, &status, 0);
	TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
