/*
 * backlog: keeps a long queue of kernels full until a line comes, in a process that has asked for a
 * function with a collective's name and never launches it.
 */
#include "client.h"

#include <pthread.h>

#include "../../examples/kernels.h"

enum { DEPTH = 48 };
#define KERNEL_NS UINT64_C(6000000)

static _Atomic bool is_over;

static void *wait_for_line(void *arg)
{
	client_pause("ready");
	is_over = true;
	return arg;
}

int main(void)
{
	CUfunction spin, collective;
	uint64_t ns = KERNEL_NS;
	void *params[] = { &ns };
	CUevent events[DEPTH];
	CUstream stream;
	CUmodule module;
	CUdeviceptr addr;
	pthread_t thread;

	client_start();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuModuleGetFunction(&collective, module, "ncclMeet"));
	OK(cuMemAlloc_v2(&addr, 8 * MIB));
	for (int i = 0; i < DEPTH; i++)
		OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; !is_over; i++) {
		if (i >= DEPTH)
			OK(cuEventSynchronize(events[i % DEPTH]));
		OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
		OK(cuEventRecord(events[i % DEPTH], stream));
		if (i == DEPTH)
			CHECK(pthread_create(&thread, NULL, wait_for_line, NULL) == 0);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	printf("end\n");
	return 0;
}
