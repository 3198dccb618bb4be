/*
 * Launches while the kernel ends the program for any system call but the clock's: what a launch
 * needs of the system it has before. The driver has to be one that needs none itself. Allocations
 * may also have memory looked at and given back, which the driver does and we do to see that the
 * region is whole: no file is opened, read, asked about or locked.
 *
 *   hot launches | allocations | reads
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"
#include "kernels.h"

enum { WARM = 3000, COUNT = 5000 };

static CUfunction function;

static void launch(long count)
{
	for (long i = 0; i < count; i++)
		OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

/* Small and large, freed in the order they came. */
static void allocate(long count)
{
	static const size_t bytes[] = { 1000, 3 << 20, 64 << 20 };
	CUdeviceptr addrs[3];

	for (long i = 0; i < count; i++) {
		for (int k = 0; k < 3; k++)
			OK(cuMemAlloc_v2(&addrs[k], bytes[k]));
		for (int k = 0; k < 3; k++)
			OK(cuMemFree_v2(addrs[k]));
	}
}

static void read_once(void)
{
	char byte;

	CHECK(read(-1, &byte, 1) == -1);
}

/* The calling thread may ask for the time, write and end, and `more` of these; else it is ended. */
static void forbid(int more)
{
	static const unsigned allowed[] = { SYS_clock_gettime, SYS_write, SYS_exit_group,
					    SYS_madvise,       SYS_mmap,  SYS_munmap,
					    SYS_brk,           SYS_futex };
	enum { ALWAYS = 3, MOST = sizeof(allowed) / sizeof(*allowed) };
	struct sock_filter code[1 + 2 * MOST + 1];
	struct sock_fprog program = { .filter = code };
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (int i = 0; i < ALWAYS + more && i < MOST; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0,
							 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	program.len = n;
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(int argc, char **argv)
{
	CUmodule module;
	CUcontext ctx;

	CHECK(argc == 2);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&function, module, "empty"));
	launch(WARM);
	allocate(WARM);
	forbid(strcmp(argv[1], "allocations") ? 0 : 5);
	if (strcmp(argv[1], "reads") == 0)
		read_once();
	if (strcmp(argv[1], "allocations") == 0)
		allocate(COUNT);
	launch(COUNT);
	_exit(0);
}
