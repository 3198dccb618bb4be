#include "cuda_none.h"

#include "cuda_call.h"

static int answer(enum cuda_id id)
{
	CUresult res = cuda_call_begin(id);

	return (int)(res == CUDA_SUCCESS ? cuda_call_end(CUDA_ERROR_NOT_SUPPORTED) : res);
}

#define CALL(base, symbol, version, stream)
#define NONE(base, symbol, version, stream)      \
	int cuda_none_##symbol(void)             \
	{                                        \
		return answer(CUDA_ID_##symbol); \
	}
#define ALIAS(base, symbol, version, stream)
#include "cuda_symbols.def"
