/*
 * Child processes of a test. A child runs a body and exits with 0; what it finds wrong it says by
 * CHECK, what cannot be tried here by child_skip(). Parent and child talk by single characters.
 */
#pragma once

#include "check.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_FAILED = 99, CHILD_SKIPPED = 77, CHILD_WAIT_MS = 60000 };

struct child {
	pid_t pid;
	int fd; /* to the child */
};

/* The child's own end. */
static int child_fd = -1;

#define CHECK(cond)                                                                          \
	do {                                                                                 \
		if (!(cond)) {                                                               \
			fprintf(stderr, "%s:%d: child: %s (errno %s)\n", __FILE__, __LINE__, \
				#cond, strerror(errno));                                     \
			_exit(CHILD_FAILED);                                                 \
		}                                                                            \
	} while (0)

static inline void child_skip(const char *reason)
{
	fprintf(stderr, "          skipped: %s\n", reason);
	_exit(CHILD_SKIPPED);
}

static inline char child_read(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c = 0;
	int rc;

	do
		rc = poll(&p, 1, CHILD_WAIT_MS);
	while (rc < 0 && errno == EINTR);
	return rc == 1 && read(fd, &c, 1) == 1 ? c : 0;
}

/* In the child: says `c` to the parent. */
static inline void child_say(char c)
{
	CHECK(send(child_fd, &c, 1, MSG_NOSIGNAL) == 1);
}

/* In the child: waits for the parent's next word. */
static inline char child_hear(void)
{
	char c = child_read(child_fd);

	CHECK(c != 0);
	return c;
}

static inline struct child child_start(void (*body)(void *), void *arg)
{
	struct child c;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	fflush(NULL);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		child_fd = fds[1];
		body(arg);
		_exit(0);
	}
	close(fds[1]);
	c.fd = fds[0];
	return c;
}

/* Waits until the child says something; 0 when it ended instead. */
static inline char child_word(struct child *c)
{
	return child_read(c->fd);
}

/* Waits until the child says `word`. */
static inline void child_await(struct child *c, char word)
{
	char got = child_word(c);

	if (got != word)
		fail_msg("the child said '%c' for '%c'", got ? got : '-', word);
}

static inline void child_tell(struct child *c, char word)
{
	assert_int_equal(send(c->fd, &word, 1, MSG_NOSIGNAL), 1);
}

/* Its exit status, or 128 + the signal that ended it. */
static inline int child_status(struct child *c)
{
	int status;

	while (waitpid(c->pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	close(c->fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void child_kill(struct child *c)
{
	kill(c->pid, SIGKILL);
	child_status(c);
}

/* Waits for its end, which must be a good one. */
static inline void child_end(struct child *c)
{
	int status = child_status(c);

	if (status == CHILD_SKIPPED)
		skip();
	if (status != 0)
		fail_msg("the child ended with %d", status);
}

/* A child that has said 'k'; the test is skipped if the child cannot be had here. */
static inline struct child child_begin(void (*body)(void *), void *arg)
{
	struct child c = child_start(body, arg);

	if (child_word(&c) != 'k') {
		child_end(&c);
		fail_msg("the child said nothing");
	}
	return c;
}

/* Runs the body in a child, to its end. */
static inline void child_run(void (*body)(void *), void *arg)
{
	struct child c = child_start(body, arg);

	child_end(&c);
}
