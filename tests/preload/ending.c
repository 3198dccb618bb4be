/*
 * ending CALL: takes memory in its only context and, when it is let go on, ends that by CALL and
 * begins anew.
 */
#include "client.h"

static CUcontext begin(const char *call)
{
	CUcontext ctx;

	if (call[0] == 'd') {
		OK(cuCtxCreate_v2(&ctx, 0, 0));
		return ctx;
	}
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

static void end(const char *call, CUcontext ctx)
{
	if (!strcmp(call, "destroy"))
		OK(cuCtxDestroy_v2(ctx));
	else if (!strcmp(call, "detach"))
		OK(cuCtxDetach(ctx));
	else if (!strcmp(call, "release"))
		OK(cuDevicePrimaryCtxRelease_v2(0));
	else
		OK(cuDevicePrimaryCtxReset_v2(0));
}

int main(int argc, char **argv)
{
	CUdeviceptr addr;
	CUcontext ctx;
	unsigned word;

	CHECK(argc == 2);
	OK(cuInit(0));
	ctx = begin(argv[1]);
	OK(cuMemAlloc_v2(&addr, 5 * MIB));
	client_pause("ready");
	end(argv[1], ctx);
	begin(argv[1]);
	OK(cuMemAlloc_v2(&addr, 5 * MIB));
	OK(cuMemsetD32_v2(addr, 0x5a5a5a5a, 1));
	OK(cuMemcpyDtoH_v2(&word, addr, 4));
	SAME(word, 0x5a5a5a5a);
	printf("end\n");
	return 0;
}
