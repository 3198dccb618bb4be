/*
 * What pools hold that two processes share: each case is one of docs/real-gpu.md. The importer does
 * what it is asked to by a letter.
 */
#include <sys/mman.h>

#include "kept.h"

static CUmemPoolPtrExportData *data; /* what both see */
static int socket_of;

static int importer(int socket)
{
	CUmemoryPool pool = NULL;
	CUdeviceptr address = 0;
	cuuint64_t bytes;
	char what;

	share_start();
	TRUE(write(socket, ".", 1) == 1);
	while (read(socket, &what, 1) == 1) {
		if (what == 'p') {
			int fd = share_receive_fd(socket);

			OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, POSIX,
							      0));
			close(fd);
		} else if (what == 'i') {
			OK(cuMemPoolImportPointer(&address, pool, data));
		} else if (what == 'f') {
			OK(cuMemFree_v2(address));
		} else if (what == 'd') {
			OK(cuMemPoolDestroy(pool));
		} else if (what == 'n') {
			EXPECT(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
		} else if (what == 't') {
			EXPECT(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
			EXPECT(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
						     &bytes),
			       CUDA_ERROR_INVALID_VALUE);
			EXPECT(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
						     &bytes),
			       CUDA_ERROR_INVALID_VALUE);
		} else if (what == 'r') {
			OK(cuDevicePrimaryCtxReset_v2(0));
			share_start();
		}
		TRUE(write(socket, ".", 1) == 1);
	}
	return 0;
}

static void await(void)
{
	char said;

	TRUE(read(socket_of, &said, 1) == 1);
}

static void ask(char what)
{
	TRUE(write(socket_of, &what, 1) == 1);
	await();
}

static CUmemoryPool give_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = POSIX,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool pool = NULL;
	int fd = -1;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolExportToShareableHandle(&fd, pool, POSIX, 0));
	TRUE(write(socket_of, "p", 1) == 1);
	share_send_fd(socket_of, fd);
	await();
	close(fd);
	return pool;
}

static CUdeviceptr allocate(CUmemoryPool pool)
{
	CUdeviceptr address = 0;

	OK(cuMemAllocFromPoolAsync(&address, 40 * MIB, pool, NULL));
	OK(cuStreamSynchronize(NULL));
	return address;
}

static CUdeviceptr give(CUmemoryPool pool)
{
	CUdeviceptr address = allocate(pool);

	OK(cuMemPoolExportPointer(data, address));
	ask('i');
	return address;
}

static void release(CUdeviceptr address)
{
	OK(cuMemFreeAsync(address, NULL));
	OK(cuStreamSynchronize(NULL));
}

static void begin_with(int socket)
{
	socket_of = socket;
	await();
	begin();
}

static void the_pool_alone(int socket)
{
	CUmemoryPool pool;

	begin_with(socket);
	pool = give_pool();
	release(allocate(pool));
	HAS(0, 0);
	ask('d');
	OK(cuMemPoolDestroy(pool));
}

static void both_free(int socket)
{
	CUdeviceptr address;
	CUmemoryPool pool;

	begin_with(socket);
	pool = give_pool();
	address = give(pool);
	HAS(64 * MIB, 64 * MIB);
	ask('t');
	ask('f');
	release(address);
	HAS(64 * MIB, 0);
	address = allocate(pool);
	HAS(128 * MIB, 64 * MIB);
	release(address);
	OK(cuMemPoolTrimTo(pool, 0));
	HAS(64 * MIB, 0);
	OK(cuMemPoolDestroy(pool));
	HAS(64 * MIB, 0);
	ask('d');
	HAS(0, 0);
}

static void the_importer_goes_first(int socket)
{
	CUdeviceptr address;
	CUmemoryPool pool;

	begin_with(socket);
	pool = give_pool();
	address = give(pool);
	ask('f');
	ask('d');
	release(address);
	HAS(64 * MIB, 0);
	OK(cuMemPoolDestroy(pool));
	HAS(0, 0);
}

static void a_pointer_is_left(int socket)
{
	CUdeviceptr address;
	CUmemoryPool pool;

	begin_with(socket);
	pool = give_pool();
	address = give(pool);
	ask('n');
	release(address);
	OK(cuMemPoolDestroy(pool));
	HAS(64 * MIB, 0);
	ask('f');
	HAS(64 * MIB, 0);
	ask('d');
	HAS(0, 0);
}

static void by_turns(int socket)
{
	CUdeviceptr address, first = 0;
	CUmemoryPool pool;

	begin_with(socket);
	pool = give_pool();
	for (int i = 0; i < 4; i++) {
		address = give(pool);
		first = first ? first : address;
		TRUE(address == first);
		ask('f');
		release(address);
		HAS(64 * MIB, 0);
	}
	ask('d');
	OK(cuMemPoolDestroy(pool));
	HAS(0, 0);
}

static void what_was_not_given(int socket)
{
	CUdeviceptr address, other;
	CUmemoryPool pool;

	begin_with(socket);
	pool = give_pool();
	address = give(pool);
	other = allocate(pool);
	ask('f');
	release(address);
	release(other);
	HAS(64 * MIB, 0);
	ask('d');
	OK(cuMemPoolDestroy(pool));
	HAS(0, 0);
}

static void the_importer_ends(int socket)
{
	CUdeviceptr address;
	CUmemoryPool pool;
	uint64_t context_bytes;

	begin_with(socket);
	context_bytes = start.used / 2;
	pool = give_pool();
	address = give(pool);
	release(address);
	OK(cuMemPoolDestroy(pool));
	ask('r');
	HAS(64 * MIB, 0);
	shutdown(socket, SHUT_WR);
	TRUE(read(socket, &(char){ 0 }, 1) == 0);
	while (nvml_used_bytes(start.card) != start.used - context_bytes)
		usleep(1000);
}

static int run(void *exporter)
{
	data = mmap(NULL, sizeof(*data), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	share_run(importer, *(void (**)(int))exporter);
	return 0;
}

int main(void)
{
	void (*cases[])(int) = { the_pool_alone,    both_free, the_importer_goes_first,
				 a_pointer_is_left, by_turns,  what_was_not_given,
				 the_importer_ends };

	check_machine("count=1,mem=1g,context=64m");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		TRUE(check_child(run, &cases[i]));
	return check_end();
}
