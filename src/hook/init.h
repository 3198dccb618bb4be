/*
 * How a process becomes a member of its tenant, once, at the first call that needs it.
 */
#pragma once

#include "shm/region.h"

#include <stdbool.h>

enum init_state {
	INIT_NEW = 0, /* also: a fork child that has not called yet */
	INIT_VIEW,    /* the region is mapped, for a program that only looks (NVML) */
	INIT_MEMBER,  /* it has a slot: allocations are charged */
	INIT_PASS,    /* switched off: every call goes to the driver as it came */
	INIT_FAILED,  /* the limits cannot be held: nothing is given */
};

/*
 * Makes the process a member: reads the configuration, opens the region, takes a slot. The driver
 * is initialised. Returns INIT_MEMBER, INIT_PASS or INIT_FAILED; what was wrong has been logged.
 * A call from a signal handler that interrupted it in this very thread is INIT_FAILED.
 */
enum init_state init_member(void);

/* As init_member() for a program that only looks: no slot. Also INIT_VIEW. */
enum init_state init_view(void);

/* 0 or why init_member() said INIT_FAILED: -EINVAL for the configuration, -errno for the region. */
int init_error(void);

/* The mapped region in INIT_VIEW and INIT_MEMBER. */
struct region *init_region(void);

/* True where init_member() was INIT_MEMBER in this process; one load. */
bool init_is_member(void);
