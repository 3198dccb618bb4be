#include "cuda_call.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cuda_fault.h"

enum proc_stream { LEGACY, PER_THREAD };

struct row {
	const char *base, *symbol;
	int version;
	enum proc_stream stream;
	CUresult (*function)(void);
};

/* One address per symbol; the callers know the real types. */
#define CALL(base, symbol, version, stream) CUresult proc_##symbol(void) __asm__(#symbol);
#define NONE(base, symbol, version, stream) CUresult proc_##symbol(void) __asm__(#symbol);
#define ALIAS(base, symbol, version, stream)
#include "cuda_symbols.def"
#undef CALL
#undef NONE
#undef ALIAS

#define ROW(base, symbol, version, stream) { #base, #symbol, version, stream, proc_##symbol },

/* For one base name, by ascending version. */
static const struct row rows[] = {
#define CALL ROW
#define NONE ROW
#define ALIAS ROW
#include "cuda_symbols.def"
#undef CALL
#undef NONE
#undef ALIAS
};

/* The newest form that the version allows; a per-thread form goes before a legacy one when asked
 * for. NULL when there is none; *out_is_known says whether a later version would have had it. */
static const struct row *find(const char *base, int version, cuuint64_t flags, bool *out_is_known)
{
	const struct row *best = NULL;
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	*out_is_known = false;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];

		if (strcmp(r->base, base) != 0 || cuda_fault_is_missing(r->symbol) ||
		    r->version > cuda_call_version())
			continue;
		*out_is_known = true;
		if (r->version > version || (r->stream == PER_THREAD && !per_thread))
			continue;
		if (!best || r->stream >= best->stream)
			best = r;
	}
	return best;
}

static CUresult get(const char *symbol, void **out_fn, int version, cuuint64_t flags,
		    CUdriverProcAddressQueryResult *out_status)
{
	const cuuint64_t both = CU_GET_PROC_ADDRESS_LEGACY_STREAM |
				CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	const struct row *row;
	bool is_known;

	if (!symbol || !out_fn || (flags & ~both) || flags == both || version > cuda_call_version())
		return CUDA_ERROR_INVALID_VALUE;
	row = find(symbol, version, flags, &is_known);
	*out_fn = row ? (void *)row->function : NULL;
	*out_status = row      ? CU_GET_PROC_ADDRESS_SUCCESS :
		      is_known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT :
				 CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

/* The form of CUDA 11: what is not found is an error. */
CUresult cuGetProcAddress(const char *symbol, void **out_fn, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	CUresult res = cuda_fault_hit(CUDA_ID_cuGetProcAddress);

	if (res == CUDA_SUCCESS)
		res = get(symbol, out_fn, version, flags, &status);
	if (res == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS)
		res = CUDA_ERROR_NOT_FOUND;
	return res;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **out_fn, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *out_status)
{
	CUdriverProcAddressQueryResult status;
	CUresult res = cuda_fault_hit(CUDA_ID_cuGetProcAddress_v2);

	if (res == CUDA_SUCCESS)
		res = get(symbol, out_fn, version, flags, &status);
	if (res == CUDA_SUCCESS && out_status)
		*out_status = status;
	return res;
}

/* Whoever meets the answer as "named symbol not found" would look for the fault in the program. */
static void say_once(void)
{
	static _Atomic bool is_said;

	if (!atomic_exchange_explicit(&is_said, true, memory_order_relaxed))
		fputs("ration-sim: this program asks for private tables of the driver, as the CUDA "
		      "runtime (PyTorch, all that nvcc makes) does: the software GPU has none and "
		      "runs programs of the driver API alone\n",
		      stderr);
}

/* There are no private tables. */
CUresult cuGetExportTable(const void **out_table, const CUuuid *id)
{
	CUresult res = cuda_fault_hit(CUDA_ID_cuGetExportTable);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	say_once();
	return CUDA_ERROR_NOT_FOUND;
}
