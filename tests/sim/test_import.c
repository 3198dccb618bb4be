/* Memory that comes from outside: another process's pool, and a descriptor as external memory. */
#include <fcntl.h>

#include "nvml.h"
#include "share.h"

#define POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static unsigned word_at(CUdeviceptr address)
{
	unsigned value = 0;

	OK(cuMemcpyDtoH_v2(&value, address, 4));
	return value;
}

static CUmemoryPool shared_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool pool = NULL;

	OK(cuMemPoolCreate(&pool, &props));
	return pool;
}

static uint64_t reserved(CUmemoryPool pool)
{
	cuuint64_t value = 0;

	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
	return value;
}

static void give_pool(int socket)
{
	CUmemPoolPtrExportData data;
	nvmlDevice_t card = nvml_start();
	const int64_t start = nvml_process_bytes(card, (unsigned)getpid());
	uint64_t types = 0;
	CUmemoryPool pool = shared_pool(), plain = NULL;
	CUdeviceptr first, a;
	int fd = -1;
	char byte;

	OK(cuDeviceGetDefaultMemPool(&plain, 0));
	EXPECT(cuMemPoolExportToShareableHandle(&fd, plain, POSIX, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolExportToShareableHandle(NULL, pool, POSIX, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolExportToShareableHandle(&fd, pool, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolExportToShareableHandle(&fd, pool, POSIX, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolExportToShareableHandle(&fd, pool, POSIX, 0));
	TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	OK(cuMemAllocFromPoolAsync(&first, 5000, pool, NULL));
	OK(cuMemAllocFromPoolAsync(&a, MIB, pool, NULL));
	TRUE(reserved(pool) == 32 * MIB);
	TRUE(nvml_process_bytes(card, (unsigned)getpid()) == start + 32 * (int64_t)MIB);
	OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, a));
	TRUE(types == POSIX);
	OK(cuMemsetD32Async(a, 21, 2, NULL));
	OK(cuStreamSynchronize(NULL));
	EXPECT(cuMemPoolExportPointer(&data, a + 512), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolExportPointer(NULL, a), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolExportPointer(&data, 0x1000), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolExportPointer(&data, a));
	share_send_fd(socket, fd);
	close(fd);
	TRUE(write(socket, &data, sizeof(data)) == sizeof(data));
	TRUE(read(socket, &byte, 1) == 1);
	TRUE(word_at(a + 4) == 22);
	OK(cuMemFreeAsync(a, NULL));
	OK(cuMemFreeAsync(first, NULL));
	OK(cuStreamSynchronize(NULL));
	TRUE(reserved(pool) == 0);
	OK(cuMemPoolDestroy(pool));
	TRUE(read(socket, &byte, 1) == 0);
	TRUE(nvml_process_bytes(card, (unsigned)getpid()) == start);
}

static int take_pool(int socket)
{
	CUmemPoolPtrExportData data, wrong;
	CUdeviceptr a, b, base;
	nvmlDevice_t card;
	int64_t before;
	CUmemoryPool pool, handle = NULL;
	size_t bytes;
	int fd;

	share_start();
	card = nvml_start();
	fd = share_receive_fd(socket);
	TRUE(read(socket, &data, sizeof(data)) == sizeof(data));
	before = nvml_process_bytes(card, (unsigned)getpid());
	EXPECT(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)socket, POSIX, 0),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolImportFromShareableHandle(NULL, (void *)(intptr_t)fd, POSIX, 0),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, POSIX, 0));
	close(fd);
	EXPECT(cuMemAllocFromPoolAsync(&a, 1, pool, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
	wrong = data;
	wrong.reserved[0] ^= 1;
	EXPECT(cuMemPoolImportPointer(&a, pool, &wrong), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolImportPointer(&a, pool, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolImportPointer(&a, shared_pool(), &data), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolImportPointer(&a, pool, &data));
	OK(cuMemPoolImportPointer(&b, pool, &data));
	TRUE(nvml_process_bytes(card, (unsigned)getpid()) == before);
	OK(cuPointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
	TRUE(handle == pool);
	OK(cuMemGetAddressRange_v2(&base, &bytes, a + 7));
	TRUE(base == a && bytes == MIB);
	EXPECT(cuMemPoolExportPointer(&wrong, a), CUDA_ERROR_INVALID_VALUE);
	TRUE(word_at(a) == 21 && word_at(b + 4) == 21);
	OK(cuMemsetD32Async(a + 4, 22, 1, NULL));
	OK(cuMemFreeAsync(a, NULL));
	OK(cuStreamSynchronize(NULL));
	TRUE(word_at(b + 4) == 22);
	EXPECT(cuMemFreeAsync(a, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(b));
	EXPECT(cuMemGetAddressRange_v2(&base, &bytes, b), CUDA_ERROR_NOT_FOUND);
	OK(cuMemPoolDestroy(pool));
	TRUE(write(socket, "x", 1) == 1);
	return 0;
}

static int new_shared_handle(size_t bytes, CUmemGenericAllocationHandle *out_handle)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = POSIX,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	int fd = -1;

	OK(cuMemCreate(out_handle, bytes, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, *out_handle, POSIX, 0));
	return fd;
}

static void give_external(int socket)
{
	CUmemAccessDesc access = { { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	int fd = new_shared_handle(4 * MIB, &handle);
	CUdeviceptr address;
	char byte;

	OK(cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
	OK(cuMemMap(address, 4 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(address, 4 * MIB, &access, 1));
	OK(cuMemsetD32_v2(address, 31, MIB));
	OK(cuCtxSynchronize());
	share_send_fd(socket, fd);
	close(fd);
	TRUE(read(socket, &byte, 1) == 0);
	TRUE(word_at(address + 3 * MIB + 4) == 32);
}

static CUDA_EXTERNAL_MEMORY_HANDLE_DESC describe(int fd, uint64_t bytes)
{
	return (CUDA_EXTERNAL_MEMORY_HANDLE_DESC){ .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
						   .handle = { .fd = fd },
						   .size = bytes };
}

static void refusals(int fd)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = describe(fd, 4 * MIB);
	CUexternalMemory external;

	EXPECT(cuImportExternalMemory(NULL, &desc), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuImportExternalMemory(&external, NULL), CUDA_ERROR_INVALID_VALUE);
	desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF;
	EXPECT(cuImportExternalMemory(&external, &desc), CUDA_ERROR_NOT_SUPPORTED);
	desc.type = 0;
	EXPECT(cuImportExternalMemory(&external, &desc), CUDA_ERROR_INVALID_VALUE);
	desc = describe(fd, 0);
	EXPECT(cuImportExternalMemory(&external, &desc), CUDA_ERROR_INVALID_VALUE);
	desc = describe(fd, 4 * MIB + 1);
	EXPECT(cuImportExternalMemory(&external, &desc), CUDA_ERROR_INVALID_VALUE);
	desc = describe(STDOUT_FILENO, 1);
	EXPECT(cuImportExternalMemory(&external, &desc), CUDA_ERROR_INVALID_VALUE);
	desc = describe(fd, 4 * MIB);
	desc.flags = 2;
	EXPECT(cuImportExternalMemory(&external, &desc), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDestroyExternalMemory((CUexternalMemory)&desc), CUDA_ERROR_INVALID_HANDLE);
}

static int take_external(int socket)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = { .offset = 3 * MIB, .size = MIB };
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc;
	CUexternalMemory external = NULL;
	CUdeviceptr a = 0, odd = 0, base;
	uint64_t before;
	CUipcMemHandle ipc;
	size_t bytes;
	int fd;

	share_start();
	fd = share_receive_fd(socket);
	before = check_free_bytes();
	refusals(fd);
	desc = describe(fd, 4 * MIB);
	OK(cuImportExternalMemory(&external, &desc));
	TRUE(fcntl(fd, F_GETFD) == -1);
	OK(cuExternalMemoryGetMappedBuffer(&a, external, &buffer));
	TRUE(word_at(a) == 31);
	buffer.offset = 100;
	buffer.size = 5000;
	OK(cuExternalMemoryGetMappedBuffer(&odd, external, &buffer));
	TRUE(odd % 4096 == 100 && word_at(odd) == 31);
	buffer.size = 4 * MIB;
	EXPECT(cuExternalMemoryGetMappedBuffer(&odd, external, &buffer), CUDA_ERROR_INVALID_VALUE);
	buffer.size = 0;
	EXPECT(cuExternalMemoryGetMappedBuffer(&odd, external, &buffer), CUDA_ERROR_INVALID_VALUE);
	TRUE(check_free_bytes() == before);
	OK(cuMemGetAddressRange_v2(&base, &bytes, a + 5));
	TRUE(base == a && bytes == MIB);
	EXPECT(cuIpcGetMemHandle(&ipc, a), CUDA_ERROR_INVALID_VALUE);
	OK(cuDestroyExternalMemory(external));
	EXPECT(cuDestroyExternalMemory(external), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuExternalMemoryGetMappedBuffer(&odd, external, &buffer), CUDA_ERROR_INVALID_HANDLE);
	OK(cuMemsetD32_v2(a + 4, 32, 1));
	OK(cuCtxSynchronize());
	EXPECT(cuMemFree_v2(a + 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(a));
	EXPECT(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
	OK(cuDevicePrimaryCtxReset_v2(0));
	return 0;
}

/* Both sides in one process each time: the driver is started once in a process. */
static int pools(void *arg)
{
	(void)arg;
	share_run(take_pool, give_pool);
	return 0;
}

static int external(void *arg)
{
	(void)arg;
	share_run(take_external, give_external);
	return 0;
}

int main(void)
{
	check_machine("count=1,mem=1g,context=64m");
	TRUE(check_child(pools, NULL));
	TRUE(check_child(external, NULL));
	return check_end();
}
