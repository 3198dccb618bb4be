/* Faults on demand. */
#include "check.h"

#include <string.h>
#include <unistd.h>

static int nth_call(void *arg)
{
	CUcontext ctx;
	CUdeviceptr a;

	(void)arg;
	setenv("RATION_SIM_FAULT", "cuMemAlloc:3=2,cuCtxCreate_v4:1=999,cuCtxSynchronize:2=700", 1);
	ctx = check_start("count=1,mem=1g");
	OK(cuMemAlloc_v2(&a, 1));
	OK(cuMemAlloc_v2(&a, 1));
	EXPECT(cuMemAlloc_v2(&a, 1), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc_v2(&a, 1));
	EXPECT(cuCtxCreate_v4(&ctx, NULL, 0, 0), CUDA_ERROR_UNKNOWN);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuCtxSynchronize());
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	OK(cuCtxSynchronize());
	return check_end();
}

/* After an unmap, the rights of the new mapping cannot be set. */
static int set_access_fails(void *arg)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h;
	CUdeviceptr a;

	(void)arg;
	setenv("RATION_SIM_FAULT", "cuMemSetAccess:2=2", 1);
	check_start("count=1,mem=1g");
	OK(cuMemAddressReserve(&a, 2 * MIB, 0, 0, 0));
	OK(cuMemCreate(&h, 2 * MIB, &prop, 0));
	OK(cuMemMap(a, 2 * MIB, 0, h, 0));
	OK(cuMemSetAccess(a, 2 * MIB, &access, 1));
	OK(cuMemUnmap(a, 2 * MIB));
	OK(cuMemMap(a, 2 * MIB, 0, h, 0));
	EXPECT(cuMemSetAccess(a, 2 * MIB, &access, 1), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemsetD8_v2(a, 0, 1));
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	return check_end();
}

static int lost(void *arg)
{
	CUdeviceptr a;
	CUcontext ctx;
	int count;

	(void)arg;
	setenv("RATION_SIM_FAULT", "cuMemFree:1=lost", 1);
	check_start("count=1,mem=1g");
	OK(cuMemAlloc_v2(&a, 1));
	EXPECT(cuMemFree_v2(a), CUDA_ERROR_DEVICE_UNAVAILABLE);
	EXPECT(cuMemAlloc_v2(&a, 1), CUDA_ERROR_DEVICE_UNAVAILABLE);
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_DEVICE_UNAVAILABLE);
	EXPECT(cuCtxCreate_v2(&ctx, 0, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
	EXPECT(cuDeviceGetCount(&count), CUDA_ERROR_DEVICE_UNAVAILABLE);
	return check_end();
}

static int start_fails(void *arg)
{
	(void)arg;
	setenv("RATION_SIM_FAULT", "cuInit:1=802", 1);
	check_machine("count=1");
	EXPECT(cuInit(0), CUDA_ERROR_SYSTEM_NOT_READY);
	OK(cuInit(0));
	return check_end();
}

static const char *const odd[] = {
	"cuMemAlloc",
	"cuMemAlloc:1",
	"cuMemAlloc:1=",
	"cuMemAlloc:0=2",
	"cuMemAlloc:-1=2",
	"cuMemAlloc:x=2",
	"cuMemAlloc:1=0",
	"cuMemAlloc:1=-2",
	"cuMemAlloc:1=2x",
	"cuMemAlloc:1=2 ",
	"cuMemAlloc:1=gone",
	"cuMemAlloc=1:2",
	"cuNoSuchCall:1=2",
	"cuMemAlloc:1=2,cuMemAlok:1=2",
	"cuMemAlloc:1=2;cuMemFree:1=2",
	" cuMemAlloc:1=2",
};

/* A word that cannot be understood would be a test of nothing: the driver does not start. */
static int odd_words(void *arg)
{
	const char *text = odd[*(const size_t *)arg];
	char said[256] = "";
	int out[2];

	TRUE(pipe(out) == 0 && dup2(out[1], STDERR_FILENO) >= 0);
	setenv("RATION_SIM_FAULT", text, 1);
	check_machine("count=1");
	EXPECT(cuInit(0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuInit(0), CUDA_ERROR_INVALID_VALUE);
	TRUE(read(out[0], said, sizeof(said) - 1) > 0);
	TRUE(!strncmp(said, "ration-sim: RATION_SIM_FAULT: '", 31));
	/* Once, and the wrong word alone. */
	TRUE(strchr(said, '\n') == said + strlen(said) - 1);
	TRUE(!strchr(text, ',') || (strstr(said, "cuMemAlok") && !strstr(said, "cuMemAlloc")));
	return check_end();
}

static int missing_what_is_none(void *arg)
{
	(void)arg;
	setenv("RATION_SIM_MISSING", "cuMemAlloc_v2,cuMemAlloc_v9", 1);
	check_machine("count=1");
	EXPECT(cuInit(0), CUDA_ERROR_INVALID_VALUE);
	return check_end();
}

/* Empty words, as a list that was put together has them, are none. */
static int empty_words(void *arg)
{
	CUdeviceptr a;

	(void)arg;
	setenv("RATION_SIM_FAULT", ",,cuMemAlloc:1=2,", 1);
	setenv("RATION_SIM_MISSING", "", 1);
	check_start("count=1,mem=1g");
	EXPECT(cuMemAlloc_v2(&a, 1), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc_v2(&a, 1));
	return check_end();
}

int main(void)
{
	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
		TRUE(check_child(odd_words, &i));
	TRUE(check_child(missing_what_is_none, NULL));
	TRUE(check_child(empty_words, NULL));
	TRUE(check_child(nth_call, NULL));
	TRUE(check_child(set_access_fails, NULL));
	TRUE(check_child(lost, NULL));
	TRUE(check_child(start_fails, NULL));
	return check_failures ? 1 : 0;
}
