/*
 * Starts two commands in turn, many times each, and prints how long each took to start and end.
 *
 *   spawn COUNT [NAME=VALUE...] -- COMMAND ARG... -- [NAME=VALUE...] -- COMMAND ARG...
 *
 * Prints one line per pair, "A B" in nanoseconds. The order within a pair changes each time, so that
 * neither profits from being the second.
 */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

struct command {
	char **argv;
	char **envp;
};

static void die(const char *what)
{
	fprintf(stderr, "spawn: %s\n", what);
	exit(2);
}

/* Splits the arguments at the next "--". */
static char **take_words(char ***at)
{
	char **words = *at;

	while (**at && strcmp(**at, "--") != 0)
		(*at)++;
	if (**at)
		*(*at)++ = NULL;
	return words;
}

/* Our environment and these variables. */
static char **environment(char **more)
{
	size_t own = 0, added = 0;
	char **envp;

	while (environ[own])
		own++;
	while (more[added])
		added++;
	envp = calloc(own + added + 1, sizeof(*envp));
	if (!envp)
		die("out of memory");
	memcpy(envp, more, added * sizeof(*envp));
	memcpy(envp + added, environ, own * sizeof(*envp));
	return envp;
}

static struct command take_command(char ***at)
{
	struct command c;

	c.envp = environment(take_words(at));
	c.argv = take_words(at);
	if (!c.argv[0])
		die("usage: spawn COUNT [NAME=VALUE...] -- COMMAND... -- [NAME=VALUE...] -- COMMAND...");
	return c;
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long long run_ns(const struct command *c)
{
	long long start_ns = now_ns();
	int status, rc;
	pid_t pid;

	rc = posix_spawn(&pid, c->argv[0], NULL, NULL, c->argv, c->envp);
	if (rc != 0) {
		errno = rc;
		perror(c->argv[0]);
		exit(2);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0) {
		fprintf(stderr, "spawn: %s ended with status %x\n", c->argv[0], (unsigned)status);
		exit(1);
	}
	return now_ns() - start_ns;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0;
	char **at = argv + (argc > 1 ? 2 : 1);
	struct command a = take_command(&at), b = take_command(&at);

	for (int i = 0; i < count; i++) {
		long long a_ns, b_ns;

		if (i % 2) {
			a_ns = run_ns(&a);
			b_ns = run_ns(&b);
		} else {
			b_ns = run_ns(&b);
			a_ns = run_ns(&a);
		}
		printf("%lld %lld\n", a_ns, b_ns);
	}
	return 0;
}
