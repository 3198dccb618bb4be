/*
 * The driver's functions as a program gets them, and as they are without anything in front: by
 * libc's own dlsym, which a library in LD_PRELOAD cannot stand before.
 */
#pragma once

#include "abi/cuda.h"
#include "abi/nvml.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MIB (UINT64_C(1) << 20)

typedef void *driver_dlsym(void *handle, const char *name);

/* Ends the program with a line that says what did not work. */
static inline void driver_fail(const char *what, int res)
{
	fprintf(stderr, "%s: %d\n", what, res);
	exit(1);
}

#define CHECK(call)                                    \
	do {                                           \
		int check_res = (int)(call);           \
		if (check_res != 0)                    \
			driver_fail(#call, check_res); \
	} while (0)

static inline void *driver_open(const char *soname)
{
	void *handle = dlopen(soname, RTLD_NOW);

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return handle;
}

/* libc's dlsym; its symbol has a version, ours has none. */
static inline driver_dlsym *driver_own_dlsym(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	static const char *const sonames[] = { "libc.so.6", "libdl.so.2" };

	for (int s = 0; s < 2; s++) {
		void *handle = dlopen(sonames[s], RTLD_LAZY | RTLD_NOLOAD);

		for (int v = 0; handle && v < 3; v++) {
			void *found = dlvsym(handle, "dlsym", versions[v]);

			if (found)
				return (driver_dlsym *)found;
		}
	}
	driver_fail("libc has no dlsym", 0);
	return NULL;
}

/* A function of the driver as this program gets it. */
#define DRIVER(handle, sym) ((__typeof__(&sym))dlsym(handle, #sym))
/* The driver's own. */
#define DRIVER_OWN(handle, sym) ((__typeof__(&sym))driver_own_dlsym()(handle, #sym))

/* Starts the driver, with device 0's primary context current. */
static inline void driver_begin(void *cuda)
{
	CUcontext ctx;

	CHECK(DRIVER(cuda, cuInit)(0));
	CHECK(DRIVER(cuda, cuDevicePrimaryCtxRetain)(&ctx, 0));
	CHECK(DRIVER(cuda, cuCtxSetCurrent)(ctx));
}

static inline int64_t driver_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
