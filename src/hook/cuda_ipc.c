/*
 * Memory of other processes and other APIs. Whether an import is held by this process too, the
 * driver's figure says: it is charged by what that grew, so memory of a process of the same tenant
 * is not counted twice.
 */
#include "core/gate.h"
#include "core/handed.h"
#include "drv/gpu_cuda.h"
#include "hook/enter.h"
#include "hook/ipc_export.h"
#include "hook/ipc_import.h"
#include "hook/movable.h"
#include "hook/output.h"

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
	handed_import();
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
	struct output was = { 0 };
	struct charge c;
	enum enter what;
	CUresult res;
	int rc;

	if (!ENTER_HAS(cuImportExternalMemory))
		return enter_missing();
	what = out_memory && desc ? begin(&c, &res) : ENTER_FORWARD;
	if (what == ENTER_REFUSE)
		return res;
	if (what == ENTER_CHARGE)
		was = OUTPUT_SAVE(out_memory);
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
	output_restore(&was);
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

/* An object's handle, which the driver does not know. */
static CUresult open_object(open_fn *call, CUdeviceptr *out_addr, const CUipcMemHandle *handle,
			    unsigned int flags)
{
	struct ipc_handle h;
	const void *ctx;
	struct dev dev;

	switch (enter_current(&dev, &ctx)) {
	case ENTER_REFUSE:
		return enter_refusal();
	case ENTER_FORWARD:
		return GATE_CALL(call(out_addr, *handle, flags));
	default:
		if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
			return CUDA_ERROR_INVALID_VALUE;
		ipc_handle_read(handle, &h);
		handed_import();
		return ipc_import_open(&h, dev, ctx, out_addr);
	}
}

static CUresult open_ipc(open_fn *call, CUdeviceptr *out_addr, CUipcMemHandle handle,
			 unsigned int flags)
{
	struct output was = { 0 };
	struct ipc_handle ours;
	enum enter what;
	struct charge c;
	CUresult res;
	int rc;

	if (out_addr && ipc_handle_read(&handle, &ours))
		return open_object(call, out_addr, &handle, flags);
	what = out_addr ? begin(&c, &res) : ENTER_FORWARD;
	if (what == ENTER_REFUSE)
		return res;
	if (what == ENTER_CHARGE)
		was = OUTPUT_SAVE(out_addr);
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
	output_restore(&was);
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
	if (ipc_import_has(addr))
		return ipc_import_close(addr);
	node = init_is_member() ? charge_take(addr, &dev) : NULL;
	return end(GATE_CALL(real.cuIpcCloseMemHandle(addr)), node, dev);
}

static void note_export(CUdeviceptr addr)
{
	CUdeviceptr base;

	if (!init_is_member())
		return;
	handed_export();
	if (real.cuMemGetAddressRange_v2 &&
	    real.cuMemGetAddressRange_v2(&base, NULL, addr) == CUDA_SUCCESS)
		track_note_export(base);
}

CUresult hook_cuIpcGetMemHandle(CUipcMemHandle *out_handle, CUdeviceptr addr)
{
	struct object_info o;
	struct cuda_ord ord;
	struct ipc_handle h;
	const void *ctx;
	int rc;

	if (!ENTER_HAS(cuIpcGetMemHandle))
		return enter_missing();
	if (!movable_has(addr)) {
		note_export(addr);
		return GATE_CALL(real.cuIpcGetMemHandle(out_handle, addr));
	}
	if (!out_handle || !gpu_cuda_current(&ord, &ctx) || !object_find(addr, &o))
		return GATE_CALL(real.cuIpcGetMemHandle(out_handle, MOVABLE_NOWHERE));
	rc = ipc_export_handle(&o, &h);
	if (rc == -ENOTSUP)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (rc < 0)
		return rc == -ENOENT ? CUDA_ERROR_INVALID_VALUE : status_cuda(rc);
	memcpy(out_handle, &h, sizeof(h));
	return CUDA_SUCCESS;
}
