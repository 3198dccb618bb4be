/*
 * Makes a driver of which one call can be held: the first one of the name in HELD stays inside,
 * without the driver's lock, until the program lets it go.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_call.h"

#define EXPORT __attribute__((visibility("default")))

CUresult __real_cuda_call_begin(enum cuda_id id);
CUresult __wrap_cuda_call_begin(enum cuda_id id);
CUresult __real_cuda_call_begin_context(enum cuda_id id, struct CUctx_st **out_ctx);
CUresult __wrap_cuda_call_begin_context(enum cuda_id id, struct CUctx_st **out_ctx);
EXPORT int held_is_waiting(void);
EXPORT void held_release(void);

enum { NOT_YET, WAITING, RELEASED };

static _Atomic int state;

static void hold(enum cuda_id id)
{
	static const char *const names[] = {
#define CALL(base, symbol, version, stream) #symbol,
#define NONE(base, symbol, version, stream) #symbol,
#define ALIAS(base, symbol, version, stream)
#include "cuda_symbols.def"
	};
	struct timespec a_while = { 0, 1000000 };
	const char *name = getenv("HELD");
	int not_yet = NOT_YET;

	if (!name || strcmp(name, names[id]) != 0 ||
	    !atomic_compare_exchange_strong(&state, &not_yet, WAITING))
		return;
	while (state != RELEASED)
		nanosleep(&a_while, NULL);
}

CUresult __wrap_cuda_call_begin(enum cuda_id id)
{
	hold(id);
	return __real_cuda_call_begin(id);
}

CUresult __wrap_cuda_call_begin_context(enum cuda_id id, struct CUctx_st **out_ctx)
{
	hold(id);
	return __real_cuda_call_begin_context(id, out_ctx);
}

int held_is_waiting(void)
{
	return state == WAITING;
}

void held_release(void)
{
	state = RELEASED;
}
