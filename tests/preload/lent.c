/*
 * Memory that descriptors hold when the program has let go of it. Which case does what is said at
 * it.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

enum { PIECE = 32 << 20 };

static const CUmemAllocationProp exportable = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
};

static uint64_t begun_bytes;

/* A worker looks whether a descriptor is open, now and then. */
static void charged_is(uint64_t bytes)
{
	SAME(client_charged_at_last(0, begun_bytes + bytes), begun_bytes + bytes);
}

static CUmemGenericAllocationHandle create(void)
{
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate(&handle, PIECE, &exportable, 0));
	return handle;
}

static int export(CUmemGenericAllocationHandle handle)
{
	int fd;

	OK(cuMemExportToShareableHandle(&fd, handle, exportable.requestedHandleTypes, 0));
	return fd;
}

static int dma_buf(CUdeviceptr address, size_t bytes)
{
	int fd;

	OK(cuMemGetHandleForAddressRange(&fd, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					 0));
	return fd;
}

static void start(void)
{
	client_start();
	begun_bytes = client_charged(0);
}

/* handles: two descriptors of one, and a copy; it has gone with the last. */
static void handles(int argc, char **argv)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	int a, b, c;

	(void)argc;
	(void)argv;
	start();
	handle = create();
	a = export(handle);
	b = export(handle);
	charged_is(PIECE);
	OK(cuMemRelease(handle));
	c = dup(b);
	close(a);
	close(b);
	charged_is(PIECE);
	IS(cuMemAlloc_v2(&address, client_limit(0) - begun_bytes), CUDA_ERROR_OUT_OF_MEMORY);
	close(c);
	/* Who asks has it at once. */
	OK(cuMemAlloc_v2(&address, client_limit(0) - begun_bytes));
	OK(cuMemFree_v2(address));
	charged_is(0);
}

/* imported: by the program itself, which lets go of all but that, for as long as the test wants. */
static void imported(int argc, char **argv)
{
	CUmemGenericAllocationHandle handle, import;
	CUdeviceptr address;
	int fd;

	(void)argc;
	(void)argv;
	start();
	handle = create();
	fd = export(handle);
	OK(cuMemImportFromShareableHandle(&import, (void *)(intptr_t)fd,
					  exportable.requestedHandleTypes));
	close(fd);
	OK(cuMemRelease(handle));
	client_pause("imported");
	charged_is(PIECE);
	IS(cuMemAlloc_v2(&address, client_limit(0) - begun_bytes), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemRelease(import));
	charged_is(0);
}

/* context: it ends, and the descriptor stays. */
static void with_context(int argc, char **argv)
{
	CUdeviceptr address;
	CUcontext ctx;
	int fd;

	(void)argc;
	(void)argv;
	start();
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemAlloc_v2(&address, PIECE));
	fd = dma_buf(address, PIECE);
	OK(cuCtxDestroy_v2(ctx));
	charged_is(PIECE);
	close(fd);
	charged_is(0);
}

/* dma-buf: of an allocation, of a small one, of what is mapped, of a pool's. */
static void dma_bufs(int argc, char **argv)
{
	CUdeviceptr large, small, beside, mapped;
	CUmemGenericAllocationHandle handles[2];
	CUmemoryPool pool;
	int fds[4];

	(void)argc;
	(void)argv;
	start();
	OK(cuMemAlloc_v2(&large, PIECE));
	OK(cuMemAlloc_v2(&small, 65536));
	OK(cuMemAlloc_v2(&beside, 65536));
	fds[0] = dma_buf(large + 2 * MIB, 4 * MIB);
	fds[1] = dma_buf(small, 65536);
	OK(cuMemFree_v2(large));
	OK(cuMemFree_v2(small));
	OK(cuMemFree_v2(beside));
	charged_is(PIECE + BLOCK_BYTES);
	close(fds[0]);
	charged_is(BLOCK_BYTES);
	close(fds[1]);
	charged_is(0);
	OK(cuMemAddressReserve(&mapped, 2 * PIECE, 0, 0, 0));
	for (uint64_t i = 0; i < 2; i++) {
		handles[i] = create();
		OK(cuMemMap(mapped + i * PIECE, PIECE, 0, handles[i], 0));
	}
	OK(cuMemSetAccess(mapped, 2 * PIECE,
			  &(CUmemAccessDesc){ .location = exportable.location,
					      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
			  1));
	fds[2] = dma_buf(mapped + PIECE - 2 * MIB, 4 * MIB);
	OK(cuMemUnmap(mapped, 2 * PIECE));
	OK(cuMemRelease(handles[0]));
	OK(cuMemRelease(handles[1]));
	charged_is(2 * PIECE);
	close(fds[2]);
	charged_is(0);
	OK(cuMemPoolCreate(&pool, &(CUmemPoolProps){ .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
						     .location = exportable.location }));
	OK(cuMemAllocFromPoolAsync(&large, PIECE, pool, NULL));
	OK(cuStreamSynchronize(NULL));
	fds[3] = dma_buf(large, PIECE);
	OK(cuMemFreeAsync(large, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemPoolDestroy(pool));
	/* Where a step of the pool begins is the driver's to say: it may be in two. */
	CHECK(client_charged(0) >= begun_bytes + PIECE &&
	      client_charged(0) <= begun_bytes + 2 * (uint64_t)PIECE);
	close(fds[3]);
	charged_is(0);
}

/* outlives [killed]: a child that knows nothing of the GPU has the descriptor, for so long. */
static void outlives(int argc, char **argv)
{
	CUmemGenericAllocationHandle handle;
	int ended[2];
	pid_t child;

	(void)argv;
	start();
	handle = create();
	export(handle);
	CHECK(pipe(ended) == 0);
	child = fork();
	if (child == 0) {
		char byte;

		/* The test's pipes are not this child's to hold; it ends when the test says so. */
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		while (read(STDIN_FILENO, &byte, 1) == 1 && byte != 'e')
			;
		_exit(0);
	}
	CHECK(child > 0);
	if (argc > 0)
		raise(SIGKILL);
	OK(cuMemRelease(handle));
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "handles", handles },   { "imported", imported }, { "context", with_context },
		{ "dma-bufs", dma_bufs }, { "outlives", outlives }, { 0 },
	};

	return client_main(argc, argv, cases);
}
