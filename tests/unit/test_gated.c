/*
 * Whatever touches device memory or binds its addresses passes the gate, in every form that a driver
 * has. The whole table of the software GPU's symbols is gone through, so that a form that is new there
 * is missed here until it has a hook.
 */
#include "core/gate.h"
#include "hook/init.h"
#include "hook/lookup.h"
#include "hook/worker.h"

#include "check.h"

#include <fnmatch.h>

/* No member: every hook hands its call on to the driver. */
enum init_state init_member(void)
{
	return INIT_PASS;
}

enum init_state init_view(void)
{
	return INIT_PASS;
}

int init_error(void)
{
	return -1;
}

struct region *init_region(void)
{
	return NULL;
}

bool init_is_member(void)
{
	return false;
}

void worker_start(void)
{
}

static const char *const symbols[] = {
#define CALL(base, symbol, version, stream) #symbol,
#define NONE(base, symbol, version, stream) #symbol,
#define ALIAS(base, symbol, version, stream)
#include "cuda_symbols.def"
#undef CALL
#undef NONE
#undef ALIAS
};

/* Work that uses device memory: nothing of it may begin while the gate is shut. */
static const char *const work[] = {
	"cuLaunch",
	"cuLaunch[CGK]*",
	"cuGraphLaunch*",
	"cuGraphUpload*",
	"cuMemcpy*",
	"cuMemset*",
	"cuFabricCpyBatchAsync*",
	"cuStreamWriteValue*",
	"cuStreamWaitValue*",
	"cuStreamBatchMemOp*",
	"cuMemBatchDecompressAsync*",
	"cuMemMapArrayAsync*",
	"cuMemAllocAsync*",
	"cuMemAllocFromPoolAsync*",
	"cuMemFreeAsync*",
	"cuStreamBegin*Capture*",
	"cuStreamBeginRecapture*",
	"cuGraphInstantiate*",
	"cuGraphAddNode*",
	"cuGraphAddMemcpyNode",
	"cuGraphAddMemsetNode",
	"cuGraphAddBatchMemOpNode",
	"cuGraphNodeSetParams",
	"cuGraph*MemcpyNodeSetParams",
	"cuGraph*MemsetNodeSetParams",
	"cuGraph*BatchMemOpNodeSetParams",
	"cuGraphExecNodeSetParams",
	"cuGraphExecChildGraphNodeSetParams",
	"cuGraphExecUpdate*",
	"cuTexObjectCreate",
};

/* What must not run beside somebody who moves memory. */
static const char *const exclusive[] = {
	"cuMemAlloc",
	"cuMemAlloc_v2",
	"cuMemAllocPitch*",
	"cuMemAllocManaged",
	"cuMemFree",
	"cuMemFree_v2",
	"cuCtxDestroy*",
	"cuCtxDetach",
	"cuDevicePrimaryCtxRelease*",
	"cuDevicePrimaryCtxReset*",
	"cuCtxEnablePeerAccess",
	"cuIpcGetMemHandle",
	"cuPointerSetAttribute",
	"cuStreamCreate*",
	"cuStreamDestroy*",
	"cuGreenCtxStreamCreate",
};

enum { CALLS = sizeof(symbols) / sizeof(*symbols) };
#define ERROR CUDA_ERROR_UNKNOWN

static int called, marked;

static CUresult note(void)
{
	called++;
	marked += (int)(atomic_load(&gate_cell->in) & 1);
	return ERROR;
}

static CUresult refuse(void)
{
	return ERROR;
}

static void set_driver(const struct real_row *noted)
{
	for (size_t i = 0; i < real_row_count; i++) {
		void *fn = &real_rows[i] == noted ? (void *)(uintptr_t)note :
						    (void *)(uintptr_t)refuse;

		memcpy((char *)&real + real_rows[i].offset, &fn, sizeof(fn));
	}
}

/* The hook with as many arguments as any has, all 0. */
static CUresult call(void *hook)
{
	CUresult (*fn)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
		       uintptr_t, uintptr_t, uintptr_t, uintptr_t);

	memcpy(&fn, &hook, sizeof(fn));
	return fn(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static bool passes_the_gate(const char *symbol)
{
	const struct real_row *row = lookup_name(symbol);
	void *hook = row ? lookup_hook(row) : NULL;

	if (!hook) {
		print_error("%s is not hooked\n", symbol);
		return false;
	}
	set_driver(row);
	called = marked = 0;
	if (call(hook) != ERROR || called != 1 || marked != 1) {
		print_error("%s: the driver was called %d times, %d of them inside\n", symbol,
			    called, marked);
		return false;
	}
	if (atomic_load(&gate_cell->in) & 1) {
		print_error("%s stays inside\n", symbol);
		return false;
	}
	return true;
}

static void check(const char *const *patterns, size_t count)
{
	int missing = 0;

	for (size_t p = 0; p < count; p++) {
		int met = 0;

		for (size_t i = 0; i < CALLS; i++) {
			if (fnmatch(patterns[p], symbols[i], 0) != 0)
				continue;
			met++;
			missing += !passes_the_gate(symbols[i]);
		}
		if (met == 0)
			fail_msg("%s: no driver has such a call", patterns[p]);
	}
	assert_int_equal(missing, 0);
}

static void work_passes_the_gate(void **state)
{
	(void)state;
	check(work, sizeof(work) / sizeof(*work));
}

static void what_changes_the_map_passes_the_gate(void **state)
{
	(void)state;
	check(exclusive, sizeof(exclusive) / sizeof(*exclusive));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_passes_the_gate),
		cmocka_unit_test(what_changes_the_map_passes_the_gate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
