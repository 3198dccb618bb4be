/*
 * Threads, children, programs that follow one another, signals and ends: whose a charge is, and
 * that it goes with its owner. Which case does what is said at it.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "client_take.h"

extern char **environ;

/* What several processes of a case share. */
struct shared {
	pthread_barrier_t barrier;
	_Atomic int got, refused, holders;
};

typedef void *thread_fn(void *arg);

static struct shared *share(unsigned waiters)
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;

	CHECK(s != MAP_FAILED);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	CHECK(pthread_barrier_init(&s->barrier, &attr, waiters) == 0);
	return s;
}

/* Waits for a child, which must end well. */
static void end_of(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	if (status != 0)
		fprintf(stderr, "child ended with %x\n", (unsigned)status);
	CHECK(status == 0);
}

/* An argument of the threads of a case. */
struct worker {
	struct shared *shared;
	CUcontext ctx;
	uint64_t bytes;
};

static void *first_use(void *arg)
{
	struct worker *w = arg;
	CUdeviceptr p;

	pthread_barrier_wait(&w->shared->barrier);
	client_start();
	OK(cuMemAlloc_v2(&p, BLOCK_BYTES));
	return NULL;
}

/* threads: 32 threads use the driver for the first time at once. */
static void threads(int argc, char **argv)
{
	enum { THREADS = 32 };
	struct worker w = { .shared = share(THREADS) };
	pthread_t thread[THREADS];

	(void)argc;
	(void)argv;
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, first_use, &w) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + THREADS * BLOCK_BYTES);
	client_pause("done");
}

static void *race_one(void *arg)
{
	struct worker *w = arg;
	CUdeviceptr p;
	CUresult res;

	OK(cuCtxSetCurrent(w->ctx));
	pthread_barrier_wait(&w->shared->barrier);
	res = cuMemAlloc_v2(&p, w->bytes);
	CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
	atomic_fetch_add(res == CUDA_SUCCESS ? &w->shared->got : &w->shared->refused, 1);
	/* Nobody gives anything back before everybody has asked. */
	pthread_barrier_wait(&w->shared->barrier);
	return NULL;
}

/* As many times as the test is worth: one piece is taken and given back by all in turn. */
enum { CONTEND_TURNS = CLIENT_SANITIZED ? 1000 : 3000 };

static void *contend_one(void *arg)
{
	struct worker *w = arg;
	CUdeviceptr p;
	CUresult res;

	OK(cuCtxSetCurrent(w->ctx));
	pthread_barrier_wait(&w->shared->barrier);
	for (int i = 0; i < CONTEND_TURNS; i++) {
		res = cuMemAlloc_v2(&p, w->bytes);
		if (res != CUDA_SUCCESS) {
			IS(res, CUDA_ERROR_OUT_OF_MEMORY);
			atomic_fetch_add(&w->shared->refused, 1);
			continue;
		}
		CHECK(atomic_fetch_add(&w->shared->holders, 1) == 0);
		CHECK(client_charged(0) <= client_limit(0));
		atomic_fetch_add(&w->shared->got, 1);
		atomic_fetch_sub(&w->shared->holders, 1);
		OK(cuMemFree_v2(p));
	}
	/* A process that ends leaves room for one more: its context. */
	pthread_barrier_wait(&w->shared->barrier);
	return NULL;
}

static void race_process(struct shared *shared, int threads, uint64_t bytes, thread_fn *body)
{
	struct worker w = { .shared = shared, .ctx = client_start(), .bytes = bytes };
	pthread_t thread[64];

	for (int i = 0; i < threads; i++)
		CHECK(pthread_create(&thread[i], NULL, body, &w) == 0);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
}

static void race_all(int argc, char **argv, thread_fn *body)
{
	int processes = atoi(argv[0]), n_threads = atoi(argv[1]);
	struct shared *shared = share((unsigned)(processes * n_threads));
	pid_t child[64];

	CHECK(argc == 3 && processes <= 64 && n_threads <= 64);
	for (int i = 0; i < processes; i++) {
		child[i] = fork();
		if (child[i] == 0) {
			race_process(shared, n_threads, strtoull(argv[2], NULL, 10) * MIB, body);
			_exit(0);
		}
	}
	for (int i = 0; i < processes; i++)
		end_of(child[i]);
	client_say("got", (uint64_t)shared->got);
	client_say("refused", (uint64_t)shared->refused);
}

/* race PROCESSES THREADS MIB: all ask at once. Field faults 4 and 92. */
static void race(int argc, char **argv)
{
	race_all(argc, argv, race_one);
}

/* contend PROCESSES THREADS MIB: there is room for one; never have two got it. */
static void contend(int argc, char **argv)
{
	race_all(argc, argv, contend_one);
}

/* A child of fork, or of the bare system call, past every handler. */
static pid_t new_child(bool is_raw)
{
	fflush(stdout);
	return is_raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
}

/* early-fork [raw]: children that were made before anything allocate, each in a slot of its own. */
static void early_fork(int argc, char **argv)
{
	pid_t child[4];
	int go[2], said[2];
	CUdeviceptr p;
	char c;

	(void)argv;
	CHECK(pipe(go) == 0 && pipe(said) == 0);
	for (int i = 0; i < 4; i++) {
		child[i] = new_child(argc > 0);
		if (child[i] == 0) {
			client_start();
			OK(cuMemAlloc_v2(&p, (uint64_t)(i + 1) * 10 * MIB));
			CHECK(write(said[1], "x", 1) == 1 && read(go[0], &c, 1) == 1);
			exit(0);
		}
	}
	for (int i = 0; i < 4; i++) {
		CHECK(read(said[0], &c, 1) == 1);
		printf("child %d\n", (int)child[i]);
	}
	client_pause("held");
	CHECK(write(go[1], "xxxx", 4) == 4);
	for (int i = 0; i < 4; i++)
		end_of(child[i]);
	client_start();
	OK(cuMemAlloc_v2(&p, 100 * MIB));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + 100 * MIB);
}

/*
 * late-fork [raw]: a child owns nothing of its parent's: what it calls is refused as without us,
 * and when it ends its parent's charge stays. Field faults 107, 109 and 115.
 */
static void late_fork(int argc, char **argv)
{
	uint64_t charged;
	CUdeviceptr p, q;
	size_t bytes;
	pid_t child;

	(void)argv;
	client_start();
	OK(cuMemAlloc_v2(&p, 100 * MIB));
	charged = getenv("RATION_MEM") ? client_charged(0) : 0;
	child = new_child(argc > 0);
	if (child == 0) {
		printf("alloc %d\n", cuMemAlloc_v2(&q, 4096));
		printf("free %d\n", cuMemFree_v2(p));
		printf("info %d\n", cuMemGetInfo_v2(&bytes, &bytes));
		printf("release %d\n", cuDevicePrimaryCtxRelease_v2(0));
		printf("init %d\n", cuInit(0));
		exit(0);
	}
	end_of(child);
	if (charged)
		CHARGED_IS(0, charged);
	OK(cuMemAlloc_v2(&q, 10 * MIB));
	if (charged)
		CHARGED_IS(0, charged + 10 * MIB);
	OK(cuMemFree_v2(q));
	OK(cuMemFree_v2(p));
	if (charged)
		CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	client_pause("end");
}

static _Atomic bool is_over;

static void *churn(void *arg)
{
	struct worker *w = arg;
	unsigned seed = (unsigned)(uintptr_t)pthread_self();
	CUdeviceptr p;

	OK(cuCtxSetCurrent(w->ctx));
	while (!is_over) {
		if (cuMemAlloc_v2(&p, 1 + (uint64_t)rand_r(&seed) % (3 * MIB)) == CUDA_SUCCESS)
			OK(cuMemFree_v2(p));
	}
	return NULL;
}

/* busy-fork: children are made while other threads are in the midst of allocations. */
static void busy_fork(int argc, char **argv)
{
	struct worker w = { .ctx = client_start() };
	pthread_t thread[4];
	CUdeviceptr p;
	pid_t child;

	(void)argc;
	(void)argv;
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&thread[i], NULL, churn, &w) == 0);
	for (int i = 0; i < 50; i++) {
		child = fork();
		if (child == 0) {
			/* Locks that other threads held are not inherited: this returns. */
			CHECK(cuMemAlloc_v2(&p, 4096) != CUDA_SUCCESS);
			CHECK(cuMemFree_v2(4096) != CUDA_SUCCESS);
			_exit(0);
		}
		end_of(child);
	}
	is_over = true;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
}

/* churn SECONDS_MAX: 8 threads allocate and free until the test has seen enough. Field fault 24. */
static void churn_all(int argc, char **argv)
{
	struct worker w = { .ctx = client_start() };
	pthread_t thread[8];

	(void)argc;
	(void)argv;
	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&thread[i], NULL, churn, &w) == 0);
	client_pause("busy");
	is_over = true;
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
}

/*
 * exec PROGRAM: takes what there is and becomes itself again; the second finds it free. Fault 114.
 */
static void exec_self(int argc, char **argv)
{
	CUdeviceptr p;

	CHECK(argc > 0);
	client_start();
	OK(cuMemAlloc_v2(&p, 100 * MIB));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + 100 * MIB);
	if (argc == 1)
		execl(argv[0], argv[0], "exec", argv[0], "again", NULL);
	CHECK(argc == 2);
	client_pause("end");
}

/* What a child held is free again, and shown so: the dead are looked for once a ms at most. */
static void only_ours_is_left(void)
{
	size_t free_bytes, total_bytes;

	for (int tries = 0; tries < 1000; tries++) {
		OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
		if (total_bytes - free_bytes == CLIENT_CONTEXT_BYTES + 50 * MIB)
			break;
		usleep(2000);
	}
	SAME(total_bytes - free_bytes, CLIENT_CONTEXT_BYTES + 50 * MIB);
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + 50 * MIB);
}

/* spawn PROGRAM: children by posix_spawn and vfork have what is left; the parent's own stays. */
static void spawn(int argc, char **argv)
{
	char *child_argv[] = { argv[0], (char *)"child", NULL };
	CUdeviceptr p;
	pid_t child;

	CHECK(argc == 1);
	client_start();
	OK(cuMemAlloc_v2(&p, 50 * MIB));
	CHECK(posix_spawn(&child, argv[0], NULL, NULL, child_argv, environ) == 0);
	end_of(child);
	only_ours_is_left();
	child = vfork();
	if (child == 0) {
		execv(argv[0], child_argv);
		_exit(127);
	}
	end_of(child);
	only_ours_is_left();
	OK(cuMemFree_v2(p));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
}

/* child: of the case above: the limit is for both. */
static void child_of_spawn(int argc, char **argv)
{
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	CHARGED_IS(0, 2 * CLIENT_CONTEXT_BYTES + 50 * MIB);
	IS(cuMemAlloc_v2(&p, 80 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc_v2(&p, 70 * MIB));
}

static int counts[65];

static void count(int sig)
{
	counts[sig]++;
}

static bool same_handlers(const struct sigaction *before)
{
	struct sigaction now;

	for (int sig = 1; sig < 65; sig++) {
		if (sigaction(sig, NULL, &now) != 0)
			continue;
		if (now.sa_handler != before[sig].sa_handler ||
		    now.sa_flags != before[sig].sa_flags)
			return false;
	}
	return true;
}

/* signals: no handler of the program's is replaced, none is added. */
static void signals(int argc, char **argv)
{
	struct sigaction before[65];
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	signal(SIGUSR1, count);
	signal(SIGTERM, count);
	for (int sig = 1; sig < 65; sig++)
		sigaction(sig, NULL, &before[sig]);
	OK(cuInit(0));
	printf("before: %s\n", same_handlers(before) ? "same" : "others");
	client_start();
	OK(cuMemAlloc_v2(&p, 1));
	signal(SIGUSR2, count);
	for (int sig = 1; sig < 65; sig++)
		sigaction(sig, NULL, &before[sig]);
	OK(cuMemFree_v2(p));
	printf("after: %s\n", same_handlers(before) ? "same" : "others");
	raise(SIGUSR1);
	raise(SIGUSR2);
	raise(SIGTERM);
	printf("usr1 %d usr2 %d term %d\n", counts[SIGUSR1], counts[SIGUSR2], counts[SIGTERM]);
}

static void init_in_handler(int sig)
{
	CUresult res = cuInit(0);
	char line[] = "handled 0000\n";

	(void)sig;
	for (int i = 11, n = (int)res; i > 7; i--, n /= 10)
		line[i] = (char)('0' + n % 10);
	CHECK(write(STDOUT_FILENO, line, sizeof(line) - 1) > 0);
}

/*
 * handler: a signal interrupts our own first use and its handler uses the driver too: it is refused
 * at once, and what it interrupted completes. The test holds the region's lock meanwhile.
 */
static void handler(int argc, char **argv)
{
	struct itimerval timer = { .it_value = { .tv_usec = 200000 } };
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	signal(SIGALRM, init_in_handler);
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
	OK(cuInit(0));
	client_start();
	OK(cuMemAlloc_v2(&p, 1));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + BLOCK_BYTES);
	raise(SIGALRM);
}

/* in-handler: the first use of all is in a signal handler. */
static void in_handler(int argc, char **argv)
{
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	signal(SIGALRM, init_in_handler);
	raise(SIGALRM);
	client_start();
	OK(cuMemAlloc_v2(&p, 1));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + BLOCK_BYTES);
}

static CUdeviceptr left_over;
static CUcontext left_ctx;

static void at_exit(void)
{
	CUdeviceptr p;

	OK(cuMemFree_v2(left_over));
	OK(cuMemAlloc_v2(&p, 10 * MIB));
	OK(cuCtxSetCurrent(left_ctx));
}

/* exit: the program goes on using the driver in its exit handlers. Field fault 28. */
static void late_calls(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	atexit(at_exit);
	left_ctx = client_start();
	OK(cuMemAlloc_v2(&left_over, 100 * MIB));
}

static void *use_what_is_gone(void *arg)
{
	CUdeviceptr p = 0;
	size_t left, total;

	(void)arg;
	printf("current %d\n", cuCtxSetCurrent(left_ctx));
	for (int i = 0; i < 100; i++) {
		cuCtxSetCurrent(left_ctx);
		cuMemFree_v2(left_over);
	}
	printf("info %d alloc %d free %d\n", cuMemGetInfo_v2(&left, &total),
	       cuMemAlloc_v2(&p, 4096), cuMemFree_v2(left_over));
	return NULL;
}

static void at_exit_after_reset(void)
{
	pthread_t thread;

	OK(cuDevicePrimaryCtxReset_v2(0));
	CHECK(pthread_create(&thread, NULL, use_what_is_gone, NULL) == 0);
	pthread_join(thread, NULL);
	if (getenv("RATION_MEM"))
		CHARGED_IS(0, 0);
}

/* gone: likewise, from a thread, of what was reset before. */
static void gone(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	atexit(at_exit_after_reset);
	left_ctx = client_start();
	OK(cuMemAlloc_v2(&left_over, 100 * MIB));
}

/* descriptors: started with 0, 1 and 2 closed; none of ours takes their place. */
static void descriptors(int argc, char **argv)
{
	char path[64], file[512];
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	if (cuInit(0) != CUDA_SUCCESS)
		_exit(2);
	client_start();
	if (cuMemAlloc_v2(&p, 1) != CUDA_SUCCESS)
		_exit(3);
	for (int fd = 0; fd < 3; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, file, sizeof(file) - 1);
		file[n > 0 ? n : 0] = '\0';
		if (!strcmp(file, getenv("RATION_REGION")))
			_exit(4 + fd);
	}
	_exit(0);
}

/* file-size: RLIMIT_FSIZE below the region's size must not kill the program. */
static void file_size(int argc, char **argv)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };

	(void)argc;
	(void)argv;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	printf("init %d\n", cuInit(0));
}

/* new-root ROOT MIB: what a dead process holds comes back also when the region has no path here. */
static void new_root(int argc, char **argv)
{
	CUdeviceptr p, q;

	CHECK(argc == 2);
	client_start();
	OK(cuMemAlloc_v2(&p, 2 * MIB));
	client_pause("ready");
	CHECK(chroot(argv[0]) == 0 && chdir("/") == 0);
	OK(cuMemAlloc_v2(&q, strtoull(argv[1], NULL, 10) * MIB));
	OK(cuMemFree_v2(q));
	IS(cuMemAlloc_v2(&q, UINT64_C(1) << 40), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemFree_v2(p));
	client_pause("changed");
}

/* kill-me: a process that ends without a word. */
static void abrupt(int argc, char **argv)
{
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemAlloc_v2(&p, 100 * MIB));
	raise(SIGKILL);
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "threads", threads },
		{ "race", race },
		{ "contend", contend },
		{ "early-fork", early_fork },
		{ "late-fork", late_fork },
		{ "busy-fork", busy_fork },
		{ "churn", churn_all },
		{ "exec", exec_self },
		{ "spawn", spawn },
		{ "child", child_of_spawn },
		{ "signals", signals },
		{ "handler", handler },
		{ "in-handler", in_handler },
		{ "exit", late_calls },
		{ "gone", gone },
		{ "descriptors", descriptors },
		{ "file-size", file_size },
		{ "new-root", new_root },
		{ "kill-me", abrupt },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
