/* Checkpoints of whole processes, asked for from outside. They wait for no lock of the process. */
#include <errno.h>
#include <signal.h>

#include "cuda_call.h"
#include "cuda_fault.h"
#include "machine.h"

#define NS_PER_MS INT64_C(1000000)

static CUresult begin(enum cuda_id id, int pid)
{
	CUresult res;

	if (!cuda_call_is_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	res = cuda_fault_hit(id);
	if (res != CUDA_SUCCESS)
		return res;
	if (pid <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	/* Another user's. */
	return kill(pid, 0) && errno == EPERM ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

static CUresult result(int rc)
{
	switch (rc) {
	case 0:
		return CUDA_SUCCESS;
	case -EINVAL:
		return CUDA_ERROR_ILLEGAL_STATE;
	case -EBUSY:
		return CUDA_ERROR_NOT_READY;
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -EIO:
		return CUDA_ERROR_UNKNOWN;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
	int64_t wait_ns = args && args->timeoutMs ? args->timeoutMs * NS_PER_MS : INT64_MAX;
	CUresult res = begin(CUDA_ID_cuCheckpointProcessLock, pid);

	return res == CUDA_SUCCESS ? result(machine_checkpoint_lock((uint32_t)pid, wait_ns)) : res;
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
	CUresult res = begin(CUDA_ID_cuCheckpointProcessCheckpoint, pid);

	(void)args;
	return res == CUDA_SUCCESS ? result(machine_checkpoint_take((uint32_t)pid)) : res;
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
	CUresult res = begin(CUDA_ID_cuCheckpointProcessRestore, pid);

	(void)args;
	return res == CUDA_SUCCESS ? result(machine_checkpoint_restore((uint32_t)pid)) : res;
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
	CUresult res = begin(CUDA_ID_cuCheckpointProcessUnlock, pid);

	(void)args;
	return res == CUDA_SUCCESS ? result(machine_checkpoint_unlock((uint32_t)pid)) : res;
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *out_state)
{
	static const CUprocessState states[] = {
		[MACHINE_RUNS] = CU_PROCESS_STATE_RUNNING,
		[MACHINE_LOCKED] = CU_PROCESS_STATE_LOCKED,
		[MACHINE_CHECKPOINTED] = CU_PROCESS_STATE_CHECKPOINTED,
		[MACHINE_LOST] = CU_PROCESS_STATE_FAILED,
	};
	CUresult res = begin(CUDA_ID_cuCheckpointProcessGetState, pid);
	enum machine_checkpoint state;

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_state || machine_checkpoint_state((uint32_t)pid, &state) < 0 ||
	    state > MACHINE_LOST)
		return CUDA_ERROR_INVALID_VALUE;
	*out_state = states[state];
	return CUDA_SUCCESS;
}
