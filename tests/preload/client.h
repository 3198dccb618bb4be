/*
 * What the client programs share: checks that end the program with the place and the reason, the
 * tenant's figures as the region has them, and pauses that let the test look from outside.
 */
#pragma once

#include <fcntl.h>
#include <ration/region.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/cuda.h"

/* Under a sanitizer, which judges by what was done and not by what came of it, less is enough. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CLIENT_SANITIZED 1
#else
#define CLIENT_SANITIZED 0
#endif

#define MIB (UINT64_C(1) << 20)
#define BLOCK_BYTES (2 * MIB)

#define CHECK(cond)                                                                \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			_exit(1);                                                  \
		}                                                                  \
	} while (0)

/* The call answers `want`. */
#define IS(call, want)                                                                        \
	do {                                                                                  \
		CUresult is_got = (call);                                                     \
		if (is_got != (want)) {                                                       \
			fprintf(stderr, "%s:%d: %s: %d, not %d\n", __FILE__, __LINE__, #call, \
				(int)is_got, (int)(want));                                    \
			_exit(1);                                                             \
		}                                                                             \
	} while (0)

#define OK(call) IS(call, CUDA_SUCCESS)

/* The two figures are the same. */
#define SAME(a, b)                                                                                 \
	do {                                                                                       \
		unsigned long long same_a = (unsigned long long)(a),                               \
				   same_b = (unsigned long long)(b);                               \
		if (same_a != same_b) {                                                            \
			fprintf(stderr, "%s:%d: %s is %llu, %s is %llu\n", __FILE__, __LINE__, #a, \
				same_a, #b, same_b);                                               \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* A named part of a client program. */
struct client_case {
	const char *name;
	void (*run)(int argc, char **argv);
};

/* The image of a module that the driver compiles. */
#define CLIENT_MODULE                                                                 \
	".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty()\n{\n" \
	"\tret;\n}\n"

/* The region, read-only, once it is there: RATION_REGION or HAMi's name for it. */
static inline const char *client_region(void)
{
	static const char *map;
	const char *path = getenv("RATION_REGION");
	int fd;

	if (map)
		return map;
	fd = open(path ? path : getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE"), O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	map = mmap(NULL, RATION_FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	close(fd);
	return map;
}

static inline const struct ration_region *client_own(void)
{
	return (const struct ration_region *)(client_region() + RATION_OFFSET);
}

static inline const struct hami_region *client_hami(void)
{
	return (const struct hami_region *)client_region();
}

/* What the tenant is charged on a device. */
static inline uint64_t client_charged(int dev)
{
	return __atomic_load_n(&client_own()->accounts[dev].total_bytes, __ATOMIC_ACQUIRE);
}

static inline bool client_is_movable(void)
{
	return client_own()->flags & (RATION_FLAG_MOVABLE | RATION_FLAG_OVERSUBSCRIBE);
}

/*
 * That it is `want`: of a movable tenant soon, since what its objects were freed it gives back when
 * nothing is freed for a while.
 */
static inline uint64_t client_charged_soon(int dev, uint64_t want)
{
	for (int i = 0; client_is_movable() && i < 300 && client_charged(dev) != want; i++)
		usleep(10000);
	return client_charged(dev);
}
#define CHARGED_IS(dev, want) SAME(client_charged_soon(dev, want), want)

/* That it becomes `want` when a worker looks, now and then, at what no call tells. */
static inline uint64_t client_charged_at_last(int dev, uint64_t want)
{
	for (int i = 0; i < 3000 && client_charged(dev) != want; i++)
		usleep(10000);
	return client_charged(dev);
}

static inline uint64_t client_limit(int dev)
{
	return __atomic_load_n(&client_hami()->limit_bytes[dev], __ATOMIC_ACQUIRE);
}

/* Says a figure to the test. */
static inline void client_say(const char *name, uint64_t value)
{
	printf("%s %llu\n", name, (unsigned long long)value);
	fflush(stdout);
}

/* Says `word` and waits until the test lets it go on. */
static inline void client_pause(const char *word)
{
	char c;

	printf("%s\n", word);
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

/* As client_pause(); where the test is gone the program ends with 1. */
static inline void client_pause_or_end(const char *word)
{
	char line[16];

	puts(word);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		_exit(1);
}

/* Of a node that launches one thread of a function or kernel; the other is NULL. */
static inline CUDA_KERNEL_NODE_PARAMS client_kernel(CUfunction func, CUkernel kern, void **params)
{
	return (CUDA_KERNEL_NODE_PARAMS){ .func = func,
					  .gridDimX = 1,
					  .gridDimY = 1,
					  .gridDimZ = 1,
					  .blockDimX = 1,
					  .blockDimY = 1,
					  .blockDimZ = 1,
					  .kernelParams = params,
					  .kern = kern };
}

/* Initialises the driver and makes the primary context of device 0 current. */
static inline CUcontext client_start(void)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

/* Runs the case that argv[1] names. */
static inline int client_main(int argc, char **argv, const struct client_case *cases)
{
	for (; argc > 1 && cases->name; cases++) {
		if (strcmp(cases->name, argv[1]) != 0)
			continue;
		cases->run(argc - 2, argv + 2);
		return 0;
	}
	fprintf(stderr, "%s: no such case\n", argc > 1 ? argv[1] : argv[0]);
	return 2;
}
