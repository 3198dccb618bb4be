/*
 * Memory of other processes and other APIs. Whether an import is held by this process too, the
 * driver's figure says: it is charged by what that grew, so memory of a process of the same tenant
 * is not counted twice.
 */
#include "core/gate.h"
#include "hook/enter.h"

#include <errno.h>

/* An import of an object whose handle is *out; undone by its closing call. */
static enum enter begin(struct charge *c, CUresult *out_res)
{
	const void *ctx;
	struct dev dev;
	enum enter what = enter_current(&dev, &ctx);
	int rc;

	if (what == ENTER_REFUSE)
		*out_res = enter_refusal();
	if (what != ENTER_CHARGE)
		return what;
	rc = charge_reserve_object(c, dev, ctx, 0);
	if (rc == 0)
		return ENTER_CHARGE;
	*out_res = enter_refused(rc, dev, 0);
	return ENTER_REFUSE;
}

static CUresult end(CUresult res, struct track_node *node, struct dev dev)
{
	if (node && res == CUDA_SUCCESS)
		charge_end(node, dev);
	else if (node)
		charge_put_back(node, dev);
	return res;
}

CUresult hook_cuImportExternalMemory(CUexternalMemory *out_memory,
				     const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct charge c;
	enum enter what;
	CUresult res;
	int rc;

	if (!ENTER_HAS(cuImportExternalMemory))
		return enter_missing();
	what = out_memory && desc ? begin(&c, &res) : ENTER_FORWARD;
	if (what == ENTER_REFUSE)
		return res;
	res = GATE_CALL(real.cuImportExternalMemory(out_memory, desc));
	if (what == ENTER_FORWARD)
		return res;
	if (res != CUDA_SUCCESS) {
		charge_cancel(&c);
		return res;
	}
	rc = charge_commit_object(&c, *out_memory);
	if (rc == 0)
		return res;
	if (rc == -EOVERFLOW) {
		hook_cuDestroyExternalMemory(*out_memory);
	} else {
		GATE_CALL(real.cuDestroyExternalMemory(*out_memory));
		charge_cancel(&c);
	}
	return enter_refused(-EDQUOT, c.dev, desc->size);
}

CUresult hook_cuDestroyExternalMemory(CUexternalMemory memory)
{
	struct track_node *node;
	struct dev dev = { 0 };

	if (!ENTER_HAS(cuDestroyExternalMemory))
		return enter_missing();
	node = init_is_member() ? charge_take((uint64_t)(uintptr_t)memory, &dev) : NULL;
	return end(GATE_CALL(real.cuDestroyExternalMemory(memory)), node, dev);
}

typedef CUresult open_fn(CUdeviceptr *out_addr, CUipcMemHandle handle, unsigned int flags);

static CUresult open_ipc(open_fn *call, CUdeviceptr *out_addr, CUipcMemHandle handle,
			 unsigned int flags)
{
	struct charge c;
	CUresult res;
	enum enter what = out_addr ? begin(&c, &res) : ENTER_FORWARD;
	int rc;

	if (what == ENTER_REFUSE)
		return res;
	res = GATE_CALL(call(out_addr, handle, flags));
	if (what == ENTER_FORWARD)
		return res;
	if (res != CUDA_SUCCESS) {
		charge_cancel(&c);
		return res;
	}
	rc = charge_commit_object(&c, (const void *)(uintptr_t)*out_addr);
	if (rc == 0)
		return res;
	if (rc == -EOVERFLOW) {
		hook_cuIpcCloseMemHandle(*out_addr);
	} else {
		GATE_CALL(real.cuIpcCloseMemHandle(*out_addr));
		charge_cancel(&c);
	}
	return enter_refused(-EDQUOT, c.dev, 0);
}

CUresult hook_cuIpcOpenMemHandle(CUdeviceptr *out_addr, CUipcMemHandle handle, unsigned int flags)
{
	return ENTER_HAS(cuIpcOpenMemHandle) ?
		       open_ipc(real.cuIpcOpenMemHandle, out_addr, handle, flags) :
		       enter_missing();
}

CUresult hook_cuIpcOpenMemHandle_v2(CUdeviceptr *out_addr, CUipcMemHandle handle,
				    unsigned int flags)
{
	return ENTER_HAS(cuIpcOpenMemHandle_v2) ?
		       open_ipc(real.cuIpcOpenMemHandle_v2, out_addr, handle, flags) :
		       enter_missing();
}

CUresult hook_cuIpcCloseMemHandle(CUdeviceptr addr)
{
	struct track_node *node;
	struct dev dev = { 0 };

	if (!ENTER_HAS(cuIpcCloseMemHandle))
		return enter_missing();
	node = init_is_member() ? charge_take(addr, &dev) : NULL;
	return end(GATE_CALL(real.cuIpcCloseMemHandle(addr)), node, dev);
}
