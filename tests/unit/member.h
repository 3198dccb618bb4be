/*
 * A process that is a member of a tenant, with its quota: what the policy's tests stand on.
 */
#pragma once

#include "core/quota.h"
#include "shm/region.h"
#include "shm/slot.h"

#include "fresh.h"

#define MIB_BYTES(n) ((uint64_t)(n) << 20)

static const struct dev dev0 = { 0 };

struct member {
	struct region region;
	struct slot slot;
};

/* UUID of device `d` of the tests. */
static inline const char *member_uuid(int d)
{
	static __thread char text[RATION_UUID_BYTES];

	snprintf(text, sizeof(text), "GPU-%08x-2222-3333-4444-555555555555", (unsigned)d);
	return text;
}

/*
 * In a child: joins the tenant whose region is at `path`, made with `spec` and `flags` if it is
 * new, with `devices` devices of 16 GiB, and starts the quota.
 */
static inline void member_join(struct member *m, const char *path, const char *spec, uint32_t flags,
			       int devices)
{
	struct region_setup setup = { .mem_spec = spec, .mem_source = "test", .flags = flags };
	struct region_error err;

	if (region_open(path, &setup, &m->region, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		_exit(CHILD_FAILED);
	}
	for (int d = 0; d < devices; d++)
		CHECK(region_add_device(&m->region, member_uuid(d), UINT64_C(16) << 30) == d);
	CHECK(slot_claim(&m->region, &m->slot) == 0);
	region_settle(&m->region);
	quota_init(&m->region, &m->slot);
}

/* What the monitors of HAMi see of this process on device `d`. */
static inline struct hami_used *member_shown(const struct member *m, int d)
{
	return &m->region.hami->procs[m->slot.index].used[d];
}
