#include "hook/ipc_import.h"

#include "base/bytes.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/charge.h"
#include "core/gate.h"
#include "core/leaving.h"
#include "drv/capture.h"
#include "drv/gpu_vmm.h"
#include "drv/real.h"
#include "drv/status.h"
#include "hook/enter.h"
#include "hook/ipc_ask.h"
#include "hook/ipc_export.h"
#include "shm/region.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct ipc_import {
	/* constant */
	struct ipc_handle handle;
	const void *ctx;
	struct dev dev;
	struct cuda_ord ord;
	uint64_t start, bytes; /* of the mapping */
	uint64_t addr;         /* of the object in it */
	/* state.mutex */
	unsigned opens;
	bool is_charged;    /* core/charge.h knows it by its address; else the exporter is */
	bool is_in_figure;  /* the exporter has ended: the card's figure for us holds it */
	struct ipc_end end; /* the connection to the exporter */
	struct ipc_import *next;
};

struct ipc_import_state {
	pthread_mutex_t mutex;  /* zero is an unlocked one */
	struct ipc_import *all; /* mutex */
};
PROCESS_STATE(ipc_import_state, state);

void ipc_import_start(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

/* Puts one chunk behind its addresses, and says how many it took. */
static int map_chunk(int fd, uint64_t addr, uint64_t most_bytes, uint64_t *out_bytes)
{
	struct ipc_chunk chunk;
	uint64_t handle;
	int carried, rc = ipc_ask_chunk(fd, &chunk, &carried);

	if (rc < 0)
		return rc;
	if (chunk.bytes == 0 || chunk.bytes % GPU_VMM_GRAIN_BYTES || chunk.bytes > most_bytes)
		rc = -ENOENT;
	else
		rc = GATE_CALL(gpu_vmm_import(carried, &handle));
	close(carried);
	if (rc < 0)
		return rc;
	rc = GATE_CALL(gpu_vmm_map(addr, chunk.bytes, handle));
	/* The mapping keeps the memory. */
	GATE_CALL(gpu_vmm_release(handle));
	if (rc == 0)
		*out_bytes = chunk.bytes;
	return rc;
}

static void unmap(const struct ipc_import *m, uint64_t mapped_bytes)
{
	if (mapped_bytes)
		GATE_CALL(gpu_vmm_unmap(m->start, mapped_bytes));
	GATE_CALL(gpu_vmm_unreserve(m->start, m->bytes));
}

static int map_all(int fd, const struct ipc_answer *answer, struct ipc_import *m)
{
	uint64_t done_bytes = 0, bytes;
	int rc = GATE_CALL(gpu_vmm_reserve(answer->whole_bytes, 0, &m->start));

	if (rc < 0)
		return rc;
	m->bytes = answer->whole_bytes;
	m->addr = m->start + answer->offset_bytes;
	for (uint32_t i = 0; i < answer->count && rc == 0; i++) {
		rc = map_chunk(fd, m->start + done_bytes, m->bytes - done_bytes, &bytes);
		if (rc == 0)
			done_bytes += bytes;
	}
	if (rc == 0 && done_bytes != m->bytes)
		rc = -ENOENT;
	if (rc == 0)
		rc = GATE_CALL(gpu_vmm_allow(m->start, m->bytes, &m->ord, 1));
	if (rc < 0)
		unmap(m, done_bytes);
	return rc;
}

/* What another tenant is charged for is charged here too. */
static bool is_same_tenant(const struct ipc_answer *answer)
{
	const struct region *region = ipc_export_region();

	return region && answer->region_dev == region->place.st_dev &&
	       answer->region_inode == region->place.st_ino;
}

/* state.mutex. The driver's figure for this process does not hold what another made. */
static int charge_and_map(int fd, const struct ipc_answer *answer, struct ipc_import *m)
{
	struct charge c;
	int rc = charge_reserve_managed(&c, m->dev, m->ctx, answer->whole_bytes, CHARGE_AT_ONCE);

	if (rc < 0)
		return rc;
	rc = map_all(fd, answer, m);
	if (rc == 0) {
		rc = charge_commit(&c, m->addr, answer->whole_bytes);
		if (rc < 0)
			unmap(m, m->bytes);
	}
	if (rc < 0)
		charge_cancel(&c);
	m->is_charged = rc == 0;
	return rc;
}

static int map_import(struct ipc_import *m)
{
	const struct region *region = ipc_export_region();
	struct ipc_answer answer;
	int fd, rc = ipc_ask(&m->handle, region ? region->path : NULL, &fd, &answer);

	if (rc < 0)
		return rc;
	m->bytes = answer.whole_bytes;
	if (answer.whole_bytes % GPU_VMM_GRAIN_BYTES)
		rc = -ENOENT;
	else if (is_same_tenant(&answer))
		rc = map_all(fd, &answer, m);
	else
		rc = charge_and_map(fd, &answer, m);
	m->end = ipc_socket_keep(fd);
	if (rc < 0)
		ipc_ask_end(&m->end);
	return rc;
}

/* It is not mapped any more: the exporter may give the memory back. */
static void forget(struct ipc_import *m)
{
	ipc_ask_end(&m->end);
	free(m);
}

/* state.mutex */
static struct ipc_import *find_open(const struct ipc_handle *handle, const void *ctx)
{
	for (struct ipc_import *m = state.s.all; m; m = m->next)
		if (m->ctx == ctx && memcmp(&m->handle, handle, sizeof(*handle)) == 0)
			return m;
	return NULL;
}

/* state.mutex. *out_bytes: of the memory that was asked for, where it was refused. */
static int open_new(const struct ipc_handle *handle, struct dev dev, const void *ctx,
		    struct ipc_import **out_import, uint64_t *out_bytes)
{
	struct ipc_import *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return -ENOMEM;
	m->handle = *handle;
	m->ctx = ctx;
	m->dev = dev;
	rc = device_ordinal(dev, &m->ord) ? map_import(m) : -ENODEV;
	*out_bytes = m->bytes;
	if (rc < 0) {
		free(m);
		return rc;
	}
	m->next = state.s.all;
	state.s.all = m;
	*out_import = m;
	return 0;
}

static CUresult open_error(int rc, struct dev dev, uint64_t bytes)
{
	switch (rc) {
	case -ENOENT:
		return CUDA_ERROR_INVALID_HANDLE;
	case -ENOMEM:
	case -EDQUOT:
		return enter_refused(rc, dev, bytes);
	default:
		return CUDA_ERROR_MAP_FAILED;
	}
}

static int open_once(const struct ipc_handle *handle, struct dev dev, const void *ctx,
		     CUdeviceptr *out_addr, uint64_t *out_bytes)
{
	struct ipc_import *m;
	int held, rc = 0;

	held = sys_cancel_hold();
	pthread_mutex_lock(&state.s.mutex);
	m = find_open(handle, ctx);
	if (!m)
		rc = open_new(handle, dev, ctx, &m, out_bytes);
	if (rc == 0) {
		m->opens++;
		*out_addr = m->addr;
	}
	pthread_mutex_unlock(&state.s.mutex);
	sys_cancel_release(held);
	return rc;
}

CUresult ipc_import_open(const struct ipc_handle *handle, struct dev dev, const void *ctx,
			 CUdeviceptr *out_addr)
{
	uint64_t bytes = 0;
	int rc;

	if (ipc_export_is_own(handle))
		return CUDA_ERROR_INVALID_CONTEXT;
	rc = open_once(handle, dev, ctx, out_addr, &bytes);
	if (rc == -EDQUOT)
		rc = LEAVING_TRY(dev, bytes_sum(bytes, quota_kept(dev)),
				 open_once(handle, dev, ctx, out_addr, &bytes));
	return rc < 0 ? open_error(rc, dev, handle->bytes) : CUDA_SUCCESS;
}

/* state.mutex: the link to what begins there; to NULL when nothing does. */
static struct ipc_import **link_of(CUdeviceptr addr)
{
	struct ipc_import **link = &state.s.all;

	while (*link && (*link)->addr != addr)
		link = &(*link)->next;
	return link;
}

bool ipc_import_has(CUdeviceptr addr)
{
	bool is_there;

	pthread_mutex_lock(&state.s.mutex);
	is_there = *link_of(addr) != NULL;
	pthread_mutex_unlock(&state.s.mutex);
	return is_there;
}

/* All work of its context that was submitted. */
static CUresult wait_for_work(const struct ipc_import *m)
{
	CUcontext ctx = (CUcontext)(uintptr_t)m->ctx, popped;
	CUresult res = capture_any() ? GATE_CALL(enter_would_allow()) : CUDA_SUCCESS;

	if (res != CUDA_SUCCESS || !real.cuCtxPushCurrent_v2 || !real.cuCtxPopCurrent_v2 ||
	    !real.cuCtxSynchronize || real.cuCtxPushCurrent_v2(ctx) != CUDA_SUCCESS)
		return res;
	res = real.cuCtxSynchronize();
	real.cuCtxPopCurrent_v2(&popped);
	/* After an error that stays nothing runs. */
	return status_is_sticky(res) ? CUDA_SUCCESS : res;
}

CUresult ipc_import_close(CUdeviceptr addr)
{
	struct ipc_import **link, *m;
	CUresult res = CUDA_SUCCESS;
	struct track_node *node;
	bool is_last = false;
	struct dev dev;

	pthread_mutex_lock(&state.s.mutex);
	link = link_of(addr);
	m = *link;
	if (!m) {
		res = CUDA_ERROR_INVALID_VALUE;
	} else if (m->opens > 1) {
		m->opens--;
	} else {
		*link = m->next;
		m->next = NULL;
		is_last = true;
	}
	pthread_mutex_unlock(&state.s.mutex);
	if (!is_last)
		return res;
	res = wait_for_work(m);
	if (res != CUDA_SUCCESS) {
		ipc_import_put_back(m);
		return res;
	}
	node = m->is_charged ? charge_take(addr, &dev) : NULL;
	unmap(m, m->bytes);
	if (node)
		charge_end(node, dev);
	if (m->is_in_figure)
		charge_watch(m->dev);
	forget(m);
	return res;
}

struct ipc_import *ipc_import_take(const void *ctx)
{
	struct ipc_import **link = &state.s.all, *taken = NULL;

	pthread_mutex_lock(&state.s.mutex);
	while (*link) {
		struct ipc_import *m = *link;

		if (m->ctx != ctx) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		m->next = taken;
		taken = m;
	}
	pthread_mutex_unlock(&state.s.mutex);
	return taken;
}

void ipc_import_end(struct ipc_import *taken)
{
	struct ipc_import *next;

	for (; taken; taken = next) {
		next = taken->next;
		unmap(taken, taken->bytes);
		forget(taken);
	}
}

void ipc_import_put_back(struct ipc_import *taken)
{
	struct ipc_import *next;

	pthread_mutex_lock(&state.s.mutex);
	for (; taken; taken = next) {
		next = taken->next;
		taken->next = state.s.all;
		state.s.all = taken;
	}
	pthread_mutex_unlock(&state.s.mutex);
}

/* Its own charge ends. */
static void end_charge(struct ipc_import *m)
{
	struct dev dev;
	struct track_node *node = m->is_charged ? charge_take(m->addr, &dev) : NULL;

	m->is_charged = false;
	if (node)
		charge_end(node, dev);
}

/*
 * state.mutex: the exporter has ended, and this process keeps its memory: the card's figure for us
 * holds it from then on (docs/real-gpu.md). Where nobody looks at that, it is charged for itself.
 * It is tried again; until the exporter is reaped both are charged for it (shm/heir.h).
 */
static void charge_orphan(struct ipc_import *m)
{
	struct charge c;

	if (charge_may_look(m->dev)) {
		m->is_in_figure = charge_watch(m->dev) == 0;
		if (m->is_in_figure)
			end_charge(m);
		return;
	}
	if (m->is_charged ||
	    charge_reserve_managed(&c, m->dev, m->ctx, m->bytes, CHARGE_IS_THERE) < 0)
		return;
	m->is_charged = charge_commit(&c, m->addr, m->bytes) == 0;
	if (!m->is_charged)
		charge_cancel(&c);
}

void ipc_import_tick(void)
{
	pthread_mutex_lock(&state.s.mutex);
	for (struct ipc_import *m = state.s.all; m; m = m->next)
		if (!m->is_in_figure && ipc_ask_is_over(&m->end))
			charge_orphan(m);
	pthread_mutex_unlock(&state.s.mutex);
}
