#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_range.h"
#include "cuda_stream.h"
#include "cuda_work.h"

enum { COMPARE = 0x3, POLL_NS = 20000 };

static uint64_t load(const struct cuda_work *work)
{
	if (work->value.bytes == 4)
		return atomic_load((_Atomic uint32_t *)work->value.address);
	return atomic_load((_Atomic uint64_t *)work->value.address);
}

static bool is_met(const struct cuda_work *work, uint64_t have)
{
	uint64_t want = work->value.value;
	uint64_t mask = work->value.bytes == 4 ? UINT32_MAX : UINT64_MAX;
	int64_t ahead = work->value.bytes == 4 ? (int32_t)((uint32_t)have - (uint32_t)want) :
						 (int64_t)(have - want);

	switch (work->value.flags & COMPARE) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return ahead >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return ahead == 0;
	case CU_STREAM_WAIT_VALUE_AND:
		return (have & want) != 0;
	default:
		return (~(have | want) & mask) != 0;
	}
}

/* Looks again and again: the host, a kernel or another process writes the value. */
static CUresult run_wait(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	const struct timespec nap = { 0, POLL_NS };
	bool allowed, met = false;

	(void)turn;
	for (;;) {
		cuda_range_lock_shared();
		allowed = cuda_range_is_accessible(ctx, work->value.address,
						   (uint64_t)work->value.bytes, RANGE_READ);
		if (allowed)
			met = is_met(work, load(work));
		cuda_range_unlock();
		if (!allowed)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (met)
			return CUDA_SUCCESS;
		nanosleep(&nap, NULL);
	}
}

static CUresult run_write(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	bool allowed;

	(void)turn;
	cuda_range_lock_shared();
	allowed = cuda_range_is_accessible(ctx, work->value.address, (uint64_t)work->value.bytes,
					   RANGE_WRITE);
	if (allowed && work->value.bytes == 4)
		atomic_store((_Atomic uint32_t *)work->value.address, (uint32_t)work->value.value);
	else if (allowed)
		atomic_store((_Atomic uint64_t *)work->value.address, work->value.value);
	cuda_range_unlock();
	return allowed ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static const struct cuda_work_ops wait_ops = { .node_type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
					       .run = run_wait };
static const struct cuda_work_ops write_ops = { .node_type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
						.run = run_write };

struct memop {
	bool is_wait;
	int bytes;
	uint64_t address, value;
	unsigned flags;
};

static CUresult check(const struct memop *op)
{
	const unsigned known = op->is_wait ? (unsigned)COMPARE | CU_STREAM_WAIT_VALUE_FLUSH :
					     (unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;

	if (op->flags & ~known || op->address % (uint64_t)op->bytes ||
	    !cuda_range_is_spanned(op->address, (uint64_t)op->bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return op->flags & CU_STREAM_WAIT_VALUE_FLUSH && op->is_wait ? CUDA_ERROR_NOT_SUPPORTED :
								       CUDA_SUCCESS;
}

static CUresult submit(struct CUstream_st *stream, const struct memop *op)
{
	struct cuda_work *work = cuda_work_new(op->is_wait ? &wait_ops : &write_ops);

	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->value.address = op->address;
	work->value.value = op->value;
	work->value.flags = op->flags;
	work->value.bytes = op->bytes;
	return cuda_stream_submit(stream, work);
}

static CUresult memop(enum cuda_id id, enum stream_default form, CUstream handle, struct memop op)
{
	struct CUstream_st *stream;
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, &stream);
	if (res == CUDA_SUCCESS)
		res = check(&op);
	if (res == CUDA_SUCCESS)
		res = submit(stream, &op);
	return cuda_call_end(res);
}

/* The four forms of one operation. */
#define MEMOP(name, twin, second, second_twin, type, is_wait)                                      \
	CUresult name(CUstream stream, CUdeviceptr address, type value, unsigned int flags)        \
	{                                                                                          \
		return memop(CUDA_ID_##name, DEFAULT_LEGACY, stream,                               \
			     (struct memop){ is_wait, sizeof(type), address, value, flags });      \
	}                                                                                          \
	CUresult twin(CUstream stream, CUdeviceptr address, type value, unsigned int flags)        \
	{                                                                                          \
		return memop(CUDA_ID_##twin, DEFAULT_PER_THREAD, stream,                           \
			     (struct memop){ is_wait, sizeof(type), address, value, flags });      \
	}                                                                                          \
	CUresult second(CUstream stream, CUdeviceptr address, type value, unsigned int flags)      \
	{                                                                                          \
		return memop(CUDA_ID_##second, DEFAULT_LEGACY, stream,                             \
			     (struct memop){ is_wait, sizeof(type), address, value, flags });      \
	}                                                                                          \
	CUresult second_twin(CUstream stream, CUdeviceptr address, type value, unsigned int flags) \
	{                                                                                          \
		return memop(CUDA_ID_##second_twin, DEFAULT_PER_THREAD, stream,                    \
			     (struct memop){ is_wait, sizeof(type), address, value, flags });      \
	}

MEMOP(cuStreamWaitValue32, cuStreamWaitValue32_ptsz, cuStreamWaitValue32_v2,
      cuStreamWaitValue32_v2_ptsz, cuuint32_t, true)
MEMOP(cuStreamWaitValue64, cuStreamWaitValue64_ptsz, cuStreamWaitValue64_v2,
      cuStreamWaitValue64_v2_ptsz, cuuint64_t, true)
MEMOP(cuStreamWriteValue32, cuStreamWriteValue32_ptsz, cuStreamWriteValue32_v2,
      cuStreamWriteValue32_v2_ptsz, cuuint32_t, false)
MEMOP(cuStreamWriteValue64, cuStreamWriteValue64_ptsz, cuStreamWriteValue64_v2,
      cuStreamWriteValue64_v2_ptsz, cuuint64_t, false)

static CUresult read_op(const CUstreamBatchMemOpParams *p, struct memop *out)
{
	switch ((int)p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		*out = (struct memop){ true, 4, p->waitValue.address, p->waitValue.value,
				       p->waitValue.flags };
		return check(out);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		*out = (struct memop){ true, 8, p->waitValue.address, p->waitValue.value64,
				       p->waitValue.flags };
		return check(out);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		*out = (struct memop){ false, 4, p->writeValue.address, p->writeValue.value,
				       p->writeValue.flags };
		return check(out);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		*out = (struct memop){ false, 8, p->writeValue.address, p->writeValue.value64,
				       p->writeValue.flags };
		return check(out);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* All of a batch is checked before any of it is submitted. */
static CUresult batch(enum cuda_id id, enum stream_default form, CUstream handle, unsigned count,
		      const CUstreamBatchMemOpParams *ops, unsigned flags)
{
	struct CUstream_st *stream;
	struct memop op;
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, &stream);
	if (res == CUDA_SUCCESS && (!ops || flags || count == 0 || count > 256))
		res = CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; res == CUDA_SUCCESS && i < count; i++)
		res = read_op(&ops[i], &op);
	for (unsigned i = 0; res == CUDA_SUCCESS && i < count; i++) {
		res = read_op(&ops[i], &op);
		if (res == CUDA_SUCCESS)
			res = submit(stream, &op);
	}
	return cuda_call_end(res);
}

#define BATCH(name, form)                                                                 \
	CUresult name(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops, \
		      unsigned int flags)                                                 \
	{                                                                                 \
		return batch(CUDA_ID_##name, form, stream, count, ops, flags);            \
	}

BATCH(cuStreamBatchMemOp, DEFAULT_LEGACY)
BATCH(cuStreamBatchMemOp_ptsz, DEFAULT_PER_THREAD)
BATCH(cuStreamBatchMemOp_v2, DEFAULT_LEGACY)
BATCH(cuStreamBatchMemOp_v2_ptsz, DEFAULT_PER_THREAD)
