/* What the tests of the software driver share: expectations, and a machine of the test's own. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "kernels.h"

#define MIB ((uint64_t)1 << 20)

static int check_failures;

static inline const char *check_name(CUresult res)
{
	const char *name = NULL;

	return cuGetErrorName(res, &name) == CUDA_SUCCESS && name ? name : "no CUresult";
}

static inline void check_result(const char *file, int line, const char *call, CUresult got,
				CUresult want)
{
	if (got == want)
		return;
	check_failures++;
	printf("%s:%d: %s: %s (%d), want %s\n", file, line, call, check_name(got), (int)got,
	       check_name(want));
}

static inline void check_true(const char *file, int line, const char *text, bool is_true)
{
	if (is_true)
		return;
	check_failures++;
	printf("%s:%d: not true: %s\n", file, line, text);
}

/* The call answers exactly this. */
#define EXPECT(call, want) check_result(__FILE__, __LINE__, #call, call, want)
#define OK(call) EXPECT(call, CUDA_SUCCESS)
#define TRUE(condition) check_true(__FILE__, __LINE__, #condition, condition)

/* A machine of the test's own, described like RATION_SIM; to be called first. */
static inline void check_machine(const char *description)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/dev/shm/sim-test-%d", (int)getpid());
	unlink(path);
	setenv("RATION_SIM_FILE", path, 1);
	setenv("RATION_SIM", description, 1);
}

/* A machine, an initialised driver and device 0's primary context, current. */
static inline CUcontext check_start(const char *description)
{
	CUcontext ctx = NULL;

	check_machine(description);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

/* A kernel of a module that is loaded for it. */
static inline CUfunction check_kernel(const char *name)
{
	CUmodule module = NULL;
	CUfunction func = NULL;

	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&func, module, name));
	return func;
}

/* Launches one thread. */
static inline CUresult check_launch(CUfunction func, CUstream stream, void **params)
{
	return cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

/* Keeps a stream busy for a while. */
static inline void check_spin(CUfunction spin, CUstream stream, unsigned long long ms)
{
	unsigned long long ns = ms * 1000000;
	void *params[] = { &ns };

	OK(check_launch(spin, stream, params));
}

/* A host function that waits until the test sets *flag: holds its stream for as long as it likes. */
static inline void check_hold(void *flag)
{
	while (!__atomic_load_n((int *)flag, __ATOMIC_ACQUIRE))
		usleep(200);
}

static inline void check_let_go(int *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static inline uint64_t check_free_bytes(void)
{
	size_t free_bytes = 0, total_bytes = 0;

	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	return free_bytes;
}

static inline int check_end(void)
{
	const char *path = getenv("RATION_SIM_FILE");

	if (path)
		unlink(path);
	return check_failures ? 1 : 0;
}

/* Runs a child to its end; true when it exited with 0. */
static inline bool check_child(int (*body)(void *), void *arg)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		check_failures = 0;
		status = body(arg);
		fflush(stdout);
		_exit(status || check_failures ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
