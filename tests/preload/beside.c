/*
 * What no allocation call shows is taken beside an allocation of another thread that is still in
 * the driver. The two do not fit together: it is refused, and the allocation is not.
 *
 *   beside module|heap|buffer    what is taken
 */
#include <pthread.h>

#include "client.h"
#include "client_held.h"
#include "client_take.h"

#define HALF_BYTES (150 * MIB)

/* A module with so many bytes of variables. */
static const char large[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			    ".visible .global .align 8 .b8 large[157286400];\n"
			    ".visible .entry empty()\n{\n\tret;\n}\n";

static CUcontext primary;

static void *allocate(void *arg)
{
	CUdeviceptr *out_addr = arg;

	OK(cuCtxSetCurrent(primary));
	OK(cuMemAlloc_v2(out_addr, HALF_BYTES));
	return NULL;
}

static CUresult take_unshown(const char *what)
{
	CUmodule module;

	if (!strcmp(what, "module"))
		return cuModuleLoadData(&module, large);
	return cuCtxSetLimit(!strcmp(what, "heap") ? CU_LIMIT_MALLOC_HEAP_SIZE :
						     CU_LIMIT_PRINTF_FIFO_SIZE,
			     HALF_BYTES);
}

int main(int argc, char **argv)
{
	struct client_held held = client_held_find();
	CUdeviceptr addr;

	CHECK(argc == 2);
	primary = client_start();
	alarm(60);
	client_held_start(&held, allocate, &addr);
	IS(take_unshown(argv[1]), CUDA_ERROR_OUT_OF_MEMORY);
	client_held_end(&held);
	SAME(client_charged(0), CLIENT_CONTEXT_BYTES + HALF_BYTES);
	/* There is room again without it. */
	OK(cuMemFree_v2(addr));
	OK(take_unshown(argv[1]));
	return 0;
}
