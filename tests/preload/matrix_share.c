#include "matrix_share.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "client.h"
#include "matrix_way.h"

enum kind {
	SHARE_START,
	SHARE_IPC,
	SHARE_HANDLE,
	SHARE_EXTERNAL,
	SHARE_POOL,
	SHARE_POINTER,
	SHARE_GIVEN,
	SHARE_POOL_END,
	SHARE_CLOSE
};

/* What the taker asks of the other process; a descriptor may come with it. */
struct request {
	enum kind kind;
	uint64_t bytes;
	uint64_t token; /* of what is to be closed */
	CUipcMemHandle ipc;
	CUmemPoolPtrExportData pointer;
};

struct answer {
	CUresult result;
	uint64_t token;
};

/* What the other process has opened. */
struct opened {
	enum kind kind;
	CUdeviceptr address;
	CUmemGenericAllocationHandle handle;
	CUexternalMemory external;
	CUmemoryPool pool;
};

static int channel = -1;

static void send_request(const struct request *request, int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { (void *)(uintptr_t)request, sizeof(*request) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (fd >= 0) {
		message.msg_control = room;
		message.msg_controllen = sizeof(room);
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	CHECK(sendmsg(channel, &message, MSG_NOSIGNAL) == (ssize_t)sizeof(*request));
}

/* False when the taker has ended. */
static bool receive_request(int from, struct request *out, int *out_fd)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { out, sizeof(*out) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = room,
				  .msg_controllen = sizeof(room) };
	ssize_t n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	*out_fd = -1;
	if (c)
		memcpy(out_fd, CMSG_DATA(c), sizeof(*out_fd));
	return n == (ssize_t)sizeof(*out);
}

static CUresult ask(const struct request *request, int fd, uint64_t *out_token)
{
	struct answer answer;

	send_request(request, fd);
	CHECK(recv(channel, &answer, sizeof(answer), 0) == (ssize_t)sizeof(answer));
	*out_token = answer.token;
	return answer.result;
}

static CUresult open_external(int fd, uint64_t bytes, struct opened *o)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
						  .handle = { .fd = fd },
						  .size = bytes };

	return cuImportExternalMemory(&o->external, &desc);
}

/* Of the taker's pool, here. */
static CUmemoryPool imported_pool;

static CUresult open_pointer(const struct request *request, struct opened *o)
{
	CUmemPoolPtrExportData data = request->pointer;

	return cuMemPoolImportPointer(&o->address, imported_pool, &data);
}

static CUresult import_pool(int fd, CUmemoryPool *out)
{
	return cuMemPoolImportFromShareableHandle(out, (void *)(intptr_t)fd,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

/* A piece of a pool of its own, and frees it: the pool has had it, and stays. */
static CUresult open_given(const struct request *request, int fd, struct opened *o)
{
	CUmemPoolPtrExportData data = request->pointer;
	CUresult res = import_pool(fd, &o->pool);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuMemPoolImportPointer(&o->address, o->pool, &data);
	if (res == CUDA_SUCCESS)
		res = cuMemFree_v2(o->address);
	if (res != CUDA_SUCCESS)
		cuMemPoolDestroy(o->pool);
	return res;
}

static CUresult open_one(const struct request *request, int fd, struct opened *o)
{
	o->kind = request->kind;
	switch (request->kind) {
	case SHARE_IPC:
		return cuIpcOpenMemHandle_v2(&o->address, request->ipc,
					     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	case SHARE_HANDLE:
		return cuMemImportFromShareableHandle(&o->handle, (void *)(intptr_t)fd,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	case SHARE_POOL:
		return import_pool(fd, &imported_pool);
	case SHARE_POINTER:
		return open_pointer(request, o);
	case SHARE_GIVEN:
		return open_given(request, fd, o);
	case SHARE_POOL_END:
		return cuMemPoolDestroy(imported_pool);
	default:
		return open_external(fd, request->bytes, o);
	}
}

static CUresult close_one(const struct opened *o)
{
	CUresult res;

	switch (o->kind) {
	case SHARE_IPC:
		return cuIpcCloseMemHandle(o->address);
	case SHARE_HANDLE:
		return cuMemRelease(o->handle);
	case SHARE_POINTER:
		/* The memory is freed here before its pool's process may do it. */
		res = cuMemFreeAsync(o->address, NULL);
		return res == CUDA_SUCCESS ? cuStreamSynchronize(NULL) : res;
	case SHARE_GIVEN:
		return cuMemPoolDestroy(o->pool);
	default:
		return cuDestroyExternalMemory(o->external);
	}
}

static struct answer serve(const struct request *request, int fd)
{
	struct answer answer = { .token = 0 };
	struct opened *o;

	if (request->kind == SHARE_START) {
		client_start();
		return answer;
	}
	if (request->kind == SHARE_CLOSE) {
		o = (struct opened *)(uintptr_t)request->token;
		answer.result = close_one(o);
		free(o);
		return answer;
	}
	o = calloc(1, sizeof(*o));
	CHECK(o);
	answer.result = open_one(request, fd, o);
	answer.token = (uint64_t)(uintptr_t)o;
	if (answer.result != CUDA_SUCCESS)
		free(o);
	return answer;
}

void matrix_share_fork(void)
{
	struct request request;
	int pair[2], fd;
	pid_t pid;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	pid = fork();
	CHECK(pid >= 0);
	channel = pair[0];
	if (pid > 0) {
		close(pair[1]);
		return;
	}
	close(pair[0]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (receive_request(pair[1], &request, &fd)) {
		struct answer answer = serve(&request, fd);

		if (fd >= 0)
			close(fd);
		CHECK(send(pair[1], &answer, sizeof(answer), MSG_NOSIGNAL) == sizeof(answer));
	}
	_exit(0);
}

/* The other process makes its context, so that it counts as overhead. */
static CUresult start_other(void)
{
	struct request request = { .kind = SHARE_START };
	uint64_t token;

	return ask(&request, -1, &token);
}

static CUresult take_ipc(uint64_t bytes, struct matrix_piece *p)
{
	struct request request = { .kind = SHARE_IPC, .bytes = bytes };
	CUresult res = cuMemAlloc_v2(&p->address, bytes);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuIpcGetMemHandle(&request.ipc, p->address);
	if (res == CUDA_SUCCESS)
		res = ask(&request, -1, &p->handle);
	if (res != CUDA_SUCCESS)
		cuMemFree_v2(p->address);
	return res;
}

static CUresult close_other(uint64_t token)
{
	struct request request = { .kind = SHARE_CLOSE, .token = token };

	return ask(&request, -1, &token);
}

static CUresult give_ipc(struct matrix_piece *p)
{
	CUresult res = close_other(p->handle);

	return res == CUDA_SUCCESS ? cuMemFree_v2(p->address) : res;
}

static CUresult take_by_descriptor(enum kind kind, uint64_t bytes, struct matrix_piece *p)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	struct request request = { .kind = kind, .bytes = bytes };
	CUmemGenericAllocationHandle handle;
	CUresult res = cuMemCreate(&handle, bytes, &prop, 0);
	int fd = -1;

	if (res != CUDA_SUCCESS)
		return res;
	res = cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   0);
	if (res == CUDA_SUCCESS) {
		res = ask(&request, fd, &p->handle);
		close(fd);
	}
	if (res != CUDA_SUCCESS)
		cuMemRelease(handle);
	p->address = handle;
	return res;
}

static CUresult take_handle(uint64_t bytes, struct matrix_piece *p)
{
	return take_by_descriptor(SHARE_HANDLE, bytes, p);
}

static CUresult take_external(uint64_t bytes, struct matrix_piece *p)
{
	return take_by_descriptor(SHARE_EXTERNAL, bytes, p);
}

static CUresult give_by_descriptor(struct matrix_piece *p)
{
	CUresult res = close_other(p->handle);

	return res == CUDA_SUCCESS ? cuMemRelease(p->address) : res;
}

static CUmemoryPool shared_pool;

/* A pool whose memory the other process can open, and its descriptor. */
static CUresult make_pool(CUmemoryPool *out, int *out_fd)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUresult res = cuMemPoolCreate(out, &props);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuMemPoolExportToShareableHandle(out_fd, *out,
					       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (res != CUDA_SUCCESS)
		cuMemPoolDestroy(*out);
	return res;
}

static CUresult start_pool(void)
{
	struct request request = { .kind = SHARE_POOL };
	CUresult res = start_other();
	uint64_t token;
	int fd;

	if (res == CUDA_SUCCESS)
		res = make_pool(&shared_pool, &fd);
	if (res != CUDA_SUCCESS)
		return res;
	res = ask(&request, fd, &token);
	close(fd);
	return res;
}

static CUresult allocate_from(CUmemoryPool pool, uint64_t bytes, CUdeviceptr *out_address,
			      CUmemPoolPtrExportData *out_pointer)
{
	CUresult res = cuMemAllocFromPoolAsync(out_address, bytes, pool, NULL);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuStreamSynchronize(NULL);
	if (res == CUDA_SUCCESS)
		res = cuMemPoolExportPointer(out_pointer, *out_address);
	if (res != CUDA_SUCCESS)
		cuMemFreeAsync(*out_address, NULL);
	return res;
}

/* What is left of it when pool and piece have gone here, and the other process has its pool. */
static CUresult take_given(uint64_t bytes, struct matrix_piece *p)
{
	struct request request = { .kind = SHARE_GIVEN, .bytes = bytes };
	CUmemoryPool pool;
	int fd;
	CUresult res = make_pool(&pool, &fd);

	if (res != CUDA_SUCCESS)
		return res;
	res = allocate_from(pool, bytes, &p->address, &request.pointer);
	if (res == CUDA_SUCCESS) {
		res = ask(&request, fd, &p->handle);
		cuMemFreeAsync(p->address, NULL);
		cuStreamSynchronize(NULL);
	}
	close(fd);
	cuMemPoolDestroy(pool);
	return res;
}

static CUresult give_given(struct matrix_piece *p)
{
	return close_other(p->handle);
}

static CUresult take_pointer(uint64_t bytes, struct matrix_piece *p)
{
	struct request request = { .kind = SHARE_POINTER, .bytes = bytes };
	CUresult res = allocate_from(shared_pool, bytes, &p->address, &request.pointer);

	if (res != CUDA_SUCCESS)
		return res;
	res = ask(&request, -1, &p->handle);
	if (res != CUDA_SUCCESS)
		cuMemFreeAsync(p->address, NULL);
	return res;
}

static CUresult give_pointer(struct matrix_piece *p)
{
	CUresult res = close_other(p->handle);

	return res == CUDA_SUCCESS ? cuMemFreeAsync(p->address, NULL) : res;
}

/* Both hold what was given until their pools have gone. */
static CUresult end_shared_pool(void)
{
	struct request request = { .kind = SHARE_POOL_END };
	uint64_t token;
	CUresult res = cuCtxSynchronize();

	if (res == CUDA_SUCCESS)
		res = ask(&request, -1, &token);
	return res == CUDA_SUCCESS ? cuMemPoolDestroy(shared_pool) : res;
}

const struct matrix_way matrix_share_pool = { "pool-shared", start_pool, take_pointer, give_pointer,
					      end_shared_pool };
const struct matrix_way matrix_share_given = { "pool-given", start_other, take_given, give_given,
					       NULL };
const struct matrix_way matrix_share_ipc = { "ipc", start_other, take_ipc, give_ipc, NULL };
const struct matrix_way matrix_share_handle = { "shareable", start_other, take_handle,
						give_by_descriptor, NULL };
const struct matrix_way matrix_share_external = { "external", start_other, take_external,
						  give_by_descriptor, NULL };
