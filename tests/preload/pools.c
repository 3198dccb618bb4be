/*
 * Pools that two processes use: the card holds what one has had of the other's for as long as its
 * pool is there, and no figure shows it. Which case does what is said at it.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../fd.h"
#include "client.h"

enum { PIECE = 64 << 20 };
#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static const CUmemPoolProps exportable = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .handleTypes = FD,
					   .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };

/* What both see. */
static CUmemPoolPtrExportData *data;

static int channel;
static pid_t other;
static uint64_t begun_bytes;

/* A worker looks, now and then, whether it is still held. */
static void charged_is(uint64_t bytes)
{
	SAME(client_charged_at_last(0, begun_bytes + bytes), begun_bytes + bytes);
}

static CUmemoryPool make(void)
{
	CUmemoryPool pool;
	int fd;

	OK(cuMemPoolCreate(&pool, &exportable));
	OK(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	CHECK(fd_send(channel, fd));
	close(fd);
	return pool;
}

static CUmemoryPool import_pool(void)
{
	int fd = fd_receive(channel);
	CUmemoryPool pool;

	OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, FD, 0));
	close(fd);
	return pool;
}

static CUdeviceptr allocate(CUmemoryPool pool)
{
	CUdeviceptr address;

	OK(cuMemAllocFromPoolAsync(&address, PIECE, pool, NULL));
	OK(cuStreamSynchronize(NULL));
	return address;
}

static void release(CUdeviceptr address)
{
	OK(cuMemFreeAsync(address, NULL));
	OK(cuStreamSynchronize(NULL));
}

static void say(char word)
{
	CHECK(write(channel, &word, 1) == 1);
}

static void await(char word)
{
	char said;

	CHECK(read(channel, &said, 1) == 1 && said == word);
}

/* The other process does this, and has. */
static void ask(char what)
{
	say(what);
	await('.');
}

/* The other process: what it is asked to do. */
static void serve(void)
{
	CUmemoryPool pool = NULL;
	CUdeviceptr address = 0;
	char what;

	client_start();
	say('.');
	while (read(channel, &what, 1) == 1) {
		if (what == 'p')
			pool = import_pool();
		else if (what == 'i')
			OK(cuMemPoolImportPointer(&address, pool, data));
		else if (what == 'f')
			OK(cuMemFree_v2(address));
		else if (what == 'd')
			OK(cuMemPoolDestroy(pool));
		else if (what == 'g')
			pool = make();
		else if (what == 'a')
			OK(cuMemPoolExportPointer(data, allocate(pool)));
		say('.');
	}
	_exit(0);
}

static void start(void)
{
	int pair[2];

	data = mmap(NULL, sizeof(*data), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(data != MAP_FAILED && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	other = fork();
	CHECK(other >= 0);
	channel = pair[other == 0];
	close(pair[other != 0]);
	if (other == 0)
		serve();
	client_start();
	await('.');
	begun_bytes = client_charged(0);
}

static CUmemoryPool give_pool(void)
{
	CUmemoryPool pool;

	say('p');
	pool = make();
	await('.');
	return pool;
}

static CUdeviceptr give(CUmemoryPool pool)
{
	CUdeviceptr address = allocate(pool);

	OK(cuMemPoolExportPointer(data, address));
	ask('i');
	return address;
}

static void end_other(void)
{
	close(channel);
	CHECK(waitpid(other, NULL, 0) == other);
}

/* freed: by both, and used again; it goes when both pools have. */
static void freed(int argc, char **argv)
{
	CUdeviceptr address, all;
	CUmemoryPool pool;

	(void)argc;
	(void)argv;
	start();
	pool = give_pool();
	address = give(pool);
	charged_is(PIECE);
	ask('f');
	release(address);
	charged_is(PIECE);
	IS(cuMemAlloc_v2(&all, client_limit(0) - begun_bytes), CUDA_ERROR_OUT_OF_MEMORY);
	address = allocate(pool);
	charged_is(2 * PIECE);
	release(address);
	charged_is(PIECE);
	OK(cuMemPoolDestroy(pool));
	charged_is(PIECE);
	IS(cuMemAlloc_v2(&all, client_limit(0) - begun_bytes), CUDA_ERROR_OUT_OF_MEMORY);
	ask('d');
	/* Who asks has it at once. */
	OK(cuMemAlloc_v2(&all, client_limit(0) - begun_bytes));
	OK(cuMemFree_v2(all));
	charged_is(0);
	end_other();
}

/* early: the other process has let go of all before; the pool holds it for itself. */
static void early(int argc, char **argv)
{
	CUdeviceptr address;
	CUmemoryPool pool;

	(void)argc;
	(void)argv;
	start();
	pool = give_pool();
	address = give(pool);
	ask('f');
	ask('d');
	release(address);
	charged_is(PIECE);
	OK(cuMemPoolDestroy(pool));
	charged_is(0);
	end_other();
}

/* alone: without a pointer nothing is held; nor of pieces that were not given. */
static void alone(int argc, char **argv)
{
	CUdeviceptr address, given;
	CUmemoryPool pool;

	(void)argc;
	(void)argv;
	start();
	pool = give_pool();
	address = allocate(pool);
	charged_is(PIECE);
	release(address);
	charged_is(0);
	given = give(pool);
	address = allocate(pool);
	charged_is(2 * PIECE);
	release(address);
	charged_is(PIECE);
	ask('f');
	release(given);
	charged_is(PIECE);
	ask('d');
	OK(cuMemPoolDestroy(pool));
	charged_is(0);
	end_other();
}

/* turns: again and again, at most two generations of a piece are held. */
static void turns(int argc, char **argv)
{
	CUdeviceptr address;
	CUmemoryPool pool;

	(void)argc;
	(void)argv;
	start();
	pool = give_pool();
	for (int i = 0; i < 20; i++) {
		address = give(pool);
		ask('f');
		release(address);
	}
	CHECK(client_charged(0) >= begun_bytes + PIECE);
	CHECK(client_charged(0) <= begun_bytes + 2 * PIECE);
	OK(cuMemPoolDestroy(pool));
	charged_is(PIECE);
	ask('d');
	charged_is(0);
	end_other();
}

/* ends: the other process does, with all that it has. */
static void ends(int argc, char **argv)
{
	CUdeviceptr address;
	CUmemoryPool pool;
	uint64_t context_bytes;

	(void)argc;
	(void)argv;
	start();
	context_bytes = begun_bytes / 2;
	pool = give_pool();
	address = give(pool);
	release(address);
	OK(cuMemPoolDestroy(pool));
	charged_is(PIECE);
	end_other();
	begun_bytes -= context_bytes;
	charged_is(0);
}

/* killed: who gave it is; what it had alone goes, what was taken stays until the pool has gone. */
static void killed(int argc, char **argv)
{
	CUdeviceptr address;
	CUmemoryPool pool;
	uint64_t context_bytes;

	(void)argc;
	(void)argv;
	start();
	context_bytes = begun_bytes / 2;
	say('g');
	pool = import_pool();
	await('.');
	ask('a');
	OK(cuMemPoolImportPointer(&address, pool, data));
	ask('a');
	charged_is(2 * PIECE);
	CHECK(kill(other, SIGKILL) == 0);
	end_other();
	begun_bytes -= context_bytes;
	charged_is(PIECE);
	OK(cuMemFree_v2(address));
	charged_is(PIECE);
	OK(cuMemPoolDestroy(pool));
	charged_is(0);
}

static const struct client_case cases[] = {
	{ "freed", freed },
	{ "early", early },
	{ "alone", alone },
	{ "turns", turns },
	{ "ends", ends },
	{ "killed", killed },
	{ 0 },
};

int main(int argc, char **argv)
{
	return client_main(argc, argv, cases);
}
