/*
 * A process of a tenant that does what endangers its place in the region: closes what it has not
 * opened, changes its root directory or what it sees there, forks. The words of the command line
 * are its steps, in order.
 */
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "abi/nvml.h"
#include "client.h"

static CUdeviceptr last;

/* Looks at what NVML says, as a member of nothing. */
static void view(const char *arg)
{
	nvmlDevice_t device;
	nvmlMemory_t memory;

	(void)arg;
	CHECK(nvmlInit_v2() == NVML_SUCCESS &&
	      nvmlDeviceGetHandleByIndex_v2(0, &device) == NVML_SUCCESS &&
	      nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS);
}

static void init(const char *arg)
{
	(void)arg;
	OK(cuInit(0));
}

/* The primary context, of device 0. */
static void context(const char *arg)
{
	(void)arg;
	client_start();
}

/* Closes every descriptor but the standard ones, as daemons do. */
static void close_all(const char *arg)
{
	(void)arg;
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
}

/* As that, and what the library puts there next would be under numbers of the program's. */
static void fill(const char *arg)
{
	(void)arg;
	for (int fd = 3; fd < 1024; fd++)
		dup2(STDERR_FILENO, fd);
}

static void root(const char *arg)
{
	CHECK(chroot(arg) == 0 && chdir("/") == 0);
}

/* Goes into a mount namespace of its own, where the directory is an empty one. */
static void cover(const char *arg)
{
	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("none", arg, "tmpfs", 0, "size=8m") == 0);
}

static void take(const char *arg)
{
	OK(cuMemAlloc_v2(&last, strtoull(arg, NULL, 10) * MIB));
}

/* Until it is had. */
static void insist(const char *arg)
{
	CUresult res;

	alarm(60);
	do
		res = cuMemAlloc_v2(&last, strtoull(arg, NULL, 10) * MIB);
	while (res == CUDA_ERROR_OUT_OF_MEMORY);
	OK(res);
	alarm(0);
}

static void refused(const char *arg)
{
	CUdeviceptr p;

	IS(cuMemAlloc_v2(&p, strtoull(arg, NULL, 10) * MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

static void refused_init(const char *arg)
{
	(void)arg;
	CHECK(cuInit(0) != CUDA_SUCCESS);
}

static void give(const char *arg)
{
	(void)arg;
	OK(cuMemFree_v2(last));
}

/* Becomes a program that does the rest. */
static char **rest;

static void exec_rest(const char *arg)
{
	(void)arg;
	rest[-1] = (char *)"keeps";
	execv("/proc/self/exe", rest - 1);
	CHECK(false);
}

/* Asks for pieces of 1 MiB until there are no more; how many there were. */
static void most(const char *arg)
{
	uint64_t got = 0;
	CUdeviceptr p;

	(void)arg;
	while (cuMemAlloc_v2(&p, 2 * MIB) == CUDA_SUCCESS)
		got += 2;
	client_say("got", got);
}

/* Gives all back that it has of device 0, the context too. */
static void reset(const char *arg)
{
	(void)arg;
	OK(cuDevicePrimaryCtxReset_v2(0));
}

static void pause_at(const char *arg)
{
	client_pause(arg);
}

static void nap(const char *arg)
{
	usleep((unsigned)atoi(arg) * 1000);
}

/* A child goes on with the next steps; the parent ends as it does. */
static void go_on_in_child(const char *arg)
{
	pid_t child = fork();
	int status;

	(void)arg;
	CHECK(child >= 0);
	if (child > 0) {
		CHECK(waitpid(child, &status, 0) == child);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* A child that has what it inherits, and does nothing until the test is over. */
static void leave_child(const char *arg)
{
	(void)arg;
	if (fork() == 0) {
		/* Its end is not the test's to wait for. */
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		alarm(60);
		pause();
		_exit(0);
	}
}

static const struct step {
	const char *name;
	void (*run)(const char *arg);
	bool has_arg;
} steps[] = {
	{ "view", view, false },
	{ "init", init, false },
	{ "init-refused", refused_init, false },
	{ "context", context, false },
	{ "close", close_all, false },
	{ "fill", fill, false },
	{ "root", root, true },
	{ "cover", cover, true },
	{ "take", take, true },
	{ "insist", insist, true },
	{ "refused", refused, true },
	{ "give", give, false },
	{ "most", most, false },
	{ "reset", reset, false },
	{ "pause", pause_at, true },
	{ "nap", nap, true },
	{ "child", go_on_in_child, false },
	{ "leave", leave_child, false },
	{ "exec", exec_rest, false },
};

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const struct step *s = steps;

		while (s < steps + sizeof(steps) / sizeof(*steps) && strcmp(s->name, argv[i]) != 0)
			s++;
		if (s == steps + sizeof(steps) / sizeof(*steps)) {
			fprintf(stderr, "%s: no such step\n", argv[i]);
			return 2;
		}
		i += s->has_arg;
		CHECK(i < argc);
		rest = argv + i + 1;
		s->run(argv[i]);
	}
	return 0;
}
