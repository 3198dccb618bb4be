/*
 * Memory that others than the GPU may have the addresses of stays where it is. `pins WHAT [...]`
 * has two pieces, does WHAT to one of them and says so; the test looks where they are while the
 * program waits. It ends with the bytes that it wrote in both.
 */
#include <dlfcn.h>

#include "client.h"

enum { PIECE_BYTES = 20 * 1024 * 1024, WORDS = PIECE_BYTES / 4 };

static CUdeviceptr piece, other;

static void dma_buf(const char *arg)
{
	int fd = -1;

	(void)arg;
	OK(cuMemGetHandleForAddressRange(&fd, piece, PIECE_BYTES,
					 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	CHECK(fd >= 0 && close(fd) == 0);
	/* What leaves the allocation is refused, and what is no handle for a range. */
	IS(cuMemGetHandleForAddressRange(&fd, other, PIECE_BYTES + 4096,
					 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
	   CUDA_ERROR_INVALID_VALUE);
}

static void capable(const char *arg)
{
	unsigned is_capable = 7;

	(void)arg;
	OK(cuPointerGetAttribute(&is_capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
				 piece + 4096));
	CHECK(is_capable <= 1);
}

/* One of several questions. */
static void capable_of_many(const char *arg)
{
	unsigned is_capable = 7, type = 0;
	CUpointer_attribute whats[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE };
	void *datas[] = { &type, &is_capable };

	(void)arg;
	OK(cuPointerGetAttributes(2, whats, datas, piece));
	SAME(type, CU_MEMORYTYPE_DEVICE);
}

/* Some drivers have none: who asks may have had them from another. */
static void tokens(const char *arg)
{
	uint64_t both[2];

	(void)arg;
	cuPointerGetAttribute(both, CU_POINTER_ATTRIBUTE_P2P_TOKENS, piece);
}

static void sync_copies(const char *arg)
{
	int on = 1, got = 0;

	(void)arg;
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, piece));
	OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, piece));
	SAME(got, 1);
	OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, other));
	SAME(got, 0);
}

static void ipc(const char *arg)
{
	CUipcMemHandle handle;

	(void)arg;
	OK(cuIpcGetMemHandle(&handle, piece));
}

static void library(const char *arg)
{
	CHECK(dlopen(arg, RTLD_NOW));
}

static void nothing(const char *arg)
{
	(void)arg;
}

static const struct {
	const char *name;
	void (*run)(const char *arg);
} ways[] = {
	{ "dma-buf", dma_buf }, { "capable", capable },  { "capable-of-many", capable_of_many },
	{ "tokens", tokens },   { "sync", sync_copies }, { "ipc", ipc },
	{ "library", library }, { "nothing", nothing },
};

static void check(CUdeviceptr addr, uint32_t value)
{
	static uint32_t words[WORDS];

	OK(cuMemcpyDtoH_v2(words, addr, PIECE_BYTES));
	for (int i = 0; i < WORDS; i++)
		SAME(words[i], value);
}

int main(int argc, char **argv)
{
	CUcontext ctx;

	CHECK(argc > 1);
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemAlloc_v2(&other, PIECE_BYTES));
	OK(cuMemAlloc_v2(&piece, PIECE_BYTES));
	OK(cuMemsetD32_v2(piece, 0x5a5a1234, WORDS));
	OK(cuMemsetD32_v2(other, 0x0badcafe, WORDS));
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].name, argv[1]) == 0)
			ways[i].run(argv[2]);
	client_pause_or_end("ready");
	check(piece, 0x5a5a1234);
	check(other, 0x0badcafe);
	OK(cuMemFree_v2(piece));
	OK(cuMemAlloc_v2(&piece, PIECE_BYTES));
	client_pause_or_end("freed");
	puts("end");
	return 0;
}
