#include "drv/capture.h"

#include "base/process.h"
#include "base/sys.h"
#include "drv/real.h"

#include <pthread.h>

/* More at once are counted too, but end only as captures do. */
enum { NOTES = 128 };

struct note {
	CUstream stream;
	CUcontext ctx;
	int tid; /* of who began it in the thread's own stream, which has two handles; else 0 */
	bool is_used;
};

struct capture_state {
	pthread_mutex_t mutex;    /* zero is an unlocked one */
	struct note notes[NOTES]; /* mutex */
};
PROCESS_STATE(capture_state, state);

_Atomic uint32_t capture_count;

void capture_begin(void)
{
	atomic_fetch_add(&capture_count, 1);
}

void capture_end(void)
{
	uint32_t count = atomic_load(&capture_count);

	while (count > 0)
		if (atomic_compare_exchange_weak(&capture_count, &count, count - 1))
			break;
}

static int thread_of(CUstream stream)
{
	return (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD ? sys_gettid() : 0;
}

static CUcontext context_of(CUstream stream)
{
	CUcontext ctx = NULL;

	if (thread_of(stream) == 0 && real.cuStreamGetCtx &&
	    real.cuStreamGetCtx(stream, &ctx) == CUDA_SUCCESS)
		return ctx;
	if (real.cuCtxGetCurrent)
		real.cuCtxGetCurrent(&ctx);
	return ctx;
}

void capture_note(CUstream stream)
{
	const struct note note = { stream, context_of(stream), thread_of(stream), true };

	process_wipe_on_fork(&state, sizeof(state));
	pthread_mutex_lock(&state.s.mutex);
	for (int i = 0; i < NOTES; i++)
		if (!state.s.notes[i].is_used) {
			state.s.notes[i] = note;
			break;
		}
	pthread_mutex_unlock(&state.s.mutex);
}

bool capture_forget(CUstream stream)
{
	int tid = thread_of(stream);
	bool is_noted = false;

	if (!capture_any())
		return false;
	pthread_mutex_lock(&state.s.mutex);
	for (int i = 0; i < NOTES && !is_noted; i++) {
		struct note *n = &state.s.notes[i];

		is_noted = n->is_used && n->tid == tid && (tid || n->stream == stream);
		if (is_noted)
			n->is_used = false;
	}
	pthread_mutex_unlock(&state.s.mutex);
	return is_noted;
}

void capture_end_context(CUcontext ctx)
{
	if (!capture_any())
		return;
	pthread_mutex_lock(&state.s.mutex);
	for (int i = 0; i < NOTES; i++) {
		struct note *n = &state.s.notes[i];

		if (!n->is_used || n->ctx != ctx)
			continue;
		n->is_used = false;
		capture_end();
	}
	pthread_mutex_unlock(&state.s.mutex);
}
