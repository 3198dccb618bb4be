/*
 * Memory that is shared between processes by cuIpcGetMemHandle.
 *
 * `give BYTES` says a handle and shows afterwards what came into its memory; `take HANDLE` opens
 * one. The other cases stand beside their functions.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "client.h"

enum { FLAGS = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS };

static CUcontext start(void)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	return ctx;
}

static void say_handle(const CUipcMemHandle *handle)
{
	const unsigned char *bytes = (const unsigned char *)handle;

	printf("handle ");
	for (size_t i = 0; i < sizeof(*handle); i++)
		printf("%02x", bytes[i]);
	putchar('\n');
}

static CUipcMemHandle read_handle(const char *text)
{
	CUipcMemHandle handle;
	unsigned char *bytes = (unsigned char *)&handle;

	CHECK(strlen(text) == 2 * sizeof(handle));
	for (size_t i = 0; i < sizeof(handle); i++) {
		unsigned v;

		CHECK(sscanf(text + 2 * i, "%2x", &v) == 1);
		bytes[i] = (unsigned char)v;
	}
	return handle;
}

static void put(CUdeviceptr addr, uint32_t value)
{
	OK(cuMemcpyHtoD_v2(addr, &value, sizeof(value)));
}

static uint32_t get(CUdeviceptr addr)
{
	uint32_t value = 0;

	OK(cuMemcpyDtoH_v2(&value, addr, sizeof(value)));
	return value;
}

static CUdeviceptr make(uint64_t bytes, CUipcMemHandle *out_handle)
{
	CUdeviceptr addr, before;

	/* So that a small one does not begin where its memory does. */
	OK(cuMemAlloc_v2(&before, 4096));
	OK(cuMemAlloc_v2(&addr, bytes));
	put(addr, 1);
	put(addr + bytes / 4 / 2 * 4, 2);
	put(addr + bytes - 4, 3);
	/* A handle is of the allocation, wherever the pointer points. */
	OK(cuIpcGetMemHandle(out_handle, addr + bytes / 2));
	return addr;
}

static void give(int argc, char **argv)
{
	uint64_t bytes = strtoull(argv[0], NULL, 0);
	CUipcMemHandle handle;
	CUdeviceptr addr;

	(void)argc;
	start();
	addr = make(bytes, &handle);
	say_handle(&handle);
	client_pause_or_end("given");
	printf("first %u\nmiddle %u\nlast %u\n", get(addr), get(addr + bytes / 4 / 2 * 4),
	       get(addr + bytes - 4));
	OK(cuMemFree_v2(addr));
	client_pause_or_end("freed");
}

static void take(int argc, char **argv)
{
	CUipcMemHandle handle = read_handle(argv[0]);
	uint64_t bytes = strtoull(argv[1], NULL, 0);
	CUdeviceptr addr, again;

	(void)argc;
	start();
	IS(cuIpcOpenMemHandle_v2(&addr, handle, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcOpenMemHandle_v2(&addr, handle, FLAGS));
	OK(cuIpcOpenMemHandle_v2(&again, handle, FLAGS));
	SAME(addr, again);
	SAME(get(addr), 1);
	SAME(get(addr + bytes / 4 / 2 * 4), 2);
	SAME(get(addr + bytes - 4), 3);
	put(addr, 11);
	put(addr + bytes / 4 / 2 * 4, 12);
	put(addr + bytes - 4, 13);
	OK(cuCtxSynchronize());
	OK(cuIpcCloseMemHandle(addr));
	SAME(get(addr), 11);
	client_pause_or_end("taken");
	OK(cuIpcCloseMemHandle(addr));
	IS(cuIpcCloseMemHandle(addr), CUDA_ERROR_INVALID_VALUE);
	client_pause_or_end("closed");
}

/* Keeps it while the exporter does what the test has it do. */
static void keep(int argc, char **argv)
{
	CUipcMemHandle handle = read_handle(argv[0]);
	CUdeviceptr addr;

	(void)argc;
	start();
	OK(cuIpcOpenMemHandle_v2(&addr, handle, FLAGS));
	SAME(get(addr), 1);
	client_pause_or_end("taken");
	SAME(get(addr), 1);
	OK(cuIpcCloseMemHandle(addr));
	client_pause_or_end("closed");
}

/* swap BYTES: gives memory, and keeps what the handle in the line that comes is of. */
static void swap(int argc, char **argv)
{
	char line[2 * sizeof(CUipcMemHandle) + 2];
	CUipcMemHandle handle;
	CUdeviceptr addr;

	(void)argc;
	start();
	make(strtoull(argv[0], NULL, 0), &handle);
	say_handle(&handle);
	puts("given");
	fflush(stdout);
	CHECK(fgets(line, sizeof(line), stdin));
	line[strcspn(line, "\n")] = 0;
	handle = read_handle(line);
	OK(cuIpcOpenMemHandle_v2(&addr, handle, FLAGS));
	client_pause_or_end("taken");
}

static CUcontext shared_ctx;

/* Opens, looks and closes, again and again. */
static void *open_often(void *arg)
{
	OK(cuCtxSetCurrent(shared_ctx));
	for (int i = 0; i < 100; i++) {
		CUdeviceptr addr;

		OK(cuIpcOpenMemHandle_v2(&addr, *(const CUipcMemHandle *)arg, FLAGS));
		SAME(get(addr), 1);
		OK(cuIpcCloseMemHandle(addr));
	}
	return NULL;
}

/* threads HANDLE...: two threads for each. */
static void threads(int argc, char **argv)
{
	CUipcMemHandle handles[8];
	pthread_t t[16];

	CHECK(argc <= 8);
	shared_ctx = start();
	for (int i = 0; i < 2 * argc; i++) {
		handles[i / 2] = read_handle(argv[i / 2]);
		CHECK(pthread_create(&t[i], NULL, open_often, &handles[i / 2]) == 0);
	}
	for (int i = 0; i < 2 * argc; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	client_pause_or_end("closed");
}

/* After a step that failed nothing is left, and it can be opened. */
static void open_twice(int argc, char **argv)
{
	CUipcMemHandle handle = read_handle(argv[0]);
	CUdeviceptr addr;

	(void)argc;
	start();
	printf("result %d\n", (int)cuIpcOpenMemHandle_v2(&addr, handle, FLAGS));
	client_pause_or_end("failed");
	OK(cuIpcOpenMemHandle_v2(&addr, handle, FLAGS));
	SAME(get(addr), 1);
	OK(cuIpcCloseMemHandle(addr));
	client_pause_or_end("closed");
}

/* What opening says. */
static void open_only(int argc, char **argv)
{
	CUipcMemHandle handle = read_handle(argv[0]);
	CUdeviceptr addr;

	(void)argc;
	start();
	printf("result %d\n", (int)cuIpcOpenMemHandle_v2(&addr, handle, FLAGS));
}

/* A context ends with memory open in it, and another is made. */
static void end_context(int argc, char **argv)
{
	CUipcMemHandle handle = read_handle(argv[0]);
	CUdeviceptr addr;
	CUcontext ctx = start();

	(void)argc;
	OK(cuIpcOpenMemHandle_v2(&addr, handle, FLAGS));
	SAME(get(addr), 1);
	OK(cuCtxDestroy_v2(ctx));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	IS(cuIpcCloseMemHandle(addr), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcOpenMemHandle_v2(&addr, handle, FLAGS));
	SAME(get(addr), 1);
	client_pause_or_end("taken");
	OK(cuCtxDestroy_v2(ctx));
	client_pause_or_end("ended");
}

/* What the exporter itself is told. */
static void own(int argc, char **argv)
{
	CUipcMemHandle handle, again;
	CUdeviceptr addr, got;

	(void)argc;
	(void)argv;
	start();
	addr = make(3 * MIB, &handle);
	OK(cuIpcGetMemHandle(&again, addr));
	CHECK(memcmp(&handle, &again, sizeof(handle)) == 0);
	IS(cuIpcOpenMemHandle_v2(&got, handle, FLAGS), CUDA_ERROR_INVALID_CONTEXT);
	IS(cuIpcGetMemHandle(NULL, addr), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(addr));
	IS(cuIpcGetMemHandle(&handle, addr), CUDA_ERROR_INVALID_VALUE);
	IS(cuIpcCloseMemHandle(addr), CUDA_ERROR_INVALID_VALUE);
}

/* A fork child has the exporter's descriptors for ever. */
static void fork_child(int argc, char **argv)
{
	CUipcMemHandle handle;

	(void)argc;
	(void)argv;
	start();
	make(3 * MIB, &handle);
	say_handle(&handle);
	if (fork() == 0) {
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		pause();
		_exit(0);
	}
	client_pause_or_end("given");
}

static bool is_socket(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Closes all sockets that it does not know, and has one of its own by their numbers. */
static void close_sockets(int argc, char **argv)
{
	CUipcMemHandle handle;
	int closed = 0;

	(void)argc;
	(void)argv;
	start();
	make(3 * MIB, &handle);
	for (int fd = 3; fd < 1024; fd++) {
		int other;

		if (!is_socket(fd))
			continue;
		closed++;
		other = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		CHECK(dup2(other, fd) == fd);
		close(other);
	}
	CHECK(closed > 0);
	say_handle(&handle);
	client_pause_or_end("given");
}

static const struct client_case cases[] = {
	{ "give", give },       { "take", take },           { "open", open_only },
	{ "swap", swap },       { "end", end_context },     { "keep", keep },
	{ "threads", threads }, { "twice", open_twice },    { "own", own },
	{ "fork", fork_child }, { "close", close_sockets },
};

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(cases[i].name, argv[1]) == 0) {
			cases[i].run(argc - 2, argv + 2);
			puts("end");
			return 0;
		}
	return 2;
}
