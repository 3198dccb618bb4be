/* Memory that descriptors keep: exported handles and imports. */
#include <fcntl.h>
#include <signal.h>

#include "kept.h"

/* Each export is an open file description of its own: what is done to one shows at no other. */
static int own_descriptions(void *arg)
{
	CUmemGenericAllocationHandle handle;
	int first, second;

	(void)arg;
	begin();
	close(STDIN_FILENO);
	handle = create(2 * MIB);
	first = export(handle);
	second = export(handle);
	TRUE(is_open_as_it_should(first) && is_open_as_it_should(second) && first != second);
	TRUE(fcntl(first, F_SETFL, O_NONBLOCK) == 0);
	TRUE(!(fcntl(second, F_GETFL) & O_NONBLOCK));
	TRUE(!(fcntl(export(handle), F_GETFL) & O_NONBLOCK));
	return 0;
}

#define A_BYTE ((off_t)1 << 61)

static bool is_locked(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = A_BYTE, .l_len = 1 };

	TRUE(fcntl(fd, F_OFD_GETLK, &lock) == 0);
	return lock.l_type != F_UNLCK;
}

/* A description that was imported ends when everybody has closed it. */
static int imports_hold_no_description(void *arg)
{
	struct flock lock = { .l_type = F_RDLCK, .l_start = A_BYTE, .l_len = 1 };
	CUmemGenericAllocationHandle handle, again;
	int passed, other;

	(void)arg;
	begin();
	handle = create(2 * MIB);
	passed = export(handle);
	other = export(handle);
	TRUE(fcntl(passed, F_OFD_SETLK, &lock) == 0);
	again = import(passed);
	TRUE(is_locked(other));
	close(passed);
	TRUE(!is_locked(other));
	OK(cuMemRelease(again));
	return 0;
}

/* The last copy of its descriptor, not the last handle, ends memory that was exported. */
static int descriptors_keep(void *arg)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	int fd, copy, other;

	(void)arg;
	begin();
	handle = create(64 * MIB);
	fd = export(handle);
	other = export(handle);
	copy = dup(fd);
	address = map(handle, 64 * MIB);
	HAS(64 * MIB, 64 * MIB);
	OK(cuMemRelease(handle));
	HAS(64 * MIB, 64 * MIB);
	OK(cuMemUnmap(address, 64 * MIB));
	HAS(64 * MIB, 0);
	close(fd);
	HAS(64 * MIB, 0);
	close(copy);
	HAS(64 * MIB, 0);
	OK(cuDevicePrimaryCtxReset_v2(0));
	begin();
	TRUE(start.used == 128 * MIB);
	close(other);
	TRUE(nvml_used_bytes(start.card) == 64 * MIB);
	return 0;
}

/* What was never exported, or is closed again before, ends with its handle. */
static int closed_ones_do_not(void *arg)
{
	CUmemGenericAllocationHandle handle;

	(void)arg;
	begin();
	OK(cuMemRelease(create(64 * MIB)));
	HAS(0, 0);
	handle = create(64 * MIB);
	close(export(handle));
	HAS(64 * MIB, 64 * MIB);
	OK(cuMemRelease(handle));
	HAS(0, 0);
	return 0;
}

/* Its own process may import it again, and has it in its figure when the descriptor is closed. */
static int imports_again(void *arg)
{
	CUmemGenericAllocationHandle handle, again;
	unsigned value = 0;
	CUdeviceptr address;
	int fd;

	(void)arg;
	begin();
	handle = create(2 * MIB);
	fd = export(handle);
	address = map(handle, 2 * MIB);
	OK(cuMemsetD32_v2(address, 77, 1));
	OK(cuCtxSynchronize());
	OK(cuMemUnmap(address, 2 * MIB));
	OK(cuMemRelease(handle));
	again = import(fd);
	HAS(2 * MIB, 0);
	close(fd);
	HAS(2 * MIB, 2 * MIB);
	address = map(again, 2 * MIB);
	OK(cuMemcpyDtoH_v2(&value, address, 4));
	TRUE(value == 77);
	OK(cuMemRelease(again));
	HAS(2 * MIB, 2 * MIB);
	OK(cuMemUnmap(address, 2 * MIB));
	HAS(0, 0);
	return 0;
}

/* The device gives out what neither processes nor descriptors have. */
static int fills_the_device(void *arg)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	int fd;

	(void)arg;
	begin();
	handle = create(512 * MIB);
	fd = export(handle);
	OK(cuMemRelease(handle));
	EXPECT(cuMemAlloc_v2(&address, 450 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc_v2(&address, 448 * MIB));
	TRUE(check_free_bytes() == 0);
	close(fd);
	TRUE(check_free_bytes() == 512 * MIB);
	OK(cuMemAlloc_v2(&address, 512 * MIB));
	return 0;
}

/* In flight, and in a child that has a copy. */
static int copies_keep(void *arg)
{
	CUmemGenericAllocationHandle handle;
	int pair[2], gate[2], fd, got;
	char byte;
	pid_t pid;

	(void)arg;
	TRUE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(gate) == 0);
	begin();
	handle = create(32 * MIB);
	fd = export(handle);
	OK(cuMemRelease(handle));
	share_send_fd(pair[0], fd);
	close(fd);
	HAS(32 * MIB, 0);
	got = share_receive_fd(pair[1]);
	HAS(32 * MIB, 0);
	pid = fork();
	if (pid == 0) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) != 0);
	}
	close(got);
	HAS(32 * MIB, 0);
	close(gate[1]);
	waitpid(pid, NULL, 0);
	HAS(0, 0);
	return 0;
}

/* A fork child keeps nothing but what it has a descriptor of. */
static int children_keep_no_handles(void *arg)
{
	CUmemGenericAllocationHandle handle, again;
	int gate[2], fd;
	char byte;
	pid_t pid;

	(void)arg;
	TRUE(pipe(gate) == 0);
	begin();
	handle = create(32 * MIB);
	fd = export(handle);
	again = import(fd);
	close(fd);
	pid = fork();
	if (pid == 0) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) != 0);
	}
	HAS(32 * MIB, 32 * MIB);
	OK(cuMemRelease(again));
	OK(cuMemRelease(handle));
	HAS(0, 0);
	close(gate[1]);
	waitpid(pid, NULL, 0);
	return 0;
}

/* Gives a descriptor away and waits for its end. */
static void export_and_wait(int socket)
{
	share_start();
	share_send_fd(socket, export(create(128 * MIB)));
	pause();
}

/* It outlives its maker; who has imported it keeps it without a descriptor too. */
static int outlives_its_maker(void *arg)
{
	CUmemGenericAllocationHandle handle;
	int pair[2], fd;
	pid_t pid;

	(void)arg;
	TRUE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pid = fork();
	if (pid == 0) {
		export_and_wait(pair[1]);
		_exit(1);
	}
	fd = share_receive_fd(pair[0]);
	begin();
	TRUE(start.used == (128 + 2 * 64) * MIB);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	start.used = 64 * MIB;
	HAS(128 * MIB, 0);
	handle = import(fd);
	HAS(128 * MIB, 0);
	close(fd);
	HAS(128 * MIB, 128 * MIB);
	OK(cuMemRelease(handle));
	HAS(0, 0);
	return 0;
}

/* A pool that was exported keeps nothing. */
static int pools_keep_nothing(void *arg)
{
	CUmemoryPool pool;
	CUdeviceptr address;
	int fd = -1;

	(void)arg;
	begin();
	pool = new_pool(POSIX);
	OK(cuMemPoolExportToShareableHandle(&fd, pool, POSIX, 0));
	OK(cuMemAllocFromPoolAsync(&address, 4 * MIB, pool, NULL));
	end_pool(pool, address);
	HAS(0, 0);
	close(fd);
	return 0;
}

static int imports_are_not_exported(void *arg)
{
	CUmemGenericAllocationHandle handle, again;
	int fd;

	(void)arg;
	begin();
	handle = create(2 * MIB);
	fd = export(handle);
	again = import(fd);
	EXPECT(cuMemExportToShareableHandle(&fd, again, POSIX, 0), CUDA_ERROR_INVALID_VALUE);
	return 0;
}

int main(void)
{
	check_machine("count=1,mem=1g,context=64m");
	TRUE(check_child(own_descriptions, NULL));
	TRUE(check_child(imports_hold_no_description, NULL));
	TRUE(check_child(descriptors_keep, NULL));
	TRUE(check_child(closed_ones_do_not, NULL));
	TRUE(check_child(imports_again, NULL));
	TRUE(check_child(fills_the_device, NULL));
	TRUE(check_child(copies_keep, NULL));
	TRUE(check_child(children_keep_no_handles, NULL));
	TRUE(check_child(outlives_its_maker, NULL));
	TRUE(check_child(pools_keep_nothing, NULL));
	TRUE(check_child(imports_are_not_exported, NULL));
	return check_end();
}
