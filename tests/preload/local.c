/* Local memory: a context's area grows at launches that need more than it has. */
#include "client.h"

#include <pthread.h>
#include <sys/wait.h>

/* Kernels with so many bytes for each thread; the software GPU reads what it needs of it. */
#define KERNEL(name, bytes)                                                          \
	".visible .entry " name "()\n{\n\t.local .align 8 .b8 depot_" name "[" bytes \
	"];\n\tret;\n}\n"
#define IMAGE(empty, spin, fill)                                                                         \
	".version 6.0\n.target sm_50\n.address_size 64\n" KERNEL(                                        \
		"empty",                                                                                 \
		empty) ".visible .entry spin(.param .u64 ns)\n{\n\t.local .align 8 .b8 depot_spin[" spin \
		       "];\n\tret;\n}\n"

static const char image[] = IMAGE("8192", "4096", "0");
static const char small[] = IMAGE("64", "0", "0");

/* Of the software GPU's 16 multiprocessors. */
#define AREA_BYTES(thread) (((uint64_t)(thread)-1024) * 2048 * 16)

static CUresult launch(CUfunction func)
{
	uint64_t ns = 1000;
	void *params[] = { &ns };

	return cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

static CUfunction function(const char *text, const char *name)
{
	CUmodule module;
	CUfunction func;

	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&func, module, name));
	return func;
}

/* Too large for the limit: refused, nothing is launched and nothing charged; smaller ones go on. */
static void refused(int argc, char **argv)
{
	CUfunction large, medium, tiny;
	uint64_t before;

	(void)argc;
	(void)argv;
	client_start();
	large = function(image, "empty");
	medium = function(image, "spin");
	tiny = function(small, "empty");
	OK(launch(tiny));
	before = client_charged(0);
	IS(launch(large), CUDA_ERROR_OUT_OF_MEMORY);
	IS(launch(large), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuCtxSynchronize());
	CHECK(client_charged(0) <= before + BLOCK_BYTES);
	client_pause("refused");
	OK(launch(medium));
	OK(cuCtxSynchronize());
	client_pause("medium");
	IS(launch(large), CUDA_ERROR_OUT_OF_MEMORY);
	OK(launch(medium));
	OK(launch(tiny));
}

/* The most counts, not the sum. */
static void most(int argc, char **argv)
{
	CUfunction large, medium, tiny;
	uint64_t start, charged;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	large = function(image, "empty");
	medium = function(image, "spin");
	tiny = function(small, "empty");
	OK(launch(tiny));
	OK(launch(medium));
	start = client_charged(0);
	OK(launch(tiny));
	OK(launch(medium));
	SAME(client_charged(0), start);
	OK(launch(large));
	charged = client_charged(0);
	CHECK(charged >= start + AREA_BYTES(8192) - AREA_BYTES(4096));
	CHECK(charged <= start + AREA_BYTES(8192) - AREA_BYTES(4096) + 2 * BLOCK_BYTES);
	OK(launch(medium));
	OK(launch(large));
	SAME(client_charged(0), charged);
	client_pause("large");
	OK(cuCtxDestroy_v2(ctx));
	SAME(client_charged(0), 0);
}

static const struct client_case cases[] = {
	{ "refused", refused },
	{ "most", most },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return client_main(argc, argv, cases);
}
