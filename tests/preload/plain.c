/*
 * A program that has nothing to do with GPUs: memory, files, lookups, threads, children, signals.
 * The process id is asked for as a mark: what is before it is the loader's.
 *
 *   plain [STATUS]    ends with STATUS
 *   plain maps        prints the files that are mapped, and the number of threads
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int handled;

static void handler(int sig)
{
	(void)sig;
	handled++;
}

static void *thread(void *arg)
{
	return arg;
}

static int maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (strchr(line, '/'))
			fputs(strchr(line, '/'), stdout);
	if (f)
		fclose(f);
	f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "Threads:", 8))
			fputs(line, stdout);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t t;
	int status = 0;
	pid_t child;

	if (argc > 1 && !strcmp(argv[1], "maps"))
		return maps();
	(void)!getppid();
	free(malloc(1 << 20));
	printf("%s\n", dlsym(RTLD_DEFAULT, "printf") ? "found" : "not found");
	printf("%s\n", dlsym(RTLD_DEFAULT, "no_such_function") ? "found" : "not found");
	if (pthread_create(&t, NULL, thread, NULL) == 0)
		pthread_join(t, NULL);
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(3);
	waitpid(child, &status, 0);
	printf("child %d, signal %d\n", WEXITSTATUS(status), handled);
	return argc > 1 ? atoi(argv[1]) : 0;
}
