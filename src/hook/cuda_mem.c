/* Linear, pitched and managed memory. */
#include "core/piece.h"
#include "drv/gpu_pool.h"
#include "hook/gated.h"
#include "hook/movable.h"
#include "hook/output.h"
#include "hook/own_row.h"
#include "hook/room.h"

#include <errno.h>

/* Rows of a pitched allocation are padded to this at least (docs/real-gpu.md). */
#define PITCH_BYTES UINT64_C(512)
/* No device has longer rows (CU_DEVICE_ATTRIBUTE_MAX_PITCH). */
#define PITCH_MOST_BYTES ((UINT64_C(1) << 31) - 1)

enum memory { LINEAR, MANAGED };

/* An address, and a pitch. */
enum { OUTPUTS = 2 };

/*
 * The first half of an allocation of `bytes`: ENTER_CHARGE with *c reserved, ENTER_FORWARD, or
 * ENTER_REFUSE with the answer in *out_res. A request that the driver will refuse anyway (bytes 0)
 * is forwarded: the answer to it is the driver's.
 */
static enum enter begin(struct charge *c, enum memory memory, uint64_t bytes, CUresult *out_res)
{
	const void *ctx;
	struct dev dev;
	enum enter what = bytes ? enter_current(&dev, &ctx) : ENTER_FORWARD;
	int rc, waits = 0;

	if (what == ENTER_REFUSE)
		*out_res = enter_refusal();
	if (what != ENTER_CHARGE)
		return what;
	do
		rc = memory == LINEAR ? charge_reserve_linear(c, dev, ctx, bytes) :
					charge_reserve_managed(c, dev, ctx, bytes, CHARGE_MAY_WAIT);
	while (rc == -EDQUOT && own_row_wait(dev, bytes, &waits));
	if (rc == 0)
		return ENTER_CHARGE;
	*out_res = enter_refused_now(rc, dev, bytes);
	return ENTER_REFUSE;
}

/*
 * The second half: what the driver said, and what the limit says of a block it opened. Its
 * outputs are read only where it has written them.
 */
static CUresult finish(struct charge *c, CUresult res, CUdeviceptr addr, uint64_t bytes)
{
	int rc;

	if (res != CUDA_SUCCESS) {
		charge_cancel(c);
		return res;
	}
	rc = charge_commit(c, addr, bytes);
	if (rc == 0)
		return CUDA_SUCCESS;
	GATE_CALL(real.cuMemFree_v2(addr));
	charge_cancel(c);
	return enter_refused(rc, c->dev, bytes);
}

/* As that of a call whose outputs were saved. */
static CUresult finish_call(struct charge *c, CUresult res, uint64_t addr, uint64_t bytes,
			    const struct output was[OUTPUTS])
{
	CUresult finished = finish(c, res, addr, bytes);

	for (int i = 0; i < OUTPUTS && res == CUDA_SUCCESS && finished != CUDA_SUCCESS; i++)
		output_restore(&was[i]);
	return finished;
}

/* The driver gave what it was thought to refuse for its arguments: it counts like any other. */
static CUresult count_given(enum memory memory, CUdeviceptr addr, uint64_t bytes)
{
	struct charge c;
	CUresult res;
	enum enter what = begin(&c, memory, bytes, &res);

	if (what == ENTER_CHARGE)
		return finish(&c, CUDA_SUCCESS, addr, bytes);
	if (what == ENTER_FORWARD)
		return CUDA_SUCCESS;
	GATE_CALL(real.cuMemFree_v2(addr));
	return res;
}

CUresult hook_cuMemAlloc_v2(CUdeviceptr *out_addr, size_t size_bytes)
{
	struct output was[OUTPUTS] = { { 0 } };
	struct charge c;
	enum enter what;
	CUresult res;

	if (!ENTER_HAS(cuMemAlloc_v2))
		return enter_missing();
	if (movable_is_on() &&
	    movable_alloc(out_addr ? size_bytes : 0, out_addr, &res) == MOVABLE_DONE)
		return res;
	what = begin(&c, LINEAR, out_addr ? size_bytes : 0, &res);
	if (what == ENTER_REFUSE)
		return res;
	if (what == ENTER_CHARGE)
		was[0] = OUTPUT_SAVE(out_addr);
	res = ROOM_CALL_HERE(size_bytes, real.cuMemAlloc_v2(out_addr, size_bytes));
	if (what != ENTER_CHARGE)
		return res;
	return finish_call(&c, res, res == CUDA_SUCCESS ? *out_addr : 0, size_bytes, was);
}

/*
 * A request of the 32-bit forms was refused. Contexts of today serve none of them: `res` is what
 * the driver says to one of 0 bytes.
 */
static CUresult refused_narrow(CUresult refusal, CUresult res)
{
	return res == CUDA_ERROR_INVALID_CONTEXT ? res : refusal;
}

CUresult hook_cuMemAlloc(CUdeviceptr_v1 *out_addr, unsigned int size_bytes)
{
	struct output was[OUTPUTS] = { { 0 } };
	struct charge c;
	enum enter what;
	CUresult res;

	if (!ENTER_HAS(cuMemAlloc))
		return enter_missing();
	what = begin(&c, LINEAR, out_addr ? size_bytes : 0, &res);
	if (what == ENTER_REFUSE)
		return refused_narrow(res, real.cuMemAlloc(out_addr, 0));
	if (what == ENTER_CHARGE)
		was[0] = OUTPUT_SAVE(out_addr);
	res = ROOM_CALL_HERE(size_bytes, real.cuMemAlloc(out_addr, size_bytes));
	if (what != ENTER_CHARGE)
		return res;
	return finish_call(&c, res, res == CUDA_SUCCESS ? *out_addr : 0, size_bytes, was);
}

CUresult hook_cuMemAllocManaged(CUdeviceptr *out_addr, size_t size_bytes, unsigned int flags)
{
	struct output was[OUTPUTS] = { { 0 } };
	struct charge c;
	enum enter what;
	CUresult res;
	bool is_right;

	if (!ENTER_HAS(cuMemAllocManaged))
		return enter_missing();
	/* Of wrong flags the driver speaks before it looks for room. */
	is_right = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
	what = begin(&c, MANAGED, out_addr && is_right ? size_bytes : 0, &res);
	if (what == ENTER_REFUSE)
		return res;
	if (what == ENTER_CHARGE)
		was[0] = OUTPUT_SAVE(out_addr);
	res = ROOM_CALL_HERE(size_bytes, real.cuMemAllocManaged(out_addr, size_bytes, flags));
	if (res == CUDA_SUCCESS && !is_right)
		return count_given(MANAGED, *out_addr, size_bytes);
	if (what != ENTER_CHARGE)
		return res;
	return finish_call(&c, res, res == CUDA_SUCCESS ? *out_addr : 0, size_bytes, was);
}

/*
 * Bytes of `height` padded rows; 0 for what the driver refuses: none, more than 64 bits hold, an
 * element size that is not 4, 8 or 16.
 */
static uint64_t pitched_bytes(uint64_t width_bytes, uint64_t height, unsigned element_bytes)
{
	uint64_t pitch, bytes;

	if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
		return 0;
	if (width_bytes == 0 || height == 0 || width_bytes > UINT64_MAX - PITCH_BYTES)
		return 0;
	pitch = (width_bytes + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
	return __builtin_mul_overflow(pitch, height, &bytes) ? 0 : bytes;
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *out_addr, size_t *out_pitch_bytes, size_t width_bytes,
				 size_t height, unsigned int element_bytes)
{
	uint64_t bytes = pitched_bytes(width_bytes, height, element_bytes);
	struct output was[OUTPUTS] = { { 0 } };
	struct charge c;
	enum enter what;
	CUresult res;

	if (!ENTER_HAS(cuMemAllocPitch_v2))
		return enter_missing();
	if (movable_is_on() && out_addr && out_pitch_bytes && width_bytes <= PITCH_MOST_BYTES &&
	    movable_alloc(bytes, out_addr, &res) == MOVABLE_DONE) {
		if (res == CUDA_SUCCESS)
			*out_pitch_bytes = bytes / height;
		return res;
	}
	what = begin(&c, LINEAR, out_addr && out_pitch_bytes ? bytes : 0, &res);
	if (what == ENTER_REFUSE && res == CUDA_ERROR_OUT_OF_MEMORY &&
	    width_bytes > PITCH_MOST_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (what == ENTER_REFUSE)
		return res;
	if (what == ENTER_CHARGE) {
		was[0] = OUTPUT_SAVE(out_addr);
		was[1] = OUTPUT_SAVE(out_pitch_bytes);
	}
	res = ROOM_CALL_HERE(bytes, real.cuMemAllocPitch_v2(out_addr, out_pitch_bytes, width_bytes,
							    height, element_bytes));
	if (res == CUDA_SUCCESS && !bytes)
		return count_given(LINEAR, *out_addr, *out_pitch_bytes * height);
	if (what != ENTER_CHARGE)
		return res;
	return finish_call(&c, res, res == CUDA_SUCCESS ? *out_addr : 0,
			   res == CUDA_SUCCESS ? *out_pitch_bytes * height : 0, was);
}

CUresult hook_cuMemAllocPitch(CUdeviceptr_v1 *out_addr, unsigned int *out_pitch_bytes,
			      unsigned int width_bytes, unsigned int height,
			      unsigned int element_bytes)
{
	uint64_t bytes = pitched_bytes(width_bytes, height, element_bytes);
	struct output was[OUTPUTS] = { { 0 } };
	struct charge c;
	enum enter what;
	CUresult res;

	if (!ENTER_HAS(cuMemAllocPitch))
		return enter_missing();
	what = begin(&c, LINEAR, out_addr && out_pitch_bytes ? bytes : 0, &res);
	if (what == ENTER_REFUSE)
		return refused_narrow(res, real.cuMemAllocPitch(out_addr, out_pitch_bytes, 0,
								height, element_bytes));
	if (what == ENTER_CHARGE) {
		was[0] = OUTPUT_SAVE(out_addr);
		was[1] = OUTPUT_SAVE(out_pitch_bytes);
	}
	res = ROOM_CALL_HERE(bytes, real.cuMemAllocPitch(out_addr, out_pitch_bytes, width_bytes,
							 height, element_bytes));
	if (res == CUDA_SUCCESS && !bytes)
		return count_given(LINEAR, *out_addr, (uint64_t)*out_pitch_bytes * height);
	if (what != ENTER_CHARGE)
		return res;
	return finish_call(&c, res, res == CUDA_SUCCESS ? *out_addr : 0,
			   res == CUDA_SUCCESS ? (uint64_t)*out_pitch_bytes * height : 0, was);
}

/* What is not ours goes to the driver, and its answer back: never is a free refused here. */
static CUresult free_by(CUresult res, CUdeviceptr addr, struct track_node *node, struct dev dev)
{
	if (!node) {
		/* Perhaps it was, in the moment before its allocation was entered. */
		if (res == CUDA_SUCCESS && addr && init_is_member())
			charge_freed_unknown(addr);
		return res;
	}
	if (res == CUDA_SUCCESS)
		charge_end(node, dev);
	else
		charge_put_back(node, dev);
	return res;
}

CUresult hook_cuMemFree_v2(CUdeviceptr addr)
{
	struct track_node *node;
	struct piece *piece;
	struct dev dev = { 0 };
	CUresult res;

	if (!ENTER_HAS(cuMemFree_v2))
		return enter_missing();
	if (movable_has(addr) && movable_free(addr, &res) == MOVABLE_DONE) {
		charge_lent_end(addr);
		return res;
	}
	node = init_is_member() ? charge_take(addr, &dev) : NULL;
	if (!node)
		charge_lent_end(addr);
	piece = node ? NULL : piece_take(addr);
	res = GATE_CALL(real.cuMemFree_v2(addr));
	piece_over(piece, res == CUDA_SUCCESS);
	gpu_pool_settle_marked();
	return free_by(res, addr, node, dev);
}

CUresult hook_cuMemFree(CUdeviceptr_v1 addr)
{
	struct track_node *node;
	struct dev dev = { 0 };

	if (!ENTER_HAS(cuMemFree))
		return enter_missing();
	node = init_is_member() ? charge_take(addr, &dev) : NULL;
	return free_by(GATE_CALL(real.cuMemFree(addr)), addr, node, dev);
}
