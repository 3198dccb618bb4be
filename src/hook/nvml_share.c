#include "hook/nvml_share.h"

#include "base/bytes.h"
#include "base/conf.h"
#include "base/limits.h"
#include "base/pid.h"
#include "base/sys.h"
#include "core/charge.h"
#include "core/root.h"
#include "drv/gpu_tiles.h"
#include "drv/sample_nvml.h"
#include "hook/init.h"
#include "shm/kept.h"
#include "shm/residency.h"
#include "shm/spec.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES_MAX = 64 };

/* The head of this library as it is mapped; the linker knows where. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

nvmlReturn_t nvml_share_missing(void)
{
	return real_find(REAL_NVML) ? NVML_ERROR_FUNCTION_NOT_FOUND : NVML_ERROR_LIBRARY_NOT_FOUND;
}

/* True when `at` lies in this library's code. */
static bool is_own(uintptr_t at)
{
	uintptr_t base = (uintptr_t)&__ehdr_start;
	const ElfW(Phdr) *p = (const void *)(base + __ehdr_start.e_phoff);

	for (int i = 0; i < __ehdr_start.e_phnum; i++)
		if (p[i].p_type == PT_LOAD && (p[i].p_flags & PF_X) &&
		    at - base - p[i].p_vaddr < p[i].p_memsz)
			return true;
	return false;
}

bool nvml_share_is_inner(const void *return_address)
{
	return real_owns(return_address) || is_own((uintptr_t)return_address);
}

/* The region's device of this name as a member knows it without looking there; negative: none. */
static int member_device(const char *uuid)
{
	for (int d = 0; d < RATION_DEVICES; d++)
		if (!strncmp(quota_uuid((struct dev){ d }), uuid, RATION_UUID_BYTES))
			return d;
	return -ENODEV;
}

/*
 * The region's device behind an NVML handle, or negative. A region that is cut short is not
 * touched.
 */
static int device_of(nvmlDevice_t dev, const struct region *region, bool is_whole)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];

	if (!real.nvmlDeviceGetUUID ||
	    real.nvmlDeviceGetUUID(dev, uuid, sizeof(uuid)) != NVML_SUCCESS)
		return -ENODEV;
	if (is_whole)
		return region_find_device(region->own, uuid);
	return init_is_member() ? member_device(uuid) : -ENODEV;
}

/* As quota_limit() for a process that only looks. */
static uint64_t viewer_limit(const struct region *region, int d)
{
	uint64_t limit = region_limit(region->hami, region->own, d);
	char spec[RATION_SPEC_BYTES];
	uint32_t change;

	/* A word that was cleared does not lift a limit that was configured. */
	if (limit == 0 && spec_read(region->own, LIMITS_MEM, spec, &change) == 0)
		limit = limits_for_device(LIMITS_MEM, spec, d, region->own->devices[d].uuid);
	return limit;
}

/* Whether the region can be looked at. Who has no slot follows it when it is initialised anew. */
static bool is_whole(struct region *region)
{
	int held, rc;

	if (init_is_member())
		return region_check(region) == 0;
	held = sys_cancel_hold();
	rc = region_follow(region);
	sys_cancel_release(held);
	return rc == 0;
}

/* The limit, and where it is known no more than the card gives. */
static uint64_t total_of(const struct region *region, int d, bool is_region_whole, uint64_t limit)
{
	uint64_t physical = is_region_whole ? region->own->devices[d].physical_bytes : 0;

	if (is_region_whole && residency_is_oversubscribed(region->own))
		return limit;
	return physical ? bytes_least(limit, physical) : limit;
}

/* Adds the region's device behind the handle. False when there is none, or it has no limit. */
static bool add_share(nvmlDevice_t dev, const struct region *region, bool is_region_whole,
		      struct nvml_share *inout)
{
	int d = device_of(dev, region, is_region_whole);
	uint64_t limit;

	if (d < 0)
		return false;
	limit = init_is_member() ? quota_limit((struct dev){ d }) : viewer_limit(region, d);
	if (is_region_whole && residency_is_oversubscribed(region->own))
		inout->own = region->own;
	inout->devs |= UINT32_C(1) << d;
	inout->total_bytes = bytes_sum(inout->total_bytes,
				       total_of(region, d, is_region_whole, limit));
	return limit > 0;
}

/* Adds the slices of a card. False when it has none, or one without a limit. */
static bool add_slices(nvmlDevice_t card, const struct region *region, bool is_region_whole,
		       struct nvml_share *inout)
{
	unsigned most = 0;

	if (!real.nvmlDeviceGetMaxMigDeviceCount || !real.nvmlDeviceGetMigDeviceHandleByIndex ||
	    real.nvmlDeviceGetMaxMigDeviceCount(card, &most) != NVML_SUCCESS)
		return false;
	for (unsigned i = 0; i < most; i++) {
		nvmlDevice_t slice;

		if (real.nvmlDeviceGetMigDeviceHandleByIndex(card, i, &slice) == NVML_SUCCESS &&
		    !add_share(slice, region, is_region_whole, inout))
			return false;
	}
	return inout->devs != 0;
}

bool nvml_share_find(nvmlDevice_t dev, struct nvml_share *out)
{
	enum init_state state = init_view();
	struct nvml_share share = { 0 };
	struct region *region;
	bool is_region_whole;

	if (state != INIT_VIEW && state != INIT_MEMBER)
		return false;
	region = init_region();
	is_region_whole = is_whole(region);
	/* A card that is divided is not in the region: its slices are. */
	if (!add_share(dev, region, is_region_whole, &share) &&
	    (share.devs || !add_slices(dev, region, is_region_whole, &share)))
		return false;
	*out = share;
	return true;
}

/*
 * The place of the device in NVML's list, which is that of the region; negative: it is not there.
 */
static int index_of(const char *uuid)
{
	struct device_info listed[DEVICES_MAX];
	int count = sample_nvml_devices(listed, DEVICES_MAX);

	for (int d = 0; d < count; d++)
		if (!strcmp(listed[d].uuid, uuid))
			return d;
	return -ENODEV;
}

static const char *environment(const char *name)
{
	return secure_getenv(name);
}

bool nvml_share_is_unknown(nvmlDevice_t dev, uint64_t *out_limit_bytes)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	enum init_state state = init_view();
	struct conf conf;

	/* A member keeps what it knew of its limit. */
	if (state != INIT_FAILED && !(state == INIT_VIEW && !is_whole(init_region())))
		return false;
	*out_limit_bytes = 0;
	if (conf_load(&conf, CONF_FILE, environment) == 0 && real.nvmlDeviceGetUUID &&
	    real.nvmlDeviceGetUUID(dev, uuid, sizeof(uuid)) == NVML_SUCCESS)
		*out_limit_bytes = limits_for_device(LIMITS_MEM, conf.mem_spec, index_of(uuid),
						     uuid);
	return true;
}

/* What a process that only looks sees as used, dead processes' bytes taken off. */
static uint64_t viewer_used(struct region *region, int d)
{
	const uint64_t *total = &region->own->accounts[d].total_bytes;
	int held;

	if (__atomic_load_n(total, __ATOMIC_RELAXED) > 0) {
		held = sys_cancel_hold();
		slot_reap(region, -1);
		sys_cancel_release(held);
	}
	return __atomic_load_n(total, __ATOMIC_RELAXED);
}

static uint64_t member_used(struct dev dev)
{
	gpu_tiles_settle();
	charge_settle(dev);
	quota_settle(dev);
	return quota_used(dev);
}

uint64_t nvml_share_idle_bytes(const struct nvml_share *share)
{
	struct region *region = init_region();
	uint64_t bytes = 0;

	/* It may have gone since the share was found. */
	if (!is_whole(region))
		return 0;
	for (int d = 0; d < RATION_DEVICES; d++)
		if (share->devs >> d & 1)
			bytes = bytes_sum(bytes, residency_idle_but(region->own, HAMI_SLOTS, d));
	return bytes;
}

uint64_t nvml_share_used_bytes(const struct nvml_share *share)
{
	bool is_member = init_is_member();
	uint64_t bytes = 0;

	for (int d = 0; d < RATION_DEVICES; d++)
		if (share->devs >> d & 1)
			bytes = bytes_sum(bytes, is_member ? member_used((struct dev){ d }) :
							     viewer_used(init_region(), d));
	return bytes_beyond(bytes, nvml_share_idle_bytes(share));
}

uint64_t nvml_share_kept_bytes(const struct nvml_share *share)
{
	const struct region *region = init_region();
	uint64_t bytes = 0;

	if (region_check(region) < 0)
		return 0;
	for (int d = 0; d < RATION_DEVICES; d++)
		if (share->devs >> d & 1 && kept_is(region->own, d))
			bytes += QUOTA_KEPT_BYTES;
	return bytes;
}

/* Whether the owner of slot i lives. Without a descriptor its pid alone has to tell. */
static bool lives(const struct region *r, int fd, unsigned i)
{
	const struct ration_slot *s = &r->own->slots[i];

	/* We do, also where the program has closed the descriptor that holds our slot. */
	if (init_is_member() && i == quota_slot())
		return true;
	if (fd < 0)
		return !occupant_seems_dead(s);
	return slot_is_had(s, slot_alive(fd, i) != 0);
}

/*
 * The pid of slot i's owner as it is known here; 0 when nobody has the slot, or it has none here.
 */
static unsigned pid_of(const struct ration_slot *s, uint64_t namespace)
{
	/* Pairs with the owner's store: with the pid the rest of the slot is there. */
	uint32_t pid = __atomic_load_n(&s->pid, __ATOMIC_ACQUIRE);

	if (pid == 0 || !s->pid_namespace || !namespace || s->pid_namespace == namespace)
		return pid;
	return (unsigned)pid_here((int)pid, s->pid_namespace, s->start_ticks);
}

/* But for what is at hand with nothing in it. */
static uint64_t used_by(const struct region *r, unsigned i, int d)
{
	uint64_t bytes = __atomic_load_n(&r->own->slots[i].used_bytes[d], __ATOMIC_RELAXED);

	return bytes_beyond(bytes, residency_idle(r->own, i, d));
}

/* Fills *out from slot i. False when it is nobody's, or nobody's that can be named here. */
static bool read_member(const struct region *r, uint32_t devs, unsigned i, uint64_t namespace,
			struct nvml_member *out)
{
	const struct ration_slot *s = &r->own->slots[i];
	int32_t host_pid = __atomic_load_n(&r->hami->procs[i].hostpid, __ATOMIC_RELAXED);

	out->pid = pid_of(s, namespace);
	out->driver_pid = host_pid > 0 ? (unsigned)host_pid : out->pid;
	out->used_bytes = 0;
	for (int d = 0; d < RATION_DEVICES; d++)
		if (devs >> d & 1)
			out->used_bytes = bytes_sum(out->used_bytes, used_by(r, i, d));
	return out->pid != 0;
}

static int reopen(void *arg)
{
	return region_reopen(arg);
}

/* The region is whole: its living members. */
static int read_members(const struct region *r, uint32_t devs, struct nvml_member *list)
{
	int fd = root_do(reopen, (void *)(uintptr_t)r), count = 0;
	uint64_t namespace = pid_namespace();

	/* By the hints: proc_num is in reach of others and must hide nobody. */
	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		if (__atomic_load_n(&r->own->hint[i], __ATOMIC_RELAXED) && lives(r, fd, i) &&
		    read_member(r, devs, i, namespace, &list[count]))
			count++;
	if (fd >= 0)
		close(fd);
	return count;
}

int nvml_share_members(const struct nvml_share *share, struct nvml_member **out)
{
	const struct region *r = init_region();
	struct nvml_member *list = calloc(HAMI_SLOTS, sizeof(*list));
	int held, count = 0;

	if (!list)
		return -ENOMEM;
	held = sys_cancel_hold();
	if (region_check(r) == 0)
		count = read_members(r, share->devs, list);
	sys_cancel_release(held);
	*out = list;
	return count;
}

const struct nvml_member *nvml_share_named(const struct nvml_member *list, int count,
					   unsigned driver_pid)
{
	for (int i = 0; i < count; i++)
		if (list[i].driver_pid == driver_pid)
			return &list[i];
	return NULL;
}
