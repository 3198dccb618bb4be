/* cuGetProcAddress: exactly the symbol of the asked version and kind of stream. */
#include <dlfcn.h>

#include "check.h"

enum {
	LEGACY = CU_GET_PROC_ADDRESS_LEGACY_STREAM,
	OWN = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
};

struct row {
	const char *name;
	int version;
	unsigned flags;
	const char *symbol; /* NULL: none */
	CUdriverProcAddressQueryResult status;
};

static const struct row rows[] = {
	{ "cuMemAlloc", 2000, 0, "cuMemAlloc", 0 },
	{ "cuMemAlloc", 3010, 0, "cuMemAlloc", 0 },
	{ "cuMemAlloc", 3020, 0, "cuMemAlloc_v2", 0 },
	{ "cuMemAlloc", 13000, OWN, "cuMemAlloc_v2", 0 },
	{ "cuCtxCreate", 2000, 0, "cuCtxCreate", 0 },
	{ "cuCtxCreate", 11030, 0, "cuCtxCreate_v2", 0 },
	{ "cuCtxCreate", 11040, 0, "cuCtxCreate_v3", 0 },
	{ "cuCtxCreate", 12050, 0, "cuCtxCreate_v4", 0 },
	{ "cuCtxSynchronize", 12090, 0, "cuCtxSynchronize", 0 },
	{ "cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2", 0 },
	{ "cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2", 0 },
	{ "cuStreamGetCaptureInfo", 10010, LEGACY, "cuStreamGetCaptureInfo", 0 },
	{ "cuStreamGetCaptureInfo", 11030, LEGACY, "cuStreamGetCaptureInfo_v2", 0 },
	{ "cuStreamGetCaptureInfo", 12030, LEGACY, "cuStreamGetCaptureInfo_v3", 0 },
	{ "cuStreamGetCaptureInfo", 12020, OWN, "cuStreamGetCaptureInfo_v2_ptsz", 0 },
	{ "cuMemcpyBatchAsync", 12080, 0, "cuMemcpyBatchAsync", 0 },
	{ "cuMemcpyBatchAsync", 13000, 0, "cuMemcpyBatchAsync_v2", 0 },
	{ "cuMemcpyBatchAsync", 13000, OWN, "cuMemcpyBatchAsync_v2_ptsz", 0 },
	{ "cuLaunchKernel", 4000, OWN, "cuLaunchKernel", 0 },
	{ "cuLaunchKernel", 7000, OWN, "cuLaunchKernel_ptsz", 0 },
	{ "cuLaunchKernel", 13000, 0, "cuLaunchKernel", 0 },
	{ "cuMemcpyHtoD", 7000, OWN, "cuMemcpyHtoD_v2_ptds", 0 },
	{ "cuMemsetD8", 13000, OWN, "cuMemsetD8_v2_ptds", 0 },
	{ "cuMemsetD8Async", 13000, OWN, "cuMemsetD8Async_ptsz", 0 },
	{ "cuEventElapsedTime", 12070, 0, "cuEventElapsedTime", 0 },
	{ "cuEventElapsedTime", 12080, 0, "cuEventElapsedTime_v2", 0 },
	{ "cuStreamWaitValue32", 11060, 0, "cuStreamWaitValue32", 0 },
	{ "cuStreamWaitValue32", 11070, 0, "cuStreamWaitValue32_v2", 0 },
	{ "cuGraphInstantiate", 10000, 0, "cuGraphInstantiate", 0 },
	{ "cuGraphInstantiate", 11000, 0, "cuGraphInstantiate_v2", 0 },
	{ "cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags", 0 },
	{ "cuGetProcAddress", 11030, 0, "cuGetProcAddress", 0 },
	{ "cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", 0 },
	{ "cuMemCreate", 10010, 0, NULL, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT },
	{ "cuMemCreate", 10020, 0, "cuMemCreate", 0 },
	{ "cuTexRefCreate", 13000, 0, "cuTexRefCreate", 0 },
	{ "cuNoSuchThing", 13000, 0, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND },
	{ "cuMemAlloc_v2", 13000, 0, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND },
	{ "", 13000, 0, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND },
	{ "cuMemFree", 13000, 0, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND },
	{ "cuStreamCreate", 13000, 0, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND },
};

static void lookups(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	TRUE(library != NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
		void *fn = &status, *v1 = &status;
		void *want = r->symbol ? dlsym(library, r->symbol) : NULL;

		OK(cuGetProcAddress_v2(r->name, &fn, r->version, r->flags, &status));
		if (fn != want || status != r->status || (r->symbol && !want))
			printf("%s at %d, flags %u: not %s\n", r->name, r->version, r->flags,
			       r->symbol ? r->symbol : "missing");
		TRUE(fn == want && status == r->status);
		EXPECT(cuGetProcAddress(r->name, &v1, r->version, r->flags),
		       r->symbol ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
		TRUE(v1 == want);
	}
}

static void arguments(void)
{
	const void *table;
	CUuuid uuid = { { 0 } };
	void *fn;

	EXPECT(cuGetProcAddress_v2(NULL, &fn, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGetProcAddress_v2("cuInit", NULL, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGetProcAddress_v2("cuInit", &fn, 13000, 4, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGetProcAddress_v2("cuInit", &fn, 13000, 3, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGetProcAddress_v2("cuInit", &fn, 13010, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuGetProcAddress_v2("cuMemcpyWithAttributesAsync", &fn, 13000, 0, NULL));
	TRUE(fn == NULL);
	OK(cuGetProcAddress_v2("cuInit", &fn, 13000, 0, NULL));
	EXPECT(cuGetExportTable(&table, &uuid), CUDA_ERROR_NOT_FOUND);
	EXPECT(cuGetExportTable(NULL, &uuid), CUDA_ERROR_INVALID_VALUE);
}

/* An older driver does not know what came after it. */
static int older(void *arg)
{
	CUdriverProcAddressQueryResult status;
	void *fn = NULL;

	(void)arg;
	check_machine("driver=12.4");
	OK(cuGetProcAddress_v2("cuCtxCreate", &fn, 12040, 0, &status));
	TRUE(fn == dlsym(RTLD_DEFAULT, "cuCtxCreate_v3"));
	OK(cuGetProcAddress_v2("cuMemcpyBatchAsync", &fn, 12040, 0, &status));
	TRUE(!fn && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	EXPECT(cuGetProcAddress_v2("cuCtxCreate", &fn, 13000, 0, &status),
	       CUDA_ERROR_INVALID_VALUE);
	return check_end();
}

static void errors(void)
{
	const char *text = "";

	OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	TRUE(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
	OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	TRUE(strcmp(text, "out of memory") == 0);
	EXPECT(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	TRUE(text == NULL);
	EXPECT(cuGetErrorName(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	TRUE(check_child(older, NULL));
	setenv("RATION_SIM_MISSING", "cuMemFree_v2,cuMemFree,cuStreamCreate", 1);
	check_machine("count=1");
	arguments();
	lookups();
	errors();
	return check_end();
}
