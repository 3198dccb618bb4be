/*
 * Makes a driver whose GPU is a model: a kernel takes KERNEL_NS from its submission or from the end
 * of the one before, and is done for the host at once. An event of the thread that launched, soon
 * after, runs when the kernel ends; any other now. What the software GPU's threads do is up to
 * whoever schedules them, and where every instruction is counted that is no time to measure.
 */
#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_stream.h"
#include "cuda_turn.h"
#include "cuda_work.h"

#define KERNEL_NS UINT64_C(1000)
#define SOON_NS UINT64_C(100000)

uint64_t __real_cuda_turn_now_ns(void);
uint64_t __wrap_cuda_turn_now_ns(void);
CUresult __wrap_cuda_stream_submit(struct CUstream_st *stream, struct cuda_work *work);
CUresult __wrap_cuda_stream_enqueue(struct CUstream_st *stream, struct cuda_work *work);

static __thread uint64_t end_ns; /* of the thread's last kernel */

uint64_t __wrap_cuda_turn_now_ns(void)
{
	uint64_t now_ns = __real_cuda_turn_now_ns();

	return now_ns > end_ns + SOON_NS ? now_ns : end_ns;
}

static void run_kernel(void)
{
	uint64_t now_ns = __real_cuda_turn_now_ns();

	end_ns = (now_ns > end_ns ? now_ns : end_ns) + KERNEL_NS;
}

CUresult __wrap_cuda_stream_enqueue(struct CUstream_st *stream, struct cuda_work *work)
{
	CUresult res = CUDA_SUCCESS;

	if (work->ops->needs_turn && work->ops->node_type == CU_GRAPH_NODE_TYPE_KERNEL)
		run_kernel();
	if (work->ops->run) {
		cuda_call_unlock();
		res = work->ops->run(work, stream->ctx, &stream->turn);
		cuda_call_lock();
	}
	cuda_work_delete(work);
	return res;
}

CUresult __wrap_cuda_stream_submit(struct CUstream_st *stream, struct cuda_work *work)
{
	return __wrap_cuda_stream_enqueue(stream, work);
}
