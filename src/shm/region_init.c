#include "shm/region_init.h"

#include "base/limits.h"
#include "shm/spec.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* A glibc sem_t as sem_init(sem, 1, 1) leaves it: value 1, shared between processes. */
static void semaphore_init(unsigned char *sem)
{
	static const struct {
		uint64_t value;
		uint32_t shared;
	} free_one = { 1, 128 };

	memset(sem, 0, 32);
	memcpy(sem, &free_one, 12);
}

/* The specification that a new region gets; NULL = what the file says. */
static const char *setup_spec(const struct region_setup *setup, enum limits_kind kind)
{
	return kind == LIMITS_MEM ? setup->mem_spec : setup->sm_spec;
}

static void store_spec(struct ration_region *o, const struct region_setup *setup,
		       enum limits_kind kind)
{
	const char *spec = setup_spec(setup, kind);

	spec_begin(o, kind);
	if (kind == LIMITS_MEM) {
		o->flags = setup->flags;
		o->resident_bytes = setup->resident_bytes;
		o->host_bytes = setup->host_bytes;
	} else {
		__atomic_store_n(&o->sm_policy, setup->sm_policy, __ATOMIC_RELAXED);
	}
	spec_end(o, kind, spec ? spec : "",
		 kind == LIMITS_MEM ? setup->mem_source : setup->sm_source);
}

/* The limits that the file holds: 0, or -EBADMSG where nobody can say what they are. */
static int check_spec(const struct region *r, enum limits_kind kind, bool is_alive,
		      struct region_error *err)
{
	if (spec_is_understood(r->own, kind))
		return 0;
	return region_file_fail(err, -EBADMSG, r->path, "holds a limit that cannot be understood",
				is_alive ? "; set it anew with `ration limit`" :
					   "; start it once with a limit, or remove it");
}

/* Whether the file's own configuration holds; of the first layout that is all but GPU time. */
static bool was_ours(enum region_content content)
{
	return content == REGION_OURS || content == REGION_TORN || content == REGION_OLDER;
}

static bool has_limit(enum region_content content, enum limits_kind kind)
{
	return was_ours(content) && !(content == REGION_OLDER && kind == LIMITS_SM);
}

/*
 * Clears all that belongs to processes and devices; not the monitor's two fields, nor the
 * configuration of a region of ours.
 */
static void clear_all(struct region *r, enum region_content content)
{
	bool has_sm = has_limit(content, LIMITS_SM);
	const size_t hint = offsetof(struct ration_region, hint);
	const size_t sm_spec = offsetof(struct ration_region, sm_spec);
	struct hami_region *h = r->hami;
	struct ration_region *o = r->own;

	memset(&h->major_version, 0,
	       offsetof(struct hami_region, utilization_switch) -
		       offsetof(struct hami_region, major_version));
	memset(&h->priority, 0, sizeof(*h) - offsetof(struct hami_region, priority));
	if (!was_ours(content))
		memset(&o->file_bytes, 0, hint - offsetof(struct ration_region, file_bytes));
	o->device_count = 0;
	memset(o->hint, 0, (has_sm ? sm_spec : sizeof(*o)) - hint);
	if (has_sm)
		memset(o->pace, 0, sizeof(*o) - offsetof(struct ration_region, pace));
	/* Who was suspended is gone. */
	o->suspend_want = RATION_RUN;
}

static void init_hami(struct hami_region *h, const struct region_setup *setup, bool keep_monitors)
{
	h->major_version = HAMI_MAJOR;
	h->minor_version = HAMI_MINOR;
	semaphore_init(h->sem);
	semaphore_init(h->sem_postinit);
	if (!keep_monitors) {
		h->utilization_switch = 1;
		h->recent_kernel = 2;
	}
	h->priority = setup->priority ? 1 : 0;
	for (int d = 0; d < HAMI_DEVICES; d++)
		h->sm_limit_pct[d] = LIMITS_SM_NONE_PCT;
}

/*
 * True when the two fields that a monitor writes are where this layout has them; `size` is the
 * file's before it was grown.
 */
static bool has_monitor_fields(const struct hami_region *h, enum region_content content, off_t size)
{
	if (was_ours(content))
		return true;
	return content != REGION_EMPTY && h->magic == HAMI_MAGIC &&
	       h->major_version == HAMI_MAJOR &&
	       (h->minor_version == HAMI_MINOR || size <= HAMI_REGION_BYTES + 1);
}

/*
 * A process may be killed anywhere in here: our magic comes first, so that the file is known for a
 * region; the layout last of our part; the HAMi magic last of all, by region_settle(), so that a
 * reader who sees it sees the rest, devices too.
 */
void region_init_write(struct region *r, const struct region_setup *setup,
		       enum region_content content, off_t size)
{
	bool keep_monitors = has_monitor_fields(r->hami, content, size);
	struct hami_region *h = r->hami;
	struct ration_region *o = r->own;

	if (!was_ours(content)) {
		o->layout = 0;
		__atomic_store_n(&o->magic, RATION_MAGIC, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&h->magic, 0, __ATOMIC_RELEASE);
	if (content != REGION_EMPTY)
		clear_all(r, content);
	init_hami(h, setup, keep_monitors);
	o->file_bytes = RATION_FILE_BYTES;
	o->devices_max = RATION_DEVICES;
	o->slots_max = HAMI_SLOTS;
	o->created_s = (uint64_t)time(NULL);
	o->generation++;
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++)
		if (setup_spec(setup, kind) || !has_limit(content, kind))
			store_spec(o, setup, kind);
	if ((setup->name && *setup->name) || !was_ours(content))
		region_copy_text(o->name, sizeof(o->name), setup->name, sizeof(o->name));
	o->name[sizeof(o->name) - 1] = '\0';
	__atomic_store_n(&o->layout, RATION_LAYOUT, __ATOMIC_RELEASE);
	r->is_new = true;
}

/*
 * True when another library's file limits nothing of a kind. The versions of HAMi-core that have
 * other words where this layout has limits may limit memory; their GPU time is not asked.
 */
static bool is_unlimited(const struct hami_region *h, enum limits_kind kind, off_t size)
{
	if (h->magic == HAMI_MAGIC && !has_monitor_fields(h, REGION_HAMI, size))
		return kind != LIMITS_MEM;
	for (int d = 0; d < HAMI_DEVICES; d++)
		if (limits_effective(kind, kind == LIMITS_MEM ? h->limit_bytes[d] :
								h->sm_limit_pct[d]) != 0)
			return false;
	return true;
}

/* What was limited by HAMi-core stays so: 0, or -EBADMSG where nothing takes its place. */
static int check_hami(const struct region *r, const struct region_setup *setup, off_t size,
		      struct region_error *err)
{
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++)
		if (!setup_spec(setup, kind) && !is_unlimited(r->hami, kind, size))
			return region_file_fail(err, -EBADMSG, r->path,
						"is HAMi-core's and may hold a limit",
						"; start it once with a limit, or remove it");
	return 0;
}

int region_init_check(const struct region *r, const struct region_setup *setup,
		      enum region_content content, off_t size, bool is_alive,
		      struct region_error *err)
{
	int rc = 0;

	for (enum limits_kind kind = 0; rc == 0 && kind < LIMITS_KINDS; kind++)
		if (is_alive || (!setup_spec(setup, kind) && has_limit(content, kind)))
			rc = check_spec(r, kind, is_alive, err);
	if (rc == 0 && content == REGION_HAMI)
		rc = check_hami(r, setup, size, err);
	return rc;
}
