/* Memory that another device of the process is to reach. */
#include "drv/gpu_cuda.h"
#include "hook/gated.h"
#include "hook/movable.h"
#include "hook/peer.h"

#include <errno.h>

CUresult hook_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	struct cuda_ord ord, own;
	CUresult res;
	int rc;

	if (!ENTER_HAS(cuCtxEnablePeerAccess))
		return enter_missing();
	res = GATE_CALL(real.cuCtxEnablePeerAccess(peer, flags));
	if (res != CUDA_SUCCESS || !movable_is_on() || !gpu_cuda_current_device(&own) ||
	    !gpu_cuda_context_device(peer, &ord))
		return res;
	rc = peer_allow(own, ord);
	if (rc == 0)
		return res;
	if (real.cuCtxDisablePeerAccess)
		GATE_CALL(real.cuCtxDisablePeerAccess(peer));
	return rc == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_READY;
}
