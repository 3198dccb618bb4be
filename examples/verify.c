/*
 * Fills, copies, adds and sums on the device and compares with what the host computes. Prints "ok",
 * or what differs and ends with status 1. See `help`.
 */
#include "kernels.h"
#include "options.h"

static const char help[] =
	"Usage: verify [SIZE]\n"
	"Fills, copies, adds and sums buffers of SIZE bytes (1m) on the device and compares with\n"
	"what the host computes. Prints \"ok\", or what differs.\n";

struct verify {
	CUmodule module;
	uint64_t bytes;
	CUdeviceptr a, b, sum;
	unsigned char *host;
};

static void launch(struct verify *v, const char *name, void **params)
{
	CUfunction func;

	CHECK(cuModuleGetFunction(&func, v->module, name));
	CHECK(cuLaunchKernel(func, name[0] == 'c' && name[1] == 'h' ? 1 : 64, 1, 1, 256, 1, 1, 0,
			     NULL, params, NULL));
}

static void compare(const char *what, uint64_t got, uint64_t want)
{
	if (got == want)
		return;
	printf("%s: got %llx, want %llx\n", what, (unsigned long long)got,
	       (unsigned long long)want);
	exit(1);
}

static uint64_t host_sum(const unsigned char *bytes, uint64_t count)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < count; i++)
		sum += bytes[i] * (2 * i + 1);
	return sum;
}

static uint64_t device_sum(struct verify *v, CUdeviceptr address)
{
	void *params[] = { &address, &v->bytes, &v->sum };
	uint64_t sum;

	launch(v, "checksum", params);
	CHECK(cuMemcpyDtoH_v2(&sum, v->sum, sizeof(sum)));
	return sum;
}

static void check_fill(struct verify *v)
{
	unsigned value = 0x01020304;
	uint64_t words = v->bytes / 4;
	void *params[] = { &v->a, &value, &words };

	launch(v, "fill", params);
	for (uint64_t i = 0; i < words; i++)
		memcpy(v->host + 4 * i, &value, 4);
	compare("checksum after fill", device_sum(v, v->a), host_sum(v->host, v->bytes));
}

static void check_copies(struct verify *v)
{
	void *params[] = { &v->b, &v->a, &v->bytes };
	uint64_t want;

	for (uint64_t i = 0; i < v->bytes; i++)
		v->host[i] = (unsigned char)(i * 7 + (i >> 8));
	want = host_sum(v->host, v->bytes);
	CHECK(cuMemcpyHtoD_v2(v->a, v->host, v->bytes));
	compare("checksum after a copy to the device", device_sum(v, v->a), want);
	launch(v, "copy", params);
	compare("checksum after the copy kernel", device_sum(v, v->b), want);
	CHECK(cuMemsetD8_v2(v->a, 0, v->bytes));
	CHECK(cuMemcpyDtoD_v2(v->a, v->b, v->bytes));
	memset(v->host, 0, v->bytes);
	CHECK(cuMemcpyDtoH_v2(v->host, v->a, v->bytes));
	compare("checksum after copies back", host_sum(v->host, v->bytes), want);
}

static void check_add(struct verify *v)
{
	uint64_t words = v->bytes / 4;
	void *params[] = { &v->b, &v->a, &v->b, &words };
	float *host = (float *)v->host;

	for (uint64_t i = 0; i < words; i++)
		host[i] = (float)(i % 1000);
	CHECK(cuMemcpyHtoD_v2(v->a, host, v->bytes));
	CHECK(cuMemcpyHtoD_v2(v->b, host, v->bytes));
	launch(v, "add", params);
	for (uint64_t i = 0; i < words; i++)
		host[i] += host[i];
	compare("checksum after add", device_sum(v, v->b), host_sum(v->host, v->bytes));
}

int main(int argc, char **argv)
{
	struct verify v = { .bytes = MIB };
	CUdevice dev;
	CUcontext ctx;

	if (argc > 1 && strcmp(argv[1], "--help") == 0)
		options_help(help);
	options_end(argc, argv, 2);
	if (argc > 1)
		v.bytes = options_size("SIZE", argv[1]);
	v.bytes = (v.bytes + 3) / 4 * 4;
	v.host = malloc(v.bytes);
	if (!v.host)
		return 1;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cuCtxSetCurrent(ctx));
	CHECK(cuModuleLoadData(&v.module, kernels_ptx));
	CHECK(cuMemAlloc_v2(&v.a, v.bytes));
	CHECK(cuMemAlloc_v2(&v.b, v.bytes));
	CHECK(cuMemAlloc_v2(&v.sum, sizeof(uint64_t)));
	check_fill(&v);
	check_copies(&v);
	check_add(&v);
	CHECK(cuMemFree_v2(v.sum));
	CHECK(cuMemFree_v2(v.b));
	CHECK(cuMemFree_v2(v.a));
	CHECK(cuModuleUnload(v.module));
	CHECK(cuDevicePrimaryCtxRelease_v2(dev));
	free(v.host);
	puts("ok");
	return 0;
}
