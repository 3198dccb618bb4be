/* What was freed is had again without the device being asked for more. */
#include "client_take.h"

#include <poll.h>
#include <sys/wait.h>

/* What the tenant's objects have of the card. */
static uint64_t on_card(void)
{
	uint64_t bytes = 0;

	for (int i = 0; i < HAMI_SLOTS; i++)
		bytes += __atomic_load_n(&client_own()->residency[i].card_bytes[0],
					 __ATOMIC_RELAXED);
	return bytes;
}

static CUdeviceptr must_take(uint64_t bytes)
{
	CUdeviceptr addr;

	OK(cuMemAlloc_v2(&addr, bytes));
	return addr;
}

/* While nothing is submitted a piece is free at once: one block does for as many as come. */
static void small(int argc, char **argv)
{
	CUdeviceptr kept;

	(void)argc;
	(void)argv;
	kept = must_take(4096);
	for (int i = 0; i < 20000; i++) {
		OK(cuMemFree_v2(must_take(MIB)));
		if (on_card() > 8 * BLOCK_BYTES) {
			fprintf(stderr, "%d: %llu MiB\n", i, (unsigned long long)(on_card() / MIB));
			_exit(1);
		}
	}
	OK(cuMemFree_v2(kept));
}

static uint64_t idle(void)
{
	uint64_t blocks = 0;

	for (int i = 0; i < HAMI_SLOTS; i++)
		blocks += __atomic_load_n(&client_own()->residency[i].idle_blocks[0],
					  __ATOMIC_ACQUIRE);
	return blocks * BLOCK_BYTES;
}

static uint64_t free_bytes(void)
{
	size_t bytes, total_bytes;

	OK(cuMemGetInfo_v2(&bytes, &total_bytes));
	return bytes;
}

/* Has it and frees it, until it is kept: the worker has to have begun, and may come between. */
static CUdeviceptr keep(uint64_t bytes)
{
	CUdeviceptr addr = 0;

	for (int i = 0; i < 1000 && (!addr || idle() < bytes); i++) {
		if (addr)
			usleep(10000);
		addr = must_take(bytes);
		OK(cuMemFree_v2(addr));
	}
	CHECK(idle() >= bytes);
	return addr;
}

/* The same addresses, which hold what is written; to who asks it is free meanwhile. */
static void large(int argc, char **argv)
{
	static const uint64_t sizes[] = { 2 * MIB, 16 * MIB, 300 * MIB, 512 * MIB };
	uint64_t before_bytes = free_bytes();
	unsigned word;

	(void)argc;
	(void)argv;
	for (int i = 0; i < 4; i++) {
		CUdeviceptr addr = keep(sizes[i]), again = 0, base;
		size_t size_bytes;

		SAME(free_bytes(), before_bytes);
		IS(cuMemGetAddressRange_v2(&base, &size_bytes, addr), CUDA_ERROR_NOT_FOUND);
		IS(cuMemFree_v2(addr), CUDA_ERROR_INVALID_VALUE);
		IS(cuMemsetD32_v2(addr, 1, 1), CUDA_ERROR_INVALID_VALUE);
		/* But for those that the worker finds to be old. */
		for (int k = 0; k < 100 && again != addr; k++) {
			addr = keep(sizes[i]);
			again = must_take(sizes[i]);
		}
		SAME(again, addr);
		OK(cuMemGetAddressRange_v2(&base, &size_bytes, addr + sizes[i] - 1));
		SAME(base, addr);
		SAME(size_bytes, sizes[i]);
		OK(cuMemsetD32_v2(again, (unsigned)i + 7, sizes[i] / 4));
		OK(cuMemcpyDtoH_v2(&word, again + sizes[i] - 4, 4));
		SAME(word, i + 7);
		OK(cuMemFree_v2(again));
	}
	/* It goes by itself. */
	for (int i = 0; i < 500 && on_card(); i++)
		usleep(10000);
	SAME(on_card(), 0);
	SAME(free_bytes(), before_bytes);
}

static bool is_told_to_end(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 20) != 0;
}

/* Keeps so much at hand, until it was asked for it and is told to end. */
static void busy(int argc, char **argv)
{
	uint64_t bytes = strtoull(argc ? argv[0] : "0", NULL, 10);
	bool is_asked = false;
	int rounds = 0;

	keep(bytes);
	puts("kept");
	while (!is_told_to_end()) {
		is_asked |= idle() == 0;
		if (is_asked || ++rounds % 10)
			continue;
		OK(cuMemFree_v2(must_take(bytes)));
	}
	client_say("asked", is_asked || idle() == 0);
}

/* Until it is had: who keeps it may be using it just now, as busy() does five times a second. */
#define HAD(call)                                                  \
	do {                                                       \
		int had_tries = 0;                                 \
		while ((call) != CUDA_SUCCESS && ++had_tries < 20) \
			usleep(20000);                             \
		CHECK(had_tries < 20);                             \
	} while (0)

/* Has so much of a kind, in one piece. */
static void has(int argc, char **argv)
{
	CUdeviceptr addr = 0;
	struct piece piece;
	uint64_t bytes;

	CHECK(argc == 2);
	bytes = strtoull(argv[1], NULL, 10);
	if (!strcmp(argv[0], "async")) {
		HAD(cuMemAllocAsync(&addr, bytes, NULL));
		OK(cuStreamSynchronize(NULL));
		OK(cuMemFreeAsync(addr, NULL));
		return;
	}
	HAD(take(&piece, argv[0], bytes));
	OK(give(&piece));
}

/* From another root directory. */
static void elsewhere(int argc, char **argv)
{
	CHECK(argc == 3);
	CHECK(chroot(argv[2]) == 0 && chdir("/") == 0);
	has(2, argv);
}

/* left BYTES: they are refused, and what is said to be free then can be had; later they can too. */
static void left(int argc, char **argv)
{
	uint64_t bytes;
	CUdeviceptr addr;
	CUresult res;

	CHECK(argc == 1);
	bytes = strtoull(argv[0], NULL, 10);
	IS(cuMemAlloc_v2(&addr, bytes), CUDA_ERROR_OUT_OF_MEMORY);
	addr = must_take(free_bytes());
	CHECK(free_bytes() < 2 * BLOCK_BYTES);
	client_pause("left");
	OK(cuMemFree_v2(addr));
	/* Asked in vain, it is not asked again for a second. */
	for (int i = 0; i < 300; i++) {
		res = cuMemAlloc_v2(&addr, bytes);
		if (res == CUDA_SUCCESS)
			break;
		IS(res, CUDA_ERROR_OUT_OF_MEMORY);
		usleep(10000);
	}
	OK(res);
	OK(cuMemFree_v2(addr));
}

/* What it keeps at hand itself is its own to have again as something else. */
static void own(int argc, char **argv)
{
	CHECK(argc == 2);
	keep(strtoull(argv[1], NULL, 10) - 32 * MIB);
	has(argc, argv);
}

/* Held, it has nothing on the card, nor keeps what it frees meanwhile. */
static void held(int argc, char **argv)
{
	CUdeviceptr addr;

	(void)argc;
	(void)argv;
	addr = must_take(32 * MIB);
	keep(64 * MIB);
	client_pause("kept");
	keep(64 * MIB);
	OK(cuMemFree_v2(addr));
	puts("end");
}

static void forks(int argc, char **argv)
{
	CUdeviceptr addr = keep(64 * MIB);
	int status;
	pid_t pid;

	(void)argc;
	(void)argv;
	pid = fork();
	if (pid == 0) {
		CUdeviceptr mine;

		IS(cuMemAlloc_v2(&mine, 64 * MIB), CUDA_ERROR_NOT_INITIALIZED);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	addr = must_take(64 * MIB);
	OK(cuMemsetD32_v2(addr, 3, 16 * MIB));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(addr));
}

/* What work may still use is not given out, however it was freed. */
static void running(int argc, char **argv)
{
	CUdeviceptr addr, other;
	CUstream first, second;

	(void)argc;
	(void)argv;
	/* Neither waits for the other. */
	OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	keep(4 * MIB);
	addr = must_take(4 * MIB);
	for (int i = 0; i < 12; i++) {
		unsigned word = 0;

		for (unsigned k = 0; k < 16; k++)
			OK(cuMemsetD32Async(addr, 1, MIB, first));
		OK(cuMemFree_v2(addr));
		other = must_take(4 * MIB);
		OK(cuMemsetD32Async(other, 2, MIB, second));
		OK(cuStreamSynchronize(second));
		OK(cuCtxSynchronize());
		OK(cuMemcpyDtoH_v2(&word, other + 4 * MIB - 4, 4));
		SAME(word, 2);
		addr = other;
	}
	OK(cuMemFree_v2(addr));
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "small", small }, { "large", large },     { "busy", busy },
		{ "has", has },     { "own", own },         { "held", held },
		{ "forks", forks }, { "running", running }, { "elsewhere", elsewhere },
		{ "left", left },   { NULL, NULL },
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	client_start();
	return client_main(argc, argv, cases);
}
