/* Several processes: one card, memory shared by descriptor and by legacy handle, deaths. */
#include <fcntl.h>
#include <signal.h>

#include "share.h"

static void map(CUmemGenericAllocationHandle handle, CUdeviceptr *out_address)
{
	CUmemAccessDesc access = { { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	OK(cuMemAddressReserve(out_address, 2 * MIB, 0, 0, 0));
	OK(cuMemMap(*out_address, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(*out_address, 2 * MIB, &access, 1));
}

static unsigned word_at(CUdeviceptr address)
{
	unsigned value = 0;

	OK(cuMemcpyDtoH_v2(&value, address, 4));
	return value;
}

/* The other side: sees the bytes, and what it writes is seen. */
static int importer(int socket)
{
	int fd;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop;
	CUdeviceptr address, linear, again;
	CUipcMemHandle ipc;
	uint64_t before;

	share_start();
	fd = share_receive_fd(socket);
	before = check_free_bytes();
	EXPECT(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)socket,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	TRUE(check_free_bytes() == before);
	OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
	TRUE(prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop.location.id == 0);
	map(handle, &address);
	TRUE(word_at(address) == 41);
	OK(cuMemsetD32_v2(address + 4, 42, 1));
	TRUE(read(socket, &ipc, sizeof(ipc)) == sizeof(ipc));
	EXPECT(cuIpcOpenMemHandle_v2(&linear, ipc, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcOpenMemHandle_v2(&linear, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenMemHandle_v2(&again, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	TRUE(again == linear);
	TRUE(word_at(linear) == 51);
	OK(cuMemsetD32_v2(linear + 4, 52, 1));
	OK(cuCtxSynchronize());
	EXPECT(cuMemFree_v2(linear), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcCloseMemHandle(linear));
	OK(cuIpcCloseMemHandle(linear));
	EXPECT(cuIpcCloseMemHandle(linear), CUDA_ERROR_INVALID_VALUE);
	ipc.reserved[0] = 0;
	EXPECT(cuIpcOpenMemHandle_v2(&linear, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	       CUDA_ERROR_INVALID_HANDLE);
	OK(cuMemUnmap(address, 2 * MIB));
	OK(cuMemRelease(handle));
	return check_failures != 0;
}

static void exporter(int socket)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle handle, private_handle;
	CUdeviceptr address, linear;
	CUipcMemHandle ipc;
	int fd = -1;

	OK(cuMemCreate(&private_handle, 2 * MIB, &prop, 0));
	EXPECT(cuMemExportToShareableHandle(&fd, private_handle,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(private_handle));
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	map(handle, &address);
	OK(cuMemsetD32_v2(address, 41, 1));
	OK(cuMemAlloc_v2(&linear, 100));
	OK(cuMemAlloc_v2(&linear, 100));
	OK(cuMemsetD32_v2(linear, 51, 1));
	OK(cuCtxSynchronize());
	EXPECT(cuMemExportToShareableHandle(NULL, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					    0),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_NONE, 0),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	share_send_fd(socket, fd);
	close(fd);
	OK(cuIpcGetMemHandle(&ipc, linear));
	EXPECT(cuIpcOpenMemHandle_v2(&linear, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	       CUDA_ERROR_INVALID_CONTEXT);
	TRUE(write(socket, &ipc, sizeof(ipc)) == sizeof(ipc));
	TRUE(read(socket, &ipc, sizeof(ipc)) == 0);
	TRUE(word_at(address + 4) == 42);
	TRUE(word_at(linear + 4) == 52);
}

/* Holds memory until it is killed. */
static void hold(int ready)
{
	CUdeviceptr address;

	share_start();
	OK(cuMemAlloc_v2(&address, 256 * MIB));
	TRUE(write(ready, "x", 1) == 1);
	pause();
}

/* A killed process's memory comes back to the others. */
static int survivor(void *arg)
{
	uint64_t alone, shared;
	CUdeviceptr address;
	int pipe_fd[2];
	char byte;
	pid_t pid;

	(void)arg;
	TRUE(pipe(pipe_fd) == 0);
	pid = fork();
	if (pid == 0) {
		hold(pipe_fd[1]);
		_exit(1);
	}
	TRUE(read(pipe_fd[0], &byte, 1) == 1);
	share_start();
	shared = check_free_bytes();
	TRUE(shared <= (1024 - 256 - 2 * 64) * MIB);
	EXPECT(cuMemAlloc_v2(&address, shared + 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	alone = shared + (256 + 64) * MIB;
	OK(cuMemAlloc_v2(&address, alone));
	TRUE(check_free_bytes() == 0);
	return check_failures != 0;
}

int main(void)
{
	check_machine("count=1,mem=1g,context=64m");
	TRUE(check_child(survivor, NULL));
	share_run(importer, exporter);
	return check_end();
}
