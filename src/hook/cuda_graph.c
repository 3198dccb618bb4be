/*
 * Graphs: their launches pass the gate, and the memory that their allocation nodes take is charged.
 */
#include "base/clock.h"
#include "core/exec_uses.h"
#include "core/graph.h"
#include "core/lent.h"
#include "core/pool.h"
#include "drv/gpu_pool.h"
#include "hook/gated.h"
#include "hook/graph_local.h"
#include "hook/graph_nodes.h"
#include "hook/graph_uses.h"
#include "hook/output.h"

#include <errno.h>

/* A store takes whole units for each graph that needs memory (docs/real-gpu.md). */
#define STORE_UNIT_BYTES (UINT64_C(32) << 20)

/* The sum of a graph so far. */
struct sum {
	struct graph_memory memory;
	/*
	 * Addresses of its allocations less those that it frees: 0 when it frees just what it
	 * allocates.
	 */
	CUdeviceptr unfreed;
};

static bool add_alloc(CUgraphNode node, struct sum *sum)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	struct dev dev;

	if (real.cuGraphMemAllocNodeGetParams(node, &params) != CUDA_SUCCESS)
		return false;
	sum->unfreed += params.dptr;
	if (params.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	    enter_ordinal(params.poolProps.location.id, &dev) == ENTER_CHARGE &&
	    __builtin_add_overflow(sum->memory.bytes[dev.v], params.bytesize,
				   &sum->memory.bytes[dev.v]))
		sum->memory.bytes[dev.v] = UINT64_MAX;
	return true;
}

static void add_free(CUgraphNode node, struct sum *sum)
{
	CUdeviceptr addr = 0;

	if (real.cuGraphMemFreeNodeGetParams &&
	    real.cuGraphMemFreeNodeGetParams(node, &addr) == CUDA_SUCCESS)
		sum->unfreed -= addr;
}

/* Adds what one node allocates. False where the driver does not tell. */
static bool sum_node(CUgraphNode node, CUgraphNodeType type, unsigned depth, void *sum)
{
	(void)depth;
	if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return add_alloc(node, sum);
	if (type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		add_free(node, sum);
	return true;
}

/* What a store holds; what is charged for it where the driver does not say. */
static uint64_t held_bytes(struct dev dev)
{
	uint64_t bytes;

	return gpu_pool_held(graph_store(dev), &bytes) ? bytes : pool_charged(graph_store(dev));
}

static void cancel(const uint64_t bytes[RATION_DEVICES])
{
	for (int d = 0; d < RATION_DEVICES; d++)
		if (bytes[d])
			pool_cancel(graph_store((struct dev){ d }), bytes[d]);
}

/* Reserves bytes[dev] for the stores: 0, or -EDQUOT and nothing is. */
static int reserve(uint64_t bytes[RATION_DEVICES], struct dev *out_dev)
{
	uint64_t done[RATION_DEVICES] = { 0 };

	for (int d = 0; d < RATION_DEVICES; d++) {
		struct dev dev = { d };
		int rc;

		if (bytes[d] == 0)
			continue;
		*out_dev = dev;
		rc = pool_reserve(graph_store(dev), bytes[d]);
		if (rc == -EDQUOT && charge_ask_card(dev))
			rc = pool_reserve(graph_store(dev), bytes[d]);
		if (rc < 0) {
			cancel(done);
			return rc;
		}
		done[d] = bytes[d];
	}
	return 0;
}

static bool is_any(const uint64_t bytes[RATION_DEVICES])
{
	for (int d = 0; d < RATION_DEVICES; d++)
		if (bytes[d])
			return true;
	return false;
}

static void round_up(uint64_t bytes[RATION_DEVICES])
{
	for (int d = 0; d < RATION_DEVICES; d++)
		bytes[d] = bytes[d] > UINT64_MAX - STORE_UNIT_BYTES ?
				   UINT64_MAX / STORE_UNIT_BYTES * STORE_UNIT_BYTES :
				   (bytes[d] + STORE_UNIT_BYTES - 1) / STORE_UNIT_BYTES *
					   STORE_UNIT_BYTES;
}

/* Makes the stores known and reserves what they lack for a new graph: 0, -EDQUOT or -ENOMEM. */
static int reserve_for_new(const struct graph_memory *memory, uint64_t out_bytes[RATION_DEVICES],
			   struct dev *out_dev)
{
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct dev dev = { d };

		out_bytes[d] = 0;
		if (memory->bytes[d] == 0)
			continue;
		if (!pool_enter(graph_store(dev), dev, POOL_STORE))
			return -ENOMEM;
		out_bytes[d] = graph_lacks_for_new(dev, memory, held_bytes(dev));
	}
	return reserve(out_bytes, out_dev);
}

/* Out of the books before the driver gives the handle to another. */
CUresult hook_cuGraphExecDestroy(CUgraphExec exec)
{
	uint64_t bytes[RATION_DEVICES];
	struct exec_uses *uses;
	struct graph *graph;
	CUresult res;

	if (!ENTER_HAS(cuGraphExecDestroy))
		return enter_missing();
	graph_local_end(exec);
	metering_forget_graph(exec);
	uses = exec_uses_take(exec);
	graph = graph_any() ? graph_take(exec) : NULL;
	res = GATE_CALL(real.cuGraphExecDestroy(exec));
	if (uses && res != CUDA_SUCCESS)
		exec_uses_enter(exec, uses);
	else
		exec_uses_free(uses);
	if (graph && res != CUDA_SUCCESS) {
		graph_put_back(graph);
	} else if (graph) {
		graph_end(graph, bytes);
		cancel(bytes);
	}
	return res;
}

CUresult hook_cuDeviceGraphMemTrim(CUdevice ord)
{
	uint64_t begun;
	struct dev dev;
	CUresult res;

	if (!ENTER_HAS(cuDeviceGraphMemTrim))
		return enter_missing();
	if (enter_ordinal(ord, &dev) != ENTER_CHARGE)
		return GATE_CALL(real.cuDeviceGraphMemTrim(ord));
	/* Meanwhile the store's figure is not to be held against the card's. */
	charge_begin();
	begun = graph_trim_begin(dev);
	res = GATE_CALL(real.cuDeviceGraphMemTrim(ord));
	graph_trim_end(dev, begun, res == CUDA_SUCCESS, held_bytes(dev));
	if (res == CUDA_SUCCESS) {
		/* Also where another thread's launch makes the store grow by as much meanwhile. */
		lent_end_stored();
		gpu_pool_settle(graph_store(dev), 0);
	}
	charge_over();
	return res;
}

/*
 * After a launch or upload the graph's memory is physical: the stores' figures say how much. They
 * may also have grown because it runs beside another graph.
 */
static void settle(const struct graph_flight *f)
{
	uint64_t first_bytes[RATION_DEVICES] = { 0 };

	graph_landed(f, true, first_bytes);
	/* The work is under way: what a store grew by past the limit counts all the same. */
	for (int d = 0; d < RATION_DEVICES; d++)
		if (f->memory_bytes[d])
			gpu_pool_settle(graph_store((struct dev){ d }),
					first_bytes[d] + f->lack_bytes[d]);
}

static void fail(const struct graph_flight *f)
{
	uint64_t none[RATION_DEVICES];

	graph_landed(f, false, none);
}

/* How long one waits for launches of others, which may have what this one seems to lack. */
#define BESIDE_WAIT_NS (200 * NSEC_PER_MSEC)
#define BESIDE_NAP_NS (50 * NSEC_PER_USEC)

/* What the stores of a graph with such memory hold. */
static void look(struct graph_look looks[RATION_DEVICES],
		 const uint64_t memory_bytes[RATION_DEVICES])
{
	for (int d = 0; d < RATION_DEVICES; d++) {
		if (!memory_bytes[d])
			continue;
		looks[d].trims = graph_trims((struct dev){ d });
		looks[d].held_bytes = held_bytes((struct dev){ d });
	}
}

/* One try: 0 as begin_flight(); -EAGAIN where a store was trimmed meanwhile. */
static int try_flight(struct graph_flight *f, CUgraphExec exec, const void *name,
		      const uint64_t memory_bytes[RATION_DEVICES], struct dev *out_dev)
{
	struct graph_look looks[RATION_DEVICES] = { { 0 } };
	int rc = -EAGAIN;

	look(looks, memory_bytes);
	if (graph_fly(f, exec, name, looks))
		rc = reserve(f->lack_bytes, out_dev);
	if (rc == 0) {
		charge_begin();
		if (graph_go(f, looks))
			return 0;
		charge_over();
		cancel(f->lack_bytes);
		rc = -EAGAIN;
	}
	fail(f);
	return rc;
}

/*
 * Reserves what the stores lack for the launch: 0 and *f is on its way, or -errno. Others on their
 * way may have what it seems to lack.
 */
static int begin_flight(struct graph_flight *f, CUgraphExec exec, const void *name,
			struct dev *out_dev)
{
	int64_t end_ns = clock_now_ns() + BESIDE_WAIT_NS;
	uint64_t memory_bytes[RATION_DEVICES] = { 0 };
	int rc;

	graph_find(exec, memory_bytes);
	while ((rc = try_flight(f, exec, name, memory_bytes, out_dev)) != 0) {
		if (rc == -EAGAIN)
			continue;
		if (rc != -EDQUOT || !f->is_beside || clock_now_ns() >= end_ns)
			break;
		clock_sleep_ns(BESIDE_NAP_NS);
	}
	return rc;
}

/* The call is over. */
static void end_flight(const struct graph_flight *f, CUresult res)
{
	if (res == CUDA_SUCCESS) {
		settle(f);
	} else {
		fail(f);
		cancel(f->lack_bytes);
	}
	charge_over();
}

typedef CUresult launch_fn(CUgraphExec exec, CUstream stream);

/* The call itself; an upload gives the GPU no work that counts. */
struct pass {
	launch_fn *call;
	bool is_per_thread, is_upload;
};

static CUresult pass(const struct pass *pass, CUgraphExec exec, CUstream stream)
{
	struct work w;
	CUresult res;

	if (pass->is_upload || !metering_is_on())
		return ROOM_CALL_HERE(0, pass->call(exec, stream));
	res = work_begin(&w, work_graph(stream, pass->is_per_thread, exec));
	if (res != CUDA_SUCCESS)
		return res;
	res = ROOM_CALL_HERE(0, pass->call(exec, stream));
	work_end(&w, res);
	return res;
}

/* One whose memory is to be reserved or settled. */
static CUresult launch_with_memory(const struct pass *how, CUgraphExec exec, CUstream stream,
				   const void *name)
{
	struct graph_flight f;
	struct dev dev = { 0 };
	CUresult res;
	int rc = begin_flight(&f, exec, name, &dev);

	if (rc < 0)
		return enter_refused(rc, dev, f.lack_bytes[dev.v]);
	res = pass(how, exec, stream);
	end_flight(&f, res);
	return res;
}

/* What tells a stream from others: the per-thread one has the same handle in every thread. */
static const void *name_of(CUstream stream, bool is_per_thread)
{
	static __thread char thread;

	if (stream == CU_STREAM_PER_THREAD || (is_per_thread && !stream))
		return &thread;
	return stream == CU_STREAM_LEGACY ? NULL : stream;
}

static CUresult launch_counted(const struct pass *how, CUgraphExec exec, CUstream stream)
{
	if (__builtin_expect(graph_any(), 0))
		return launch_with_memory(how, exec, stream, name_of(stream, how->is_per_thread));
	return pass(how, exec, stream);
}

/* One instantiation call with its arguments bound: the forms differ in those alone. */
struct instantiate {
	CUgraphExec *out_exec;
	CUgraph graph;
	CUgraphNode *out_error_node;
	char *log;
	size_t log_bytes;
	unsigned long long flags;
	CUDA_GRAPH_INSTANTIATE_PARAMS *params;
	bool is_per_thread;
};

typedef CUresult instantiate_fn(const struct instantiate *i);

/* The driver has made what we cannot count: it is given back. */
static CUresult undo(const struct instantiate *i, const struct output *was)
{
	GATE_CALL(real.cuGraphExecDestroy(*i->out_exec));
	output_restore(was);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* With the memory of its allocation nodes. */
static CUresult instantiate_counted(const struct instantiate *i, instantiate_fn *call)
{
	uint64_t reserved_bytes[RATION_DEVICES] = { 0 };
	struct sum sum = { .unfreed = 0 };
	struct dev dev = { 0 };
	struct output was;
	bool is_known;
	CUresult res;
	int rc;

	if (!init_is_member() || !i->out_exec || !real.cuGraphGetNodes ||
	    !real.cuGraphNodeGetType || !real.cuGraphMemAllocNodeGetParams)
		return ROOM_CALL_HERE(0, call(i));
	is_known = graph_nodes_each(i->graph, 0, sum_node, &sum);
	if (is_known && !is_any(sum.memory.bytes))
		return ROOM_CALL_HERE(0, call(i));
	round_up(sum.memory.bytes);
	sum.memory.is_kept = sum.unfreed != 0;
	rc = is_known ? reserve_for_new(&sum.memory, reserved_bytes, &dev) : 0;
	if (rc < 0)
		return enter_refused(rc, dev, sum.memory.bytes[dev.v]);
	was = OUTPUT_SAVE(i->out_exec);
	res = ROOM_CALL_HERE(0, call(i));
	if (!is_known)
		return res == CUDA_SUCCESS ? undo(i, &was) : res;
	if (res == CUDA_SUCCESS && !graph_enter(*i->out_exec, &sum.memory, reserved_bytes))
		res = undo(i, &was);
	if (res != CUDA_SUCCESS)
		cancel(reserved_bytes);
	return res;
}

/*
 * One that is uploaded at once takes memory beside those that are on their way in other streams: it
 * is made first, and then uploaded as by the program. The driver does not say later that it was.
 */
static CUresult instantiate_uploaded(const struct instantiate *i, instantiate_fn *call)
{
	struct output was = OUTPUT_SAVE(i->out_exec);
	CUDA_GRAPH_INSTANTIATE_PARAMS params = *i->params;
	struct instantiate made = *i;
	struct pass how = { i->is_per_thread ? real.cuGraphUpload_ptsz : real.cuGraphUpload,
			    i->is_per_thread, true };
	CUresult res;

	params.flags &= ~(cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	made.params = &params;
	res = instantiate_counted(&made, call);
	if (res == CUDA_SUCCESS) {
		res = launch_counted(&how, *i->out_exec, params.hUploadStream);
		if (res != CUDA_SUCCESS) {
			hook_cuGraphExecDestroy(*i->out_exec);
			output_restore(&was);
			params.result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
		}
	}
	params.flags = i->params->flags;
	*i->params = params;
	return res;
}

static CUresult plain(const struct instantiate *i)
{
	return real.cuGraphInstantiate(i->out_exec, i->graph, i->out_error_node, i->log,
				       i->log_bytes);
}

static CUresult plain_v2(const struct instantiate *i)
{
	return real.cuGraphInstantiate_v2(i->out_exec, i->graph, i->out_error_node, i->log,
					  i->log_bytes);
}

static CUresult with_flags(const struct instantiate *i)
{
	return real.cuGraphInstantiateWithFlags(i->out_exec, i->graph, i->flags);
}

static CUresult with_params(const struct instantiate *i)
{
	return real.cuGraphInstantiateWithParams(i->out_exec, i->graph, i->params);
}

static CUresult with_params_ptsz(const struct instantiate *i)
{
	return real.cuGraphInstantiateWithParams_ptsz(i->out_exec, i->graph, i->params);
}

static bool is_uploaded(const struct instantiate *i)
{
	return i->params && (i->params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
}

/* The stream that it is uploaded into at once; NULL: none or the default one. */
static CUstream upload_stream(const struct instantiate *i)
{
	return is_uploaded(i) ? i->params->hUploadStream : NULL;
}

static CUresult instantiate_whole(const struct instantiate *i, instantiate_fn *call)
{
	bool may_upload = i->is_per_thread ? real.cuGraphUpload_ptsz : real.cuGraphUpload;

	return is_uploaded(i) && i->out_exec && init_is_member() && may_upload ?
		       instantiate_uploaded(i, call) :
		       instantiate_counted(i, call);
}

static CUresult instantiate_needing(const struct instantiate *i, instantiate_fn *call,
				    const struct exec_local_need *need)
{
	struct exec_local *local = exec_local_new();
	struct graph_local_growth growth;
	CUresult res;

	if (!local)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = graph_local_reserve(&growth, need, upload_stream(i));
	if (res == CUDA_SUCCESS) {
		res = instantiate_whole(i, call);
		graph_local_finish(&growth, res == CUDA_SUCCESS ? LOCAL_PERHAPS : LOCAL_FAILED);
	}
	if (res == CUDA_SUCCESS)
		graph_local_made(*i->out_exec, local, need);
	else
		exec_local_free(local);
	return res;
}

static CUresult instantiate_local(const struct instantiate *i, instantiate_fn *call)
{
	struct exec_local_need need = { .most_bytes = 0 };
	CUresult res = CUDA_SUCCESS;

	if (i->out_exec)
		res = graph_local_ask(i->graph, &need);
	if (res != CUDA_SUCCESS)
		return res;
	return need.most_bytes ? instantiate_needing(i, call, &need) : instantiate_whole(i, call);
}

static CUresult instantiate(const struct instantiate *i, instantiate_fn *call)
{
	CUresult res = instantiate_local(i, call);

	if (res == CUDA_SUCCESS)
		graph_uses_made(*i->out_exec, i->graph);
	return res;
}

CUresult hook_cuGraphInstantiate(CUgraphExec *out_exec, CUgraph graph, CUgraphNode *out_error_node,
				 char *log, size_t log_bytes)
{
	struct instantiate i = { .out_exec = out_exec,
				 .graph = graph,
				 .out_error_node = out_error_node,
				 .log = log,
				 .log_bytes = log_bytes };

	return ENTER_HAS(cuGraphInstantiate) ? instantiate(&i, plain) : enter_missing();
}

CUresult hook_cuGraphInstantiate_v2(CUgraphExec *out_exec, CUgraph graph,
				    CUgraphNode *out_error_node, char *log, size_t log_bytes)
{
	struct instantiate i = { .out_exec = out_exec,
				 .graph = graph,
				 .out_error_node = out_error_node,
				 .log = log,
				 .log_bytes = log_bytes };

	return ENTER_HAS(cuGraphInstantiate_v2) ? instantiate(&i, plain_v2) : enter_missing();
}

CUresult hook_cuGraphInstantiateWithFlags(CUgraphExec *out_exec, CUgraph graph,
					  unsigned long long flags)
{
	struct instantiate i = { .out_exec = out_exec, .graph = graph, .flags = flags };

	return ENTER_HAS(cuGraphInstantiateWithFlags) ? instantiate(&i, with_flags) :
							enter_missing();
}

CUresult hook_cuGraphInstantiateWithParams(CUgraphExec *out_exec, CUgraph graph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	struct instantiate i = { .out_exec = out_exec, .graph = graph, .params = params };

	return ENTER_HAS(cuGraphInstantiateWithParams) ? instantiate(&i, with_params) :
							 enter_missing();
}

CUresult hook_cuGraphInstantiateWithParams_ptsz(CUgraphExec *out_exec, CUgraph graph,
						CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	struct instantiate i = {
		.out_exec = out_exec, .graph = graph, .params = params, .is_per_thread = true
	};

	return ENTER_HAS(cuGraphInstantiateWithParams_ptsz) ? instantiate(&i, with_params_ptsz) :
							      enter_missing();
}

static CUresult launch(struct pass how, CUgraphExec exec, CUstream stream)
{
	struct graph_local_growth growth;
	CUresult res;

	if (!how.is_upload && object_use_is_wanted())
		graph_uses_launch(exec);
	if (__builtin_expect(!function_any(), 1))
		return launch_counted(&how, exec, stream);
	res = graph_local_begin(&growth, exec, stream);
	if (res != CUDA_SUCCESS)
		return res;
	res = launch_counted(&how, exec, stream);
	if (how.is_upload)
		graph_local_finish(&growth, res == CUDA_SUCCESS ? LOCAL_PERHAPS : LOCAL_FAILED);
	else
		graph_local_launched(&growth, exec, res);
	return res;
}

#define LAUNCH(sym, is_per_thread, is_upload)                                                     \
	CUresult hook_##sym(CUgraphExec exec, CUstream stream)                                    \
	{                                                                                         \
		if (!ENTER_HAS(sym))                                                              \
			return enter_missing();                                                   \
		return launch((struct pass){ real.sym, is_per_thread, is_upload }, exec, stream); \
	}

LAUNCH(cuGraphLaunch, false, false)
LAUNCH(cuGraphLaunch_ptsz, true, false)
LAUNCH(cuGraphUpload, false, true)
LAUNCH(cuGraphUpload_ptsz, true, true)
