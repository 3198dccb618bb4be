/* The library's worker, seen from the program whose process it is in. */
#include "client.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

/* The status file of the thread called "ration", opened; NULL when there is none. */
static FILE *worker_status(void)
{
	DIR *tasks = opendir("/proc/self/task");
	FILE *found = NULL;
	struct dirent *d;

	CHECK(tasks);
	while (!found && (d = readdir(tasks))) {
		char path[300], line[64] = "";

		if (!isdigit((unsigned char)d->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", d->d_name);
		found = fopen(path, "re");
		if (found &&
		    (!fgets(line, sizeof(line), found) || strcmp(line, "Name:\tration\n"))) {
			fclose(found);
			found = NULL;
		}
	}
	closedir(tasks);
	return found;
}

static bool is_there(void)
{
	FILE *f = worker_status();

	if (f)
		fclose(f);
	return f != NULL;
}

static void await(bool (*cond)(void))
{
	for (int i = 0; i < 1000 && !cond(); i++)
		usleep(10000);
	CHECK(cond());
}

static void allocate(void)
{
	CUdeviceptr p;

	OK(cuMemAlloc_v2(&p, BLOCK_BYTES));
}

/* thread: there is one once it is needed, it takes no signal, and a child has its own. */
static void thread(int argc, char **argv)
{
	unsigned long long blocked = 0;
	char line[128];
	int status;
	FILE *f;
	pid_t pid;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	CHECK(!is_there());
	client_start();
	allocate();
	await(is_there);
	f = worker_status();
	while (fgets(line, sizeof(line), f))
		sscanf(line, "SigBlk:\t%llx", &blocked);
	fclose(f);
	/* All but SIGKILL and SIGSTOP, which cannot be blocked, and libc's own two. */
	CHECK((blocked | 1ull << 8 | 1ull << 18 | 1ull << 31 | 1ull << 32) == ~0ull);
	pid = fork();
	if (pid == 0)
		_exit(is_there() ? 1 : 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	/* Another process on the driver, started from here, has one of its own. */
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "worker", "alone", (char *)NULL);
		_exit(2);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void alone(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	client_start();
	allocate();
	await(is_there);
}

static uint64_t want_bytes;

static bool is_counted(void)
{
	return client_charged(0) >= want_bytes;
}

/* unseen LIBRARY: memory that no hook saw is counted, and what is then asked for is refused. */
static void unseen(int argc, char **argv)
{
	CUresult (*unseen_alloc)(CUdeviceptr *, size_t);
	CUdeviceptr p;
	void *lib;

	CHECK(argc == 1);
	client_start();
	allocate();
	lib = dlopen(argv[0], RTLD_NOW | RTLD_DEEPBIND);
	CHECK(lib);
	unseen_alloc = (CUresult(*)(CUdeviceptr *, size_t))dlsym(lib, "unseen_alloc");
	CHECK(unseen_alloc);
	want_bytes = client_charged(0) + 64 * MIB;
	OK(unseen_alloc(&p, 64 * MIB));
	await(is_counted);
	CHARGED_IS(0, want_bytes);
	IS(cuMemAlloc_v2(&p, client_limit(0) - want_bytes + BLOCK_BYTES), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc_v2(&p, client_limit(0) - want_bytes));
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "thread", thread },
		{ "alone", alone },
		{ "unseen", unseen },
		{ NULL, NULL },
	};

	return client_main(argc, argv, cases);
}
