/*
 * little context|create|retained: a program that has a context and nothing else, a handle of memory
 * without a context, or both; and waits.
 */
#include "client.h"

static void create(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
}

int main(int argc, char **argv)
{
	CUcontext ctx;

	CHECK(argc == 2);
	OK(cuInit(0));
	if (strcmp(argv[1], "context") == 0) {
		OK(cuCtxCreate_v2(&ctx, 0, 0));
	} else if (strcmp(argv[1], "retained") == 0) {
		OK(cuDevicePrimaryCtxRetain(&ctx, 0));
		create();
	} else {
		create();
	}
	client_pause("ready");
	return 0;
}
