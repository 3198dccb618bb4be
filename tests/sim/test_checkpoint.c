/* A process that is taken off the device from outside, and comes back. */
#include <signal.h>

#include "share.h"

/* What a target has of the device: its context, linear memory, memory by handle. */
#define ITS_BYTES ((8 + 6 + 2) * MIB)

enum kind { KIND_DEVICE, KIND_HOST_HANDLE, KIND_HOST_MAPPED };

static enum kind kind; /* of the child's memory */

static CUmemGenericAllocationHandle create(CUmemLocationType where)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = where } };
	CUmemGenericAllocationHandle handle = 0;

	OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	return handle;
}

static void map(CUmemGenericAllocationHandle handle, CUdeviceptr *out_address)
{
	CUmemAccessDesc access = { { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	OK(cuMemAddressReserve(out_address, 2 * MIB, 0, 0, 0));
	OK(cuMemMap(*out_address, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(*out_address, 2 * MIB, &access, 1));
}

static void say(int socket, char word)
{
	TRUE(write(socket, &word, 1) == 1);
}

static char hear(int socket)
{
	char word = 0;

	TRUE(read(socket, &word, 1) == 1);
	return word;
}

/* Has memory, and looks at it each time it is asked. */
static int target(int socket)
{
	CUmemGenericAllocationHandle handle, host = 0;
	CUdeviceptr linear, mapped, host_mapped = 0;
	unsigned values[2] = { 0 };
	char word;

	share_start();
	handle = create(CU_MEM_LOCATION_TYPE_DEVICE);
	map(handle, &mapped);
	if (kind != KIND_DEVICE)
		host = create(CU_MEM_LOCATION_TYPE_HOST_NUMA);
	if (kind == KIND_HOST_MAPPED) {
		map(host, &host_mapped);
		OK(cuMemRelease(host));
	}
	OK(cuMemAlloc_v2(&linear, 6 * MIB));
	OK(cuMemsetD32_v2(linear, 71, MIB));
	OK(cuMemsetD32_v2(mapped, 72, 1));
	OK(cuCtxSynchronize());
	say(socket, 'r');
	while ((word = hear(socket)) == 'l') {
		OK(cuMemcpyDtoH_v2(&values[0], linear + MIB, 4));
		OK(cuMemcpyDtoH_v2(&values[1], mapped, 4));
		TRUE(values[0] == 71 && values[1] == 72);
		say(socket, 'd');
	}
	return check_failures != 0;
}

static CUprocessState state_of(int pid)
{
	CUprocessState state = CU_PROCESS_STATE_FAILED;

	OK(cuCheckpointProcessGetState(pid, &state));
	return state;
}

/* Starts a target: its pid and the socket to it. */
static pid_t start(enum kind its, int *out_socket)
{
	int pair[2];
	pid_t pid;

	kind = its;
	TRUE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int status;

		close(pair[0]);
		check_failures = 0;
		status = target(pair[1]);
		fflush(stdout);
		_exit(status);
	}
	close(pair[1]);
	*out_socket = pair[0];
	return pid;
}

static void end(pid_t pid, int socket, bool is_killed)
{
	int status = -1;

	if (is_killed)
		kill(pid, SIGKILL);
	else
		say(socket, 'e');
	waitpid(pid, &status, 0);
	close(socket);
	TRUE(is_killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* True when it says nothing for a moment. */
static bool is_silent(int socket)
{
	char word;

	usleep(100000);
	return recv(socket, &word, 1, MSG_DONTWAIT) < 0;
}

static void check_round(pid_t pid, int socket)
{
	CUcheckpointLockArgs lock = { .timeoutMs = 5000 };
	uint64_t before = check_free_bytes();

	TRUE(state_of(pid) == CU_PROCESS_STATE_RUNNING);
	EXPECT(cuCheckpointProcessCheckpoint(pid, NULL), CUDA_ERROR_ILLEGAL_STATE);
	EXPECT(cuCheckpointProcessRestore(pid, NULL), CUDA_ERROR_ILLEGAL_STATE);
	EXPECT(cuCheckpointProcessUnlock(pid, NULL), CUDA_ERROR_ILLEGAL_STATE);
	for (int round = 0; round < 3; round++) {
		OK(cuCheckpointProcessLock(pid, &lock));
		TRUE(state_of(pid) == CU_PROCESS_STATE_LOCKED);
		EXPECT(cuCheckpointProcessLock(pid, &lock), CUDA_ERROR_ILLEGAL_STATE);
		TRUE(check_free_bytes() == before);
		say(socket, 'l');
		TRUE(is_silent(socket));
		OK(cuCheckpointProcessCheckpoint(pid, NULL));
		TRUE(state_of(pid) == CU_PROCESS_STATE_CHECKPOINTED);
		TRUE(check_free_bytes() == before + ITS_BYTES);
		EXPECT(cuCheckpointProcessUnlock(pid, NULL), CUDA_ERROR_ILLEGAL_STATE);
		OK(cuCheckpointProcessRestore(pid, NULL));
		TRUE(check_free_bytes() == before);
		TRUE(is_silent(socket));
		OK(cuCheckpointProcessUnlock(pid, NULL));
		TRUE(hear(socket) == 'd');
	}
}

/* Who took the room gives it back: then it comes back. */
static void check_room(pid_t pid)
{
	uint64_t before = check_free_bytes();
	CUdeviceptr address;

	OK(cuCheckpointProcessLock(pid, NULL));
	OK(cuCheckpointProcessCheckpoint(pid, NULL));
	OK(cuMemAlloc_v2(&address, before + 2 * MIB));
	EXPECT(cuCheckpointProcessRestore(pid, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	TRUE(state_of(pid) == CU_PROCESS_STATE_CHECKPOINTED);
	OK(cuMemFree_v2(address));
	OK(cuCheckpointProcessRestore(pid, NULL));
	OK(cuCheckpointProcessUnlock(pid, NULL));
	TRUE(check_free_bytes() == before);
}

/* Killed while it is away: nothing is left. */
static void check_killed(pid_t pid, int socket)
{
	uint64_t before = check_free_bytes();
	CUprocessState state;

	OK(cuCheckpointProcessLock(pid, NULL));
	OK(cuCheckpointProcessCheckpoint(pid, NULL));
	end(pid, socket, true);
	EXPECT(cuCheckpointProcessGetState(pid, &state), CUDA_ERROR_INVALID_VALUE);
	TRUE(check_free_bytes() == before + ITS_BYTES);
}

/* A process with memory of the host by handle is lost, on a card too (tests/gpu/moving). */
static void check_lost(pid_t pid, int socket)
{
	uint64_t before = check_free_bytes();

	OK(cuCheckpointProcessLock(pid, NULL));
	OK(cuCheckpointProcessCheckpoint(pid, NULL));
	EXPECT(cuCheckpointProcessRestore(pid, NULL), CUDA_ERROR_UNKNOWN);
	TRUE(state_of(pid) == CU_PROCESS_STATE_FAILED);
	EXPECT(cuCheckpointProcessUnlock(pid, NULL), CUDA_ERROR_ILLEGAL_STATE);
	say(socket, 'l');
	TRUE(is_silent(socket));
	end(pid, socket, true);
	TRUE(check_free_bytes() == before + ITS_BYTES);
}

int main(void)
{
	static const enum kind kinds[] = { KIND_DEVICE, KIND_HOST_HANDLE, KIND_HOST_MAPPED };
	CUprocessState state;
	int sockets[3], tid;
	pid_t pids[3];

	check_machine("mem=256m,context=8m");
	EXPECT(cuCheckpointProcessLock(getpid(), NULL), CUDA_ERROR_NOT_INITIALIZED);
	/* Before there is a driver here: a child of one has none. */
	for (int i = 0; i < 3; i++) {
		pids[i] = start(kinds[i], &sockets[i]);
		TRUE(hear(sockets[i]) == 'r');
	}
	share_start();
	EXPECT(cuCheckpointProcessGetRestoreThreadId(pids[0], &tid), CUDA_ERROR_NOT_SUPPORTED);
	EXPECT(cuCheckpointProcessGetState(getppid(), &state), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuCheckpointProcessGetState(pids[0], NULL), CUDA_ERROR_INVALID_VALUE);
	check_round(pids[0], sockets[0]);
	check_room(pids[0]);
	check_killed(pids[0], sockets[0]);
	check_lost(pids[1], sockets[1]);
	check_lost(pids[2], sockets[2]);
	return check_end();
}
