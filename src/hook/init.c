#include "hook/init.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/charge.h"
#include "core/given.h"
#include "core/handed.h"
#include "core/leaving.h"
#include "core/others.h"
#include "core/rdma.h"
#include "core/share.h"
#include "core/taken.h"
#include "core/tiles.h"
#include "drv/gpu_cuda.h"
#include "drv/real.h"
#include "drv/sample_nvml.h"
#include "hook/ipc_export.h"
#include "hook/ipc_import.h"
#include "hook/metering.h"
#include "hook/movable.h"
#include "hook/signals.h"
#include "shm/residency.h"
#include "shm/spec.h"
#include "shm/wanted.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ATTACH_WAIT_NS (30 * NSEC_PER_SEC)
/* For a creation lock for which a long wait was in vain. */
#define AGAIN_WAIT_NS (50 * NSEC_PER_MSEC)
enum { DEVICES_MAX = 64 };

/* atexit() without start files wants the library's handle for itself. */
extern void *__dso_handle __attribute__((visibility("hidden")));
void *__dso_handle = &__dso_handle;

struct init_process {
	_Atomic unsigned state;     /* enum init_state; atomic */
	_Atomic unsigned owner_tid; /* of the thread that attaches, 0: none; a futex */
	/* Written by the owner, constant after. */
	int error;
	struct region region[2]; /* of a viewer, of a member: threads may still look at the first */
	struct slot slot;
	struct conf conf;
	struct device_info listed[DEVICES_MAX], own[DEVICES_MAX];
	int listed_count, own_count;
	bool has_waited
		[2]; /* in vain for the creation lock, as a viewer, as a member; the owner's */
};
PROCESS_STATE(init_process, process);

static struct {
	_Atomic bool has_exit_handler; /* once for a program and its fork children */
	/* The region that the program has first found; its children look for no other elsewhere. */
	_Atomic unsigned known; /* enum known; orders the rest */
	struct region_place place;
} program;

enum known { KNOWN_NONE, KNOWN_BEGUN, KNOWN_PLACE };

/* At a normal exit the monitors see the slot free at once; its bytes go at the next reap. */
static void leave(void)
{
	if (atomic_load(&process.s.state) != INIT_MEMBER)
		return;
	quota_leave();
}

/* A setuid program follows nobody's environment. */
static const char *environment(const char *name)
{
	return secure_getenv(name);
}

/*
 * The directory that HAMi-core makes for itself where no path is given. Where it cannot be made the
 * region stands where it does without a pod.
 */
static void make_pod_directory(struct conf *conf)
{
	char *end = strrchr(conf->region_path, '/');
	int rc;

	*end = '\0';
	rc = mkdir(conf->region_path, 0777);
	if (rc == 0)
		chmod(conf->region_path, 0777);
	if (rc == 0 || errno == EEXIST) {
		*end = '/';
		return;
	}
	log_warn("%s cannot be made (%m); the region is " CONF_DEFAULT_REGION, conf->region_path);
	strcpy(conf->region_path, CONF_DEFAULT_REGION);
	conf->region_is_default = true;
}

/*
 * The directory of a tenant of `ration run` goes when nobody lives in it. A program that comes
 * later has the limit all the same.
 */
static void make_tenant_directory(char *region_path)
{
	static const char suffix[] = ".tenant/";
	char *end = strrchr(region_path, '/');

	if (!end || end - region_path < (ptrdiff_t)sizeof(suffix) ||
	    strncmp(end + 2 - sizeof(suffix), suffix, sizeof(suffix) - 1) != 0)
		return;
	*end = '\0';
	if (mkdir(region_path, 0711) == 0)
		chmod(region_path, 0711);
	*end = '/';
}

static int open_region(struct init_process *p, bool is_member, struct region_error *err)
{
	struct conf *c = &p->conf;
	struct region_setup setup = {
		.name = c->name,
		.mem_spec = c->mem_spec[0] ? c->mem_spec : NULL,
		.mem_source = c->mem_source,
		.sm_spec = c->sm_spec[0] ? c->sm_spec : NULL,
		.sm_source = c->sm_source,
		.sm_policy = c->sm_policy,
		.priority = c->priority,
		.flags = conf_region_flags(c),
		.resident_bytes = c->resident_bytes,
		.host_bytes = c->host_bytes,
		.wait_ns = p->has_waited[is_member] ? AGAIN_WAIT_NS : 0,
	};
	int rc;

	if (c->region_is_pod)
		make_pod_directory(c);
	else
		make_tenant_directory(c->region_path);
	rc = region_open(c->region_path, &setup, &p->region[is_member], err);
	p->has_waited[is_member] = rc == -ETIMEDOUT;
	return rc;
}

/*
 * Asks for the devices there are: all of the container's, by NVML, and this process's own. Before
 * the region is locked: the driver may take its time.
 */
static int find_devices(struct init_process *p, bool is_member)
{
	p->listed_count = sample_nvml_devices(p->listed, DEVICES_MAX);
	p->own_count = is_member ? gpu_cuda_devices(p->own, DEVICES_MAX) : 0;
	if (p->own_count >= 0)
		return 0;
	log_error("the driver does not say which devices there are");
	return p->own_count;
}

/* Every device that a limit names must be there. */
static int check_specs(const struct region *region, bool is_complete)
{
	struct limits_error err;
	int rc = 0;

	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++) {
		if (device_check_spec(region, kind, &err) == 0)
			continue;
		/* Without NVML's list there may be devices that this process does not see. */
		log_at(is_complete ? LOG_ERROR : LOG_WARN, "%s: %s", spec_source(region->own, kind),
		       err.text);
		if (is_complete)
			rc = -EINVAL;
	}
	return rc;
}

static int enter_devices(struct init_process *p, struct region *region, bool is_member)
{
	bool is_complete = p->listed_count > 0;
	int rc;

	device_enter(region, p->listed, is_complete ? p->listed_count : 0, p->own, p->own_count);
	rc = is_member ? device_bind(region, p->own, p->own_count) : 0;
	if (rc < 0) {
		log_error("the devices cannot be entered in the region: %s", strerror(-rc));
		return rc;
	}
	return check_specs(region, is_complete);
}

/* Says once what the operator may not have meant. */
static void warn_of_limits(const struct region *r)
{
	for (int d = 0; d < region_device_count(r->own); d++) {
		uint64_t limit = region_limit(r->hami, r->own, d);
		uint64_t physical = r->own->devices[d].physical_bytes;

		if (limit && physical && limit > physical && !residency_is_oversubscribed(r->own))
			log_warn("%s: %llu MiB for device %d is more than its %llu MiB: the card's "
				 "size holds",
				 r->own->mem_source, (unsigned long long)(limit >> 20), d,
				 (unsigned long long)(physical >> 20));
	}
}

static int take_slot(struct region *region, struct slot *slot)
{
	int rc = slot_claim(region, slot);

	if (rc == -EUSERS)
		log_error("region %s: all %d slots are taken by living processes", region->path,
			  HAMI_SLOTS);
	else if (rc < 0)
		log_error("region %s: no slot (%s)", region->path, strerror(-rc));
	return rc;
}

static const struct others_ops others_ops = { sample_nvml_card_free, sample_nvml_rows };

static enum init_state join(struct init_process *p, struct region *region, bool is_member)
{
	int rc = enter_devices(p, region, is_member);

	if (rc == 0 && is_member)
		rc = take_slot(region, &p->slot);
	/* Until the worker has the root directory that the path is from. */
	if (rc == 0 && is_member)
		region_keep_spare(region);
	region_settle(region);
	if (rc < 0) {
		region_close(region);
		p->error = rc;
		return INIT_FAILED;
	}
	if (!is_member)
		return INIT_VIEW;
	quota_init(region, &p->slot);
	wanted_start(region->path);
	leaving_init(region);
	others_init(region, p->slot.index, &others_ops);
	share_init(region);
	charge_init(&gpu_cuda_ops);
	tiles_init();
	handed_init(region, p->slot.index);
	given_init(region, p->slot.index);
	taken_init(region, p->slot.index);
	if (device_ordinals() > 0 && !gpu_cuda_primary_active((struct cuda_ord){ 0 }))
		sample_nvml_check_pids(region->own->devices[0].uuid);
	metering_init(region);
	rdma_start(p->conf.may_move_rdma);
	ipc_export_start(region);
	ipc_import_start();
	rc = movable_start(region);
	if (rc < 0) {
		p->error = rc;
		return INIT_FAILED;
	}
	if (p->conf.has_signals && movable_is_on())
		signals_start();
	warn_of_limits(region);
	if (!atomic_exchange(&program.has_exit_handler, true))
		atexit(leave);
	return INIT_MEMBER;
}

/*
 * False where the program has changed its root directory or its mount namespace since it, or its
 * parent, has found its region, and the path leads to no such file there: another would be its
 * limit once more.
 */
static bool may_open(const char *path)
{
	return atomic_load(&program.known) != KNOWN_PLACE || region_place_is(&program.place, path);
}

static void know(const struct region *region)
{
	unsigned none = KNOWN_NONE;

	if (!atomic_compare_exchange_strong(&program.known, &none, KNOWN_BEGUN))
		return;
	program.place = region->place;
	atomic_store(&program.known, KNOWN_PLACE);
}

/* True when nobody set a limit: none is configured, and there is no file that may hold one. */
static bool is_unlimited(const struct conf *c, int rc)
{
	return c->region_is_default && !c->mem_spec[0] && !c->sm_spec[0] &&
	       atomic_load(&program.known) == KNOWN_NONE &&
	       !region_may_hold_limit(c->region_path, rc);
}

static enum init_state attach(struct init_process *p, bool is_member)
{
	struct region *region = &p->region[is_member];
	bool was_said = p->has_waited[is_member];
	struct region_error err;
	int rc = conf_load(&p->conf, CONF_FILE, environment);

	log_set_level(p->conf.log);
	if (p->conf.disabled)
		return INIT_PASS;
	if (rc < 0) {
		log_error("%s", p->conf.error);
		p->error = rc;
		return INIT_FAILED;
	}
	rc = find_devices(p, is_member);
	if (rc < 0) {
		p->error = rc;
		return INIT_FAILED;
	}
	if (!may_open(p->conf.region_path)) {
		log_error("region %s: the program has changed its root directory or mount "
			  "namespace, and from there it is not the file it was; choose a path "
			  "that leads to it",
			  p->conf.region_path);
		p->error = -ESTALE;
		return INIT_FAILED;
	}
	rc = open_region(p, is_member, &err);
	if (rc == 0) {
		know(region);
		return join(p, region, is_member);
	}
	if (is_unlimited(&p->conf, rc)) {
		log_warn("%s; no limit is set, so none is held", err.text);
		return INIT_PASS;
	}
	if (rc != -ETIMEDOUT || !was_said)
		log_error("%s", err.text);
	p->error = rc;
	return INIT_FAILED;
}

/*
 * As attach(); a lock that was busy for too long is no answer for ever: the next call tries again.
 */
static unsigned attach_once(struct init_process *p, bool is_member)
{
	unsigned before = atomic_load(&p->state), state = attach(p, is_member);
	bool is_passing = state == INIT_FAILED && p->error == -ETIMEDOUT;

	/* Pairs with the loads in reach() and init_is_member(). */
	atomic_store_explicit(&p->state, is_passing ? before : state, memory_order_release);
	return state;
}

/* True when `state` is an answer to who wants to be a member or only to look. */
static bool is_settled(unsigned state, bool is_member)
{
	return state == INIT_MEMBER || state == INIT_PASS || state == INIT_FAILED ||
	       (state == INIT_VIEW && !is_member);
}

static enum init_state reach(bool is_member)
{
	struct init_process *p = &process.s;
	unsigned me, owner, state;
	int64_t end_ns;
	int held;

	process_check();
	state = atomic_load_explicit(&p->state, memory_order_acquire);
	if (is_settled(state, is_member))
		return state;
	me = (unsigned)sys_gettid();
	end_ns = clock_now_ns() + ATTACH_WAIT_NS;
	/* Before anything is written: a child forked in the midst of it must find it new. */
	process_wipe_on_fork(&process, sizeof(process));
	held = sys_cancel_hold();
	for (;;) {
		owner = 0;
		if (atomic_compare_exchange_strong(&p->owner_tid, &owner, me))
			break;
		/* Ourselves: a signal handler in the midst of it. */
		if (owner == me || clock_now_ns() >= end_ns) {
			sys_cancel_release(held);
			return INIT_FAILED;
		}
		sys_futex_wait(&p->owner_tid, owner, 100 * NSEC_PER_MSEC);
	}
	state = atomic_load_explicit(&p->state, memory_order_acquire);
	if (!is_settled(state, is_member))
		state = attach_once(p, is_member);
	atomic_store(&p->owner_tid, 0);
	sys_futex_wake_all(&p->owner_tid);
	sys_cancel_release(held);
	return state;
}

enum init_state init_member(void)
{
	return reach(true);
}

enum init_state init_view(void)
{
	return reach(false);
}

int init_error(void)
{
	return process.s.error ? process.s.error : -EAGAIN;
}

struct region *init_region(void)
{
	return &process.s.region[init_is_member()];
}

bool init_is_member(void)
{
	return atomic_load_explicit(&process.s.state, memory_order_acquire) == INIT_MEMBER;
}
