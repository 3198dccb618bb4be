#include "place.h"

#include "base/clock.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define AWAIT_NS (60 * NSEC_PER_SEC)

static char path[64];

void place_make(const char *config)
{
	static int number;

	(void)snprintf(path, sizeof(path), "/dev/shm/ration-test-%d-%d", getpid(), number++);
	unlink(path);
	setenv("RATION_SIM_FILE", path, 1);
	if (config)
		setenv("RATION_SIM", config, 1);
	else
		unsetenv("RATION_SIM");
}

const char *place_path(void)
{
	return path;
}

void place_remove(void)
{
	unlink(path);
}

void *place_shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return memory;
}

pid_t place_start(int (*body)(void *arg), void *arg)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(body(arg));
}

int place_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int place_run(int (*body)(void *arg), void *arg)
{
	return place_wait(place_start(body, arg));
}

void place_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	place_wait(pid);
}

static bool write_map(const char *file, const char *text)
{
	FILE *map = fopen(file, "we");

	if (!map)
		return false;
	(void)fputs(text, map);
	return !fclose(map);
}

static bool enter_user_namespace(int flags)
{
	char uids[32], gids[32];

	(void)snprintf(uids, sizeof(uids), "0 %u 1", getuid());
	(void)snprintf(gids, sizeof(gids), "0 %u 1", getgid());
	return !unshare(CLONE_NEWUSER | flags) && write_map("/proc/self/setgroups", "deny") &&
	       write_map("/proc/self/uid_map", uids) && write_map("/proc/self/gid_map", gids);
}

bool place_unshare(int flags)
{
	if (unshare(flags) && !enter_user_namespace(flags))
		return false;
	return !(flags & CLONE_NEWNS) || !mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

bool place_await(_Atomic uint32_t *flag, uint32_t value)
{
	int64_t end_ns = clock_now_ns() + AWAIT_NS;

	while (atomic_load(flag) < value) {
		if (clock_now_ns() > end_ns)
			return false;
		clock_sleep_ns(100 * NSEC_PER_USEC);
	}
	return true;
}
