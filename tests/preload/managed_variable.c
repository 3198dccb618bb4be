/*
 * Managed variables of modules and libraries, which no figure of the card shows: charged for as
 * long as what has them is loaded. Which case does what is said at it.
 */
#include "client.h"

enum { ROOM = 16 << 20 };

#define HEAD ".version 6.0\n.target sm_50\n.address_size 64\n"
#define ENTRY ".visible .entry empty()\n{\n\tret;\n}\n"

static const char image[] = HEAD
	".visible .global .attribute(.managed) .align 4 .b8 room[16777216];\n" ENTRY;
static const char large_image[] = HEAD
	".visible .global .attribute(.managed) .align 4 .b8 room[1073741824];\n" ENTRY;

static uint64_t begun_bytes;

static void start(void)
{
	CUmodule module;

	client_start();
	/* What modules need beside them is there. */
	OK(cuModuleLoadData(&module, HEAD ENTRY));
	begun_bytes = client_charged(0);
}

static void charged_is(uint64_t bytes)
{
	SAME(client_charged_at_last(0, begun_bytes + bytes), begun_bytes + bytes);
}

/* module: it is unloaded; one that is too large is refused. */
static void of_a_module(int argc, char **argv)
{
	CUmodule module, none;
	CUdeviceptr room;
	size_t bytes;

	(void)argc;
	(void)argv;
	start();
	OK(cuModuleLoadData(&module, image));
	charged_is(ROOM);
	OK(cuModuleGetGlobal_v2(&room, &bytes, module, "room"));
	CHECK(bytes == ROOM);
	OK(cuMemsetD8_v2(room, 1, bytes));
	OK(cuCtxSynchronize());
	charged_is(ROOM);
	IS(cuModuleLoadData(&none, large_image), CUDA_ERROR_OUT_OF_MEMORY);
	charged_is(ROOM);
	OK(cuModuleUnload(module));
	charged_is(0);
}

/* context: it ends with a module in it. */
static void of_a_context(int argc, char **argv)
{
	CUmodule module;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	start();
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuModuleLoadData(&module, image));
	CHECK(client_charged(0) >= begun_bytes + ROOM);
	OK(cuCtxDestroy_v2(ctx));
	charged_is(0);
}

/* library: once, however many contexts it is in, until it is unloaded. */
static void of_a_library(int argc, char **argv)
{
	CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *value = (void *)(intptr_t)(argc > 0 && strcmp(argv[0], "preserved") == 0);
	CUlibrary library, none;
	CUmodule module;
	CUcontext ctx;

	start();
	OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, &option, &value, 1));
	OK(cuLibraryGetModule(&module, library));
	charged_is(ROOM);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuLibraryGetModule(&module, library));
	OK(cuCtxDestroy_v2(ctx));
	charged_is(ROOM);
	none = NULL;
	if (value) {
		OK(cuLibraryLoadData(&none, large_image, NULL, NULL, 0, &option, &value, 1));
		IS(cuLibraryGetModule(&module, none), CUDA_ERROR_OUT_OF_MEMORY);
		OK(cuLibraryUnload(none));
	} else {
		IS(cuLibraryLoadData(&none, large_image, NULL, NULL, 0, &option, &value, 1),
		   CUDA_ERROR_OUT_OF_MEMORY);
	}
	charged_is(ROOM);
	OK(cuLibraryUnload(library));
	charged_is(0);
}

static const struct client_case cases[] = {
	{ "module", of_a_module },
	{ "context", of_a_context },
	{ "library", of_a_library },
	{ 0 },
};

int main(int argc, char **argv)
{
	return client_main(argc, argv, cases);
}
