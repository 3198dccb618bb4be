/*
 * Every call of the driver passes the gate, or stands in a list of harmless ones with the reason.
 * The whole table of the software GPU's symbols is gone through, so that a call that is new there
 * is missed here.
 */
#include "base/clock.h"
#include "base/units.h"
#include "core/gate.h"
#include "hook/init.h"
#include "hook/lookup.h"
#include "hook/worker.h"

#include "check.h"

#include <fnmatch.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

/* A thread that is on its way to the driver and waits there: for room, say. */
static struct {
	bool is_on;            /* set while no other thread runs */
	sem_t arrived, let_go; /* of the thread */
} halt;

/* Where the thread of a test stops: before the driver's call, between two of the hook's steps. */
static void stop_here(void)
{
	if (!halt.is_on || gettid() == getpid())
		return;
	sem_post(&halt.arrived);
	sem_wait(&halt.let_go);
}

/* No member: every hook hands its call on to the driver. */
enum init_state init_member(void)
{
	stop_here();
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
	stop_here();
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

/*
 * What may run beside somebody who moves memory, for a reason. Everything else passes the gate: it
 * gives the device work, takes or gives back its memory, or binds, maps or hands on what lies
 * there.
 */
static const struct harmless {
	const char *why;
	const char *patterns[40];
} harmless[] = {
	{ "a question about what is known on the host",
	  { "cuArray*Get*",
	    "cuCoredumpGet*",
	    "cuCtxFromGreenCtx",
	    "cuCtxGet*",
	    "cuDevice*Get*",
	    "cuDeviceCanAccessPeer",
	    "cuDeviceComputeCapability",
	    "cuDeviceTotalMem*",
	    "cuDriverGetVersion",
	    "cuEventElapsedTime*",
	    "cuFuncGet*",
	    "cuFuncIsLoaded",
	    "cuGLGetDevices*",
	    "cuGetError*",
	    "cuGetExportTable",
	    "cuGetProcAddress*",
	    "cuGraph*Get*",
	    "cuGraphNodeFindInClone",
	    "cuGreenCtxGet*",
	    "cuKernelGet[ALNP]*",
	    "cuLibraryEnumerateKernels",
	    "cuLibraryGetKernel*",
	    "cuLogicalEndpoint[GQ]*",
	    "cuMemGet[ADILM]*",
	    "cuMemPoolGet*",
	    "cuMemRangeGet*",
	    "cuMipmappedArrayGet*",
	    "cuModuleEnumerateFunctions",
	    "cuModuleGet[FLST]*",
	    "cuMulticastGetGranularity",
	    "cuOccupancy*",
	    "cuPointerGet*",
	    "cuStreamGet*",
	    "cuStreamIsCapturing*",
	    "cuSurf*Get*",
	    "cuTex*Get*",
	    "cuVDPAUGetDevice",
	    "cuWGLGetDevice" } },
	{ "a wait or a look for what was given before: held, it would never see that end",
	  { "cuCtxSynchronize*", "cuEventQuery", "cuEventSynchronize", "cuStreamQuery*",
	    "cuStreamSynchronize*", "cuFlushGPUDirectRDMAWrites" } },
	{ "order among works, and calls on the host: no memory of the device is touched",
	  { "cuCtxRecordEvent", "cuCtxWaitEvent", "cuDestroyExternalSemaphore", "cuEventCreate*",
	    "cuEventDestroy*", "cuEventRecord*", "cuGreenCtxRecordEvent", "cuGreenCtxWaitEvent",
	    "cuImportExternalSemaphore", "cuIpcGetEventHandle", "cuIpcOpenEventHandle",
	    "cuLaunchHostFunc*", "cuSignalExternalSemaphoresAsync*", "cuStreamAddCallback*",
	    "cuStreamWaitEvent*", "cuWaitExternalSemaphoresAsync*" } },
	{ "a graph on the host: nodes that hold no address, edges, the end of a capture",
	  { "cuGraphAddDependencies*",
	    "cuGraphAddEmptyNode",
	    "cuGraphAddEventRecordNode",
	    "cuGraphAddEventWaitNode",
	    "cuGraphAddExternalSemaphores*Node",
	    "cuGraphAddHostNode",
	    "cuGraphConditionalHandleCreate",
	    "cuGraphCreate",
	    "cuGraphDebugDotPrint",
	    "cuGraph*EventRecordNodeSetEvent",
	    "cuGraph*EventWaitNodeSetEvent",
	    "cuGraph*ExternalSemaphores*NodeSetParams",
	    "cuGraph*HostNodeSetParams",
	    "cuGraphKernelNodeCopyAttributes",
	    "cuGraphKernelNodeSetAttribute",
	    "cuGraphNodeSetEnabled",
	    "cuGraphReleaseUserObject",
	    "cuGraphRemoveDependencies*",
	    "cuGraphRetainUserObject",
	    "cuStreamEndCapture*",
	    "cuStreamUpdateCaptureDependencies*",
	    "cuUserObject*" } },
	{ "memory of the host, or addresses with nothing behind them",
	  { "cuMemAddressFree", "cuMemAddressReserve", "cuMemAllocHost*", "cuMemFreeHost",
	    "cuMemHost*" } },
	{ "a setting, or what is kept on the host for a later call, which passes",
	  { "cuCtxPopCurrent*",
	    "cuCtxPushCurrent*",
	    "cuCtxResetPersistingL2Cache",
	    "cuCtxSetCacheConfig",
	    "cuCtxSetCurrent",
	    "cuCtxSetFlags",
	    "cuCtxSetSharedMemConfig",
	    "cuDevResourceGenerateDesc",
	    "cuDevSmResourceSplit*",
	    "cuDevicePrimaryCtxSetFlags*",
	    "cuDeviceRegisterAsyncNotification",
	    "cuDeviceSet*",
	    "cuDeviceUnregisterAsyncNotification",
	    "cuFuncSet*",
	    "cuInit",
	    "cuKernelSet*",
	    "cuLogicalEndpoint[ACDEI]*",
	    "cuMemPoolSetAttribute",
	    "cuMemSetMemPool",
	    "cuParamSet*",
	    "cuStreamCopyAttributes*",
	    "cuStreamSetAttribute*",
	    "cuTensorMap*",
	    "cuTexRefCreate",
	    "cuTexRefSetAddressMode",
	    "cuTexRefSetBorderColor",
	    "cuTexRefSetF*",
	    "cuTexRefSetMaxAnisotropy",
	    "cuTexRefSetMipmapF*",
	    "cuTexRefSetMipmapL*",
	    "cuThreadExchangeStreamCaptureMode" } },
	{ "the end of what binds memory and holds none",
	  { "cuSurfObjectDestroy", "cuTexObjectDestroy", "cuTexRefDestroy" } },
	{ "memory of a graphics API, which stays where that has it",
	  { "cuEGLStream*", "cuGL[CIMRSU]*", "cuGraphics*", "cuVDPAUCtxCreate*" } },
	{ "another process, or the host's part of compiling, logging and profiling",
	  { "cuCheckpoint*", "cuCoredump[DRS]*", "cuLink*", "cuLogs*", "cuProfiler*" } },
};

enum { REASONS = sizeof(harmless) / sizeof(*harmless), PATTERNS = 40 };
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

static const char *why_harmless(const char *symbol)
{
	for (size_t r = 0; r < REASONS; r++)
		for (size_t p = 0; p < PATTERNS && harmless[r].patterns[p]; p++)
			if (fnmatch(harmless[r].patterns[p], symbol, 0) == 0)
				return harmless[r].why;
	return NULL;
}

/* Whether every call of the driver's that the hook makes is made inside, and there is one. */
static bool passes_the_gate(const char *symbol)
{
	const struct real_row *row = lookup_name(symbol);
	void *hook = row ? lookup_hook(row) : NULL;
	bool is_answered;

	if (!hook)
		return false;
	set_driver(row);
	called = marked = 0;
	is_answered = call(hook) == ERROR;
	if (atomic_load(&gate_cell->in) & 1)
		fail_msg("%s stays inside", symbol);
	return is_answered && called == 1 && marked == 1;
}

/*
 * A call that is new in a driver is missed here until somebody has decided on which side it stands.
 */
static void each_call_passes_or_is_harmless(void **state)
{
	int wrong = 0;

	(void)state;
	for (size_t i = 0; i < CALLS; i++) {
		const char *why = why_harmless(symbols[i]);
		bool is_gated = passes_the_gate(symbols[i]);

		if (is_gated == !why)
			continue;
		wrong++;
		print_error(is_gated ? "%s passes the gate and should not: %s\n" :
				       "%s does not pass the gate\n",
			    symbols[i], why);
	}
	assert_int_equal(wrong, 0);
}

static void each_pattern_is_met(void **state)
{
	(void)state;
	for (size_t r = 0; r < REASONS; r++)
		for (size_t p = 0; p < PATTERNS && harmless[r].patterns[p]; p++) {
			bool is_met = false;

			for (size_t i = 0; i < CALLS && !is_met; i++)
				is_met = fnmatch(harmless[r].patterns[p], symbols[i], 0) == 0;
			if (!is_met)
				fail_msg("%s: no driver has such a call", harmless[r].patterns[p]);
		}
}

static CUresult current_device(CUdevice *out_dev)
{
	*out_dev = 0;
	return CUDA_SUCCESS;
}

static CUresult current_context(CUcontext *out_ctx)
{
	*out_ctx = NULL;
	return CUDA_SUCCESS;
}

static void *take_linear(void *arg)
{
	CUdeviceptr addr;

	(void)arg;
	hook_cuMemAlloc_v2(&addr, 4096);
	return NULL;
}

static void *take_ordered(void *arg)
{
	CUdeviceptr addr;

	(void)arg;
	hook_cuMemAllocAsync(&addr, 4096, NULL);
	return NULL;
}

static void *give(void *arg)
{
	(void)arg;
	hook_cuMemFree_v2(4096);
	return NULL;
}

static void *make_graph(void *arg)
{
	CUgraphExec exec;

	(void)arg;
	hook_cuGraphInstantiateWithFlags(&exec, NULL, 0);
	return NULL;
}

static void *end_context(void *arg)
{
	(void)arg;
	hook_cuCtxDestroy_v2(NULL);
	return NULL;
}

/* Who waits before the driver's call is not inside: the gate closes meanwhile. */
static void who_waits_for_room_is_outside(void **state)
{
	void *(*const bodies[])(void *) = { take_linear, take_ordered, give, make_graph,
					    end_context };

	(void)state;
	set_driver(NULL);
	real.cuCtxGetDevice = current_device;
	real.cuCtxGetCurrent = current_context;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
		pthread_t thread;

		sem_init(&halt.arrived, 0, 0);
		sem_init(&halt.let_go, 0, 0);
		halt.is_on = true;
		assert_int_equal(pthread_create(&thread, NULL, bodies[i], NULL), 0);
		sem_wait(&halt.arrived);
		assert_int_equal(gate_inside(), 0);
		assert_int_equal(gate_close(NSEC_PER_SEC), 0);
		gate_open();
		halt.is_on = false;
		sem_post(&halt.let_go);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_passes_or_is_harmless),
		cmocka_unit_test(each_pattern_is_met),
		cmocka_unit_test(who_waits_for_room_is_outside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
