/* The symbols of the table that have no behaviour: each answers CUDA_ERROR_NOT_SUPPORTED from an
 * address of its own, because a real driver's symbols have distinct addresses. */
#pragma once

#define CALL(base, symbol, version, stream)
#define NONE(base, symbol, version, stream) \
	int cuda_none_##symbol(void) __asm__(#symbol) __attribute__((visibility("default")));
#define ALIAS(base, symbol, version, stream)
#include "cuda_symbols.def"
#undef CALL
#undef NONE
#undef ALIAS
