#include "sparse.h"

#include "shm/busy_ring.h"

#define SPAN_NS INT64_C(100000)

static void ended(void *arg, uint64_t tag)
{
	struct sparse *sparse = arg;
	struct sparse_stream *at = &sparse->streams[tag >> 48];
	int64_t first_ns = (int64_t)(tag << 16 >> 16), now_ns = sparse->queue->now_ns;
	int64_t begin_ns = at->end_ns > first_ns ? at->end_ns : first_ns;

	sparse->busy_ns += busy_ring_set(&sparse->ring, begin_ns, now_ns);
	at->end_ns = now_ns;
}

void sparse_launched(struct sparse *sparse, struct gpu_stream *stream)
{
	unsigned i = (unsigned)(stream - stream->gpu->streams);
	struct sparse_stream *at = &sparse->streams[i];
	struct gpu_op op = { .kind = GPU_MARK, .ended = ended, .arg = sparse };

	if (at->first_ns == 0)
		at->first_ns = sparse->queue->now_ns;
	if (sparse->queue->now_ns - at->marked_ns < SPAN_NS)
		return;
	op.ready_ns = sparse->queue->now_ns;
	op.tag = (uint64_t)i << 48 | (uint64_t)at->first_ns;
	gpu_submit(stream, &op);
	at->marked_ns = sparse->queue->now_ns;
	at->first_ns = 0;
}
