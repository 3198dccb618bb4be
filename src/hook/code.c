#include "hook/code.h"

#include "core/library.h"
#include "core/small.h"
#include "drv/gpu_cuda.h"
#include "hook/loading.h"

#include <errno.h>

/* The calling thread's context and its device; false where nothing counts. */
static bool here(struct module_facts *facts)
{
	struct cuda_ord ord;

	*facts = (struct module_facts){ .has_code = loading_is_eager() };
	return init_is_member() && quota_counts_contexts() && gpu_cuda_current(&ord, &facts->ctx) &&
	       device_by_ordinal(ord, &facts->dev);
}

void code_loaded(CUmodule module, uint64_t code_bytes)
{
	struct module_facts facts;

	if (!here(&facts))
		return;
	facts.code_bytes = code_bytes;
	module_enter(module, &facts);
}

void code_of_library(CUmodule module, CUlibrary library)
{
	struct module_facts facts, known;

	if (!here(&facts) || (module_find(module, &known) && known.owner == library))
		return;
	facts.owner = library;
	facts.code_bytes = library_need(library).code_bytes;
	module_enter(module, &facts);
}

/* True when its code is not on the device, as far as is known; one that is unknown is seen now. */
static bool is_awaited(CUmodule module, struct module_facts *out_facts)
{
	if (!module_find(module, out_facts)) {
		if (!here(out_facts))
			return false;
		module_enter(module, out_facts);
	}
	if (!out_facts->has_code && out_facts->owner &&
	    library_is_in(out_facts->owner, out_facts->ctx, LIBRARY_CODE)) {
		module_came(module);
		return false;
	}
	return !out_facts->has_code;
}

CUresult code_begin(struct code *c, CUmodule module)
{
	struct cuda_ord ord;
	struct overhead *o = &c->overhead;

	c->module = NULL;
	if (!module || !init_is_member() || !quota_counts_contexts() ||
	    !is_awaited(module, &c->facts) || !device_ordinal(c->facts.dev, &ord))
		return CUDA_SUCCESS;
	overhead_begin_on(o, ord.v);
	if (!o->counts)
		return CUDA_SUCCESS;
	c->module = module;
	return overhead_reserve_lasting(o, c->facts.is_refused ? 0 : c->facts.code_bytes);
}

CUresult code_finish(struct code *c, CUresult res)
{
	struct overhead *o = &c->overhead;

	if (!c->module)
		return res;
	if (res != CUDA_SUCCESS) {
		overhead_cancel(o);
		return res;
	}
	res = overhead_finish_lasting(o);
	overhead_keep(o, c->facts.owner ? c->facts.owner : c->module, c->facts.ctx);
	if (res != CUDA_SUCCESS) {
		module_refuse(c->module);
		if (c->facts.owner)
			library_refuse(c->facts.owner, c->facts.ctx, c->facts.dev, LIBRARY_CODE);
		return res;
	}
	module_came(c->module);
	if (c->facts.owner)
		library_enter(c->facts.owner, c->facts.ctx, c->facts.dev, LIBRARY_CODE);
	return res;
}
