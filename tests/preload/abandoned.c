/*
 * abandoned stream|context|reset: begins a capture and ends the stream that it is in by that. What
 * is freed then is to be had again, and all can leave the device.
 */
#include "client.h"

enum { ROUNDS = 8 };

int main(int argc, char **argv)
{
	CUdeviceptr addr;
	CUcontext ctx;
	CUstream stream;

	CHECK(argc == 2);
	ctx = client_start();
	if (!strcmp(argv[1], "context"))
		OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	if (!strcmp(argv[1], "stream"))
		OK(cuStreamDestroy_v2(stream));
	else if (!strcmp(argv[1], "context"))
		OK(cuCtxDestroy_v2(ctx));
	else
		OK(cuDevicePrimaryCtxReset_v2(0));
	client_start();
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemAlloc_v2(&addr, 100 * MIB));
		OK(cuMemsetD8_v2(addr, 1, MIB));
		OK(cuMemFree_v2(addr));
	}
	OK(cuMemAlloc_v2(&addr, 4 * MIB));
	/* What is still under way would hold a suspension up, and is no capture. */
	OK(cuCtxSynchronize());
	client_pause("ready");
	printf("end\n");
	return 0;
}
