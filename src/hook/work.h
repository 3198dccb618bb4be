#pragma once
#include "abi/cuda.h"
#include <stdbool.h>
#include <stdint.h>
struct work_call {
	CUstream stream;
	uint64_t kind;
	bool is_per_thread;
};
struct work {
	struct work_call call;
};
void work_begin(struct work *w, struct work_call call);
void work_end(struct work *w, CUresult res);
