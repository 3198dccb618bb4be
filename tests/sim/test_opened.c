/*
 * Memory that other processes have open by a legacy handle outlives its maker's hold on it: its bytes
 * stay, and it is in the figure of who opened it last.
 */
#include <signal.h>

#include "nvml.h"
#include "share.h"

#define LARGE (32 * MIB)
#define BLOCK (2 * MIB)
#define SMALL (64 << 10)
#define CONTEXT (64 * MIB)

enum { OPENERS = 2 };

static struct opener {
	pid_t pid;
	int socket;
} openers[OPENERS];

static nvmlDevice_t card;
static uint64_t begun;

/* To an opener, which always says the first word of what it has open, or why there is none. */
struct request {
	CUipcMemHandle handle;
	bool is_new; /* opens that handle first */
	bool is_end; /* closes it after */
};

struct answer {
	CUresult res;
	unsigned word;
};

static struct answer do_request(const struct request *request, CUdeviceptr *address)
{
	struct answer answer = { 0 };

	if (request->is_new)
		answer.res = cuIpcOpenMemHandle_v2(address, request->handle,
						   CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (answer.res == CUDA_SUCCESS)
		OK(cuMemcpyDtoH_v2(&answer.word, *address, 4));
	if (request->is_end)
		OK(cuIpcCloseMemHandle(*address));
	return answer;
}

static void serve(int socket)
{
	struct request request;
	struct answer answer = { 0 };
	CUdeviceptr address = 0;

	share_start();
	do
		TRUE(write(socket, &answer, sizeof(answer)) == sizeof(answer));
	while (read(socket, &request, sizeof(request)) == sizeof(request) &&
	       (answer = do_request(&request, &address), true));
	_exit(check_failures ? 1 : 0);
}

static struct answer await(int who)
{
	struct answer answer = { CUDA_ERROR_UNKNOWN, 0 };

	TRUE(read(openers[who].socket, &answer, sizeof(answer)) == sizeof(answer));
	return answer;
}

static struct answer ask(int who, struct request request)
{
	TRUE(write(openers[who].socket, &request, sizeof(request)) == sizeof(request));
	return await(who);
}

static void start_opener(struct opener *o)
{
	int pair[2];

	TRUE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	fflush(stdout);
	o->pid = fork();
	if (o->pid == 0) {
		close(pair[0]);
		for (const struct opener *other = openers; other < o; other++)
			close(other->socket);
		serve(pair[1]);
	}
	close(pair[1]);
	o->socket = pair[0];
}

/* Before this process's driver, which a child would lack. */
static void start_all(void)
{
	for (int who = 0; who < OPENERS; who++) {
		start_opener(&openers[who]);
		(void)await(who);
	}
	share_start();
	card = nvml_start();
	begun = nvml_used_bytes(card);
}

static void end_opener(int who, int sig)
{
	int status;

	if (sig)
		kill(openers[who].pid, sig);
	close(openers[who].socket);
	waitpid(openers[who].pid, &status, 0);
	TRUE(sig ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void open_it(int who, CUipcMemHandle handle, unsigned word)
{
	struct answer answer = ask(who, (struct request){ .handle = handle, .is_new = true });

	TRUE(answer.res == CUDA_SUCCESS && answer.word == word);
}

static bool has_word(int who, unsigned word)
{
	return ask(who, (struct request){ 0 }).word == word;
}

static void close_it(int who)
{
	(void)ask(who, (struct request){ .is_end = true });
}

static CUdeviceptr make(uint64_t bytes, unsigned word, CUipcMemHandle *out_handle)
{
	CUdeviceptr address = 0;

	OK(cuMemAlloc_v2(&address, bytes));
	OK(cuMemsetD32_v2(address, word, bytes / 4));
	OK(cuCtxSynchronize());
	if (out_handle)
		OK(cuIpcGetMemHandle(out_handle, address));
	return address;
}

/* What the card has more than at the start, and of it the maker and the openers. */
#define HAVE(card_bytes, own_bytes, first_bytes, second_bytes)             \
	do {                                                               \
		TRUE(nvml_used_bytes(card) == begun + (card_bytes));       \
		TRUE(nvml_process_bytes(card, (unsigned)getpid()) ==       \
		     (int64_t)(CONTEXT + (own_bytes)));                    \
		TRUE(nvml_process_bytes(card, (unsigned)openers[0].pid) == \
		     (int64_t)(CONTEXT + (first_bytes)));                  \
		TRUE(nvml_process_bytes(card, (unsigned)openers[1].pid) == \
		     (int64_t)(CONTEXT + (second_bytes)));                 \
	} while (0)

static int outlives_its_free(void *arg)
{
	CUipcMemHandle handle, other;
	CUdeviceptr address, next;

	(void)arg;
	start_all();
	address = make(LARGE, 41, &handle);
	open_it(0, handle, 41);
	open_it(1, handle, 41);
	HAVE(LARGE, LARGE, 0, 0);
	OK(cuMemFree_v2(address));
	HAVE(LARGE, 0, 0, LARGE);
	next = make(LARGE, 42, &other);
	HAVE(2 * LARGE, LARGE, 0, LARGE);
	TRUE(has_word(0, 41) && has_word(1, 41));
	close_it(1);
	HAVE(2 * LARGE, LARGE, LARGE, 0);
	open_it(1, handle, 41);
	HAVE(2 * LARGE, LARGE, 0, LARGE);
	close_it(0);
	close_it(1);
	HAVE(LARGE, LARGE, 0, 0);
	TRUE(ask(0, (struct request){ .handle = handle, .is_new = true }).res ==
	     CUDA_ERROR_INVALID_HANDLE);
	open_it(0, other, 42);
	close_it(0);
	OK(cuMemFree_v2(next));
	HAVE(0, 0, 0, 0);
	end_opener(0, 0);
	end_opener(1, 0);
	return 0;
}

/* Small ones lie in a block with others; its units are free when nobody has them open. */
static int small_ones_too(void *arg)
{
	CUdeviceptr address, beside, more[BLOCK / SMALL];
	CUipcMemHandle handle;

	(void)arg;
	start_all();
	address = make(SMALL, 51, &handle);
	beside = make(SMALL, 52, NULL);
	open_it(0, handle, 51);
	open_it(1, handle, 51);
	OK(cuMemFree_v2(address));
	HAVE(BLOCK, BLOCK, 0, 0);
	for (uint64_t i = 0; i < BLOCK / SMALL - 2; i++)
		more[i] = make(SMALL, 53, NULL);
	HAVE(BLOCK, BLOCK, 0, 0);
	TRUE(has_word(0, 51) && has_word(1, 51));
	close_it(0);
	more[BLOCK / SMALL - 2] = make(SMALL, 53, NULL);
	HAVE(2 * BLOCK, 2 * BLOCK, 0, 0);
	TRUE(has_word(1, 51));
	for (uint64_t i = 0; i < BLOCK / SMALL - 1; i++)
		OK(cuMemFree_v2(more[i]));
	HAVE(BLOCK, BLOCK, 0, 0);
	OK(cuMemFree_v2(beside));
	HAVE(BLOCK, 0, 0, BLOCK);
	TRUE(has_word(1, 51));
	close_it(1);
	HAVE(0, 0, 0, 0);
	beside = make(SMALL, 54, NULL);
	HAVE(BLOCK, BLOCK, 0, 0);
	OK(cuMemFree_v2(beside));
	end_opener(0, 0);
	end_opener(1, 0);
	return 0;
}

/* Units that were lent are given out again, by the device and in a block. */
static int is_free_again(void *arg)
{
	CUdeviceptr first, second, keep, small;
	CUipcMemHandle handle;

	(void)arg;
	start_all();
	first = make(LARGE, 61, &handle);
	open_it(0, handle, 61);
	OK(cuMemFree_v2(first));
	end_opener(0, SIGKILL);
	second = make(LARGE, 62, NULL);
	TRUE(second == first);
	keep = make(SMALL, 63, NULL);
	small = make(SMALL, 64, &handle);
	open_it(1, handle, 64);
	OK(cuMemFree_v2(small));
	TRUE(make(SMALL, 65, NULL) != small);
	end_opener(1, SIGKILL);
	TRUE(make(SMALL, 66, NULL) == small);
	OK(cuMemFree_v2(keep));
	return 0;
}

/* With a part of its own and one that is shared, and its maker is gone. */
static int outlives_its_maker(void *arg)
{
	const uint64_t odd = LARGE + SMALL;
	CUipcMemHandle handle;
	int pair[2];
	pid_t pid;

	(void)arg;
	TRUE(pipe(pair) == 0);
	pid = fork();
	if (pid == 0) {
		share_start();
		(void)make(odd, 71, &handle);
		TRUE(write(pair[1], &handle, sizeof(handle)) == sizeof(handle));
		pause();
	}
	TRUE(read(pair[0], &handle, sizeof(handle)) == sizeof(handle));
	start_all();
	open_it(0, handle, 71);
	open_it(1, handle, 71);
	HAVE(0, 0, 0, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	begun -= CONTEXT + LARGE + BLOCK;
	HAVE(LARGE + BLOCK, 0, 0, LARGE + BLOCK);
	TRUE(has_word(0, 71) && has_word(1, 71));
	close_it(1);
	HAVE(LARGE + BLOCK, 0, LARGE + BLOCK, 0);
	close_it(0);
	HAVE(0, 0, 0, 0);
	end_opener(0, 0);
	end_opener(1, 0);
	return 0;
}

int main(void)
{
	check_machine("count=1,mem=1g,context=64m");
	TRUE(check_child(outlives_its_free, NULL));
	TRUE(check_child(small_ones_too, NULL));
	TRUE(check_child(is_free_again, NULL));
	TRUE(check_child(outlives_its_maker, NULL));
	return check_end();
}
