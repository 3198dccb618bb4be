/*
 * The first use of a module's code, which brings it to the device: what it takes is reserved before
 * the driver is called. Above the limit none is let in that was not used before, since nothing but
 * its end takes it out again.
 */
#pragma once

#include "core/module.h"
#include "hook/overhead.h"

/* Around such calls. A module whose code is there costs a look into a table. */
struct code {
	struct overhead overhead;
	struct module_facts facts;
	CUmodule module; /* NULL: nothing is to be let in */
};

/*
 * Before the call: CUDA_SUCCESS, and code_finish() follows with what the driver said; or the answer
 * for the program. The second gives the answer for the program.
 */
CUresult code_begin(struct code *c, CUmodule module);
CUresult code_finish(struct code *c, CUresult res);

/*
 * The calling thread's context has a new module, whose code takes up to code_bytes (0: not known).
 */
void code_loaded(CUmodule module, uint64_t code_bytes);

/* It has this one of a library, which may have been there before. */
void code_of_library(CUmodule module, CUlibrary library);
