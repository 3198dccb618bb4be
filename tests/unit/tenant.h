/*
 * A region for tests that are about something else: opened, entered, left.
 */
#pragma once

#include "shm/region.h"
#include "shm/slot.h"

#include "child.h"
#include "scratch.h"

#define TENANT_UUID "GPU-11111111-2222-3333-4444-555555555555"

/* Opens the region without the creation lock held after; `spec` may be NULL. */
static inline void tenant_open(struct region *r, const char *path, const char *spec)
{
	struct region_setup setup = { .mem_spec = spec, .mem_source = "test", .priority = 1 };
	struct region_error err;

	if (region_open(path, &setup, r, &err) < 0)
		fail_msg("%s", err.text);
	region_settle(r);
}

/* In a child: opens the region, enters device 0 and takes a slot. */
static inline void tenant_join(struct region *r, struct slot *slot, const char *path)
{
	struct region_setup setup = { .priority = 1 };
	struct region_error err;

	if (region_open(path, &setup, r, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		_exit(CHILD_FAILED);
	}
	CHECK(region_add_device(r, TENANT_UUID, UINT64_C(16) << 30) == 0);
	CHECK(slot_claim(r, slot) == 0);
	region_settle(r);
}

/* 1 when slot `index` is alive, as another process of the tenant sees it. */
static inline int tenant_alive(const struct region *r, unsigned index)
{
	int fd = region_reopen(r);
	int alive;

	assert_true(fd >= 0);
	alive = slot_alive(fd, index);
	close(fd);
	return alive;
}
