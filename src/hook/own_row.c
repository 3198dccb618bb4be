#include "hook/own_row.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "core/charge.h"
#include "core/gate.h"
#include "drv/real.h"
#include "drv/relaxed.h"
#include "drv/sample_nvml.h"

#include <stdatomic.h>

/* So much is taken at once at most: others of the tenant may want it in the same moment. */
#define BLOCKS_MOST 4

/* The pause after a search that found nothing; each is twice the one before. */
#define PAUSE_NS (50 * NSEC_PER_MSEC)
enum { PAUSE_DOUBLED_MOST = 10, SILENT_SEARCHES = 3 };

/* How often who is refused tries again while another's search may be in his way, and the pause. */
enum { WAITS_MOST = 8 };
#define WAIT_NS (500 * NSEC_PER_USEC)

struct own_row_state {
	_Atomic bool
		has_searched; /* NVML's pids are not ours, nor anybody's of the tenant; atomic */
	_Atomic bool is_searching; /* two would hide each other's; atomic */
	_Atomic int64_t next_ns;   /* no search is due before; atomic */
	_Atomic unsigned searches; /* that found nothing; atomic */
};
PROCESS_STATE(own_row_state, state);

/* What is held of the device at the moment; on the stack of who searches. */
struct held {
	struct dev dev;
	uint64_t bytes;
	CUdeviceptr addr;
	struct cuda_ord ord;
	CUmemGenericAllocationHandle handle;
};

/*
 * What is not to be had at once is not waited for: the worker searches too. It is held in doubt, so
 * that nobody is refused for want of it.
 */
static bool take(void *arg, uint64_t bytes)
{
	struct held *held = arg;

	if (quota_doubt(held->dev, QUOTA_DATA, bytes) < 0)
		return false;
	charge_begin();
	if (GATE_CALL(real.cuMemAlloc_v2(&held->addr, bytes)) == CUDA_SUCCESS) {
		held->bytes = bytes;
		return true;
	}
	quota_doubt_over(held->dev, QUOTA_DATA, bytes, bytes);
	charge_over();
	return false;
}

/* What the driver keeps stays charged. */
static bool give(void *arg)
{
	struct held *held = arg;
	bool is_given = GATE_CALL(real.cuMemFree_v2(held->addr)) == CUDA_SUCCESS;

	quota_doubt_over(held->dev, QUOTA_DATA, held->bytes, is_given ? held->bytes : 0);
	charge_over();
	return is_given;
}

/*
 * As take() and give(), of memory that is mapped nowhere: no context is needed, and no work
 * waited for.
 */
static bool take_handle(void *arg, uint64_t bytes)
{
	struct held *held = arg;
	const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
							 .id = held->ord.v } };

	if (quota_doubt(held->dev, QUOTA_DATA, bytes) < 0)
		return false;
	charge_begin();
	if (GATE_CALL(real.cuMemCreate(&held->handle, bytes, &prop, 0)) == CUDA_SUCCESS) {
		held->bytes = bytes;
		return true;
	}
	quota_doubt_over(held->dev, QUOTA_DATA, bytes, bytes);
	charge_over();
	return false;
}

static bool give_handle(void *arg)
{
	struct held *held = arg;
	bool is_given = GATE_CALL(real.cuMemRelease(held->handle)) == CUDA_SUCCESS;

	quota_doubt_over(held->dev, QUOTA_DATA, held->bytes, is_given ? held->bytes : 0);
	charge_over();
	return is_given;
}

/* The search failed: another is due later. Says so once it is more than a coincidence. */
static void put_off(struct dev dev)
{
	unsigned before = atomic_fetch_add(&state.s.searches, 1);
	unsigned doubled = before < PAUSE_DOUBLED_MOST ? before : PAUSE_DOUBLED_MOST;

	atomic_store(&state.s.next_ns, clock_now_ns() + (PAUSE_NS << doubled));
	if (before + 1 == SILENT_SEARCHES)
		log_warn(
			"device %d (%.12s): NVML does not list this process under its pid, and its "
			"row was not found yet: until then its contexts are not counted, and its "
			"modules as the most that they may take",
			dev.v, quota_uuid(dev));
}

/* Searches if it is due and nobody else does. */
static bool search(struct held *held, struct fingerprint *fingerprint)
{
	struct dev dev = held->dev;
	bool is_searching = false;
	struct relaxed relaxed;
	unsigned pid;

	process_wipe_on_fork(&state, sizeof(state));
	if (clock_now_ns() < atomic_load(&state.s.next_ns) ||
	    !atomic_compare_exchange_strong(&state.s.is_searching, &is_searching, true))
		return false;
	atomic_store(&state.s.has_searched, true);
	fingerprint->arg = held;
	fingerprint->blocks_most = (unsigned)bytes_least(quota_left(dev) / FINGERPRINT_BLOCK_BYTES,
							 BLOCKS_MOST);
	/* Two processes that begin at once have other addresses and other times. */
	fingerprint->seed = (uint64_t)clock_now_ns() ^ (uint64_t)(uintptr_t)held << 20;
	relaxed = relaxed_begin();
	pid = sample_nvml_find_own(quota_uuid(dev), fingerprint);
	relaxed_end(relaxed);
	if (pid) {
		log_info("NVML lists this process under the pid %u", pid);
		quota_name_host_pid(pid);
	} else if (sample_nvml_knows(quota_uuid(dev))) {
		put_off(dev);
	}
	atomic_store(&state.s.is_searching, false);
	return pid != 0;
}

bool own_row_find(struct dev dev, const void *ctx)
{
	struct held held = { .dev = dev };
	struct fingerprint fingerprint = { .take = take, .give = give };
	CUcontext popped;
	bool is_found;

	if (!quota_counts_contexts() || !real.cuMemAlloc_v2 || !real.cuMemFree_v2 ||
	    !real.cuCtxPushCurrent_v2 || !real.cuCtxPopCurrent_v2 ||
	    real.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)ctx) != CUDA_SUCCESS)
		return false;
	is_found = search(&held, &fingerprint);
	real.cuCtxPopCurrent_v2(&popped);
	return is_found;
}

bool own_row_look(struct dev dev, struct cuda_ord ord)
{
	struct held held = { .dev = dev, .ord = ord };
	struct fingerprint fingerprint = { .take = take_handle, .give = give_handle };

	return quota_counts_contexts() && real.cuMemCreate && real.cuMemRelease &&
	       search(&held, &fingerprint);
}

bool own_row_wait(struct dev dev, uint64_t bytes, int *inout_waits)
{
	uint64_t most = BLOCKS_MOST * FINGERPRINT_BLOCK_BYTES;

	if (!atomic_load_explicit(&state.s.has_searched, memory_order_relaxed) ||
	    *inout_waits >= WAITS_MOST || bytes > bytes_sum(quota_left(dev), most))
		return false;
	(*inout_waits)++;
	clock_sleep_ns(WAIT_NS);
	return true;
}
