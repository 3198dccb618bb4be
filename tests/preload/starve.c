/*
 * The program's malloc fails at its nth call, for n = 1, 2, ..: every driver call answers success
 * or an error, and nothing stays charged. Runs with libflaky.so in front.
 */
#include <dlfcn.h>

#include "client.h"
#include "client_take.h"

static void (*fail_at)(int nth);
static int (*calls)(void);

static bool is_answer(CUresult res)
{
	return res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY;
}

/* One try with the nth allocation failing; returns how many there were. */
static int try_take(const char *kind, uint64_t bytes, int nth)
{
	struct piece piece;
	CUresult res;
	int n;

	fail_at(nth);
	res = take(&piece, kind, bytes);
	n = calls();
	fail_at(0);
	CHECK(is_answer(res));
	if (res == CUDA_SUCCESS)
		OK(give(&piece));
	return n;
}

static int try_free(const char *kind, uint64_t bytes, int nth)
{
	struct piece piece;
	CUresult res;
	int n;

	OK(take(&piece, kind, bytes));
	fail_at(nth);
	res = give(&piece);
	n = calls();
	fail_at(0);
	CHECK(is_answer(res));
	if (res != CUDA_SUCCESS)
		OK(give(&piece));
	return n;
}

static int try_module(int nth)
{
	CUmodule module;
	CUresult res;
	int n;

	fail_at(nth);
	res = cuModuleLoadData(&module, CLIENT_MODULE);
	n = calls();
	fail_at(0);
	CHECK(is_answer(res));
	if (res == CUDA_SUCCESS)
		OK(cuModuleUnload(module));
	return n;
}

static int try_context(int nth)
{
	CUcontext ctx;
	CUresult res;
	int n;

	fail_at(nth);
	res = cuCtxCreate_v2(&ctx, 0, 0);
	n = calls();
	fail_at(0);
	CHECK(is_answer(res));
	if (res == CUDA_SUCCESS)
		OK(cuCtxDestroy_v2(ctx));
	return n;
}

int main(void)
{
	static const char *const kinds[] = { "alloc", "pitch", "managed", "vmm", "mapped" };
	CUcontext ctx;

	*(void **)&fail_at = dlsym(RTLD_DEFAULT, "flaky_fail");
	*(void **)&calls = dlsym(RTLD_DEFAULT, "flaky_calls");
	CHECK(fail_at && calls);
	ctx = client_start();
	/* Objects are given back by a thread, which is there then. */
	if (client_is_movable())
		try_take("alloc", 1000, 0);
	for (int k = 0; k < 5; k++) {
		for (int nth = 1; nth <= 1 + try_take(kinds[k], 1000, nth); nth++)
			;
		for (int nth = 1; nth <= 1 + try_take(kinds[k], 5 * MIB, nth); nth++)
			;
		for (int nth = 1; nth <= 1 + try_free(kinds[k], 1000, nth); nth++)
			;
		CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	}
	for (int nth = 1; nth <= 1 + try_module(nth); nth++)
		;
	for (int nth = 1; nth <= 1 + try_context(nth); nth++)
		OK(cuCtxSetCurrent(ctx));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	return 0;
}
