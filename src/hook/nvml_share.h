/*
 * The tenant's part of a device, for NVML's views, and who calls them.
 *
 * NVML calls its own exported functions through its PLT and so lands in our hooks; these calls must
 * get the real function's answer. They are known by the return address, so a file of hooks is
 * compiled without tail calls: a jump to the real function would lose it.
 */
#pragma once

#include "drv/real.h"

#include <ration/region.h>

_Static_assert(RATION_DEVICES <= 32, "a bit for each in nvml_share.devs");

/* True when NVML has `sym`; looks for the library first if nobody has yet. */
#define NVML_SHARE_HAS(sym) (real.sym || (real_find(REAL_NVML) && real.sym))

/* What a hook answers when there is no NVML, or it lacks the function. */
nvmlReturn_t nvml_share_missing(void);

/*
 * True when a hook's return address lies in a driver library, or in this one: there it was reached
 * by a jump out of the function that we called.
 */
bool nvml_share_is_inner(const void *return_address);

/*
 * A device on which a limit is in force; or a card that is divided into slices, each with a limit:
 * then what is said of it is the sum over them.
 */
struct nvml_share {
	uint32_t devs;        /* one bit per index in the region's table */
	uint64_t total_bytes; /* the limit, but no more than CUDA's total where that is known */
	/* Oversubscribed: that bound is none, and what the card has free is not all. Else NULL. */
	const struct ration_region *own;
};

/* False when the device is not the tenant's, or it or a slice of it has no limit. */
bool nvml_share_find(nvmlDevice_t dev, struct nvml_share *out_share);

/*
 * Where the region cannot be looked at, or for who only looks is not the one any more that it was,
 * nobody knows the limit or what is held: true, with what is configured for the device (0: nothing
 * that is known). What is shown then is no more than that.
 */
bool nvml_share_is_unknown(nvmlDevice_t dev, uint64_t *out_limit_bytes);

/* What the tenant's living processes hold of the device. */
uint64_t nvml_share_used_bytes(const struct nvml_share *share);

/* What of the rest is kept back (shm/kept.h): no allocation but a small one gets it. */
uint64_t nvml_share_kept_bytes(const struct nvml_share *share);

/* A living process of the tenant. */
struct nvml_member {
	unsigned pid; /* in this process's pid namespace */
	/* As NVML names it: the host's pid where that is known, else the same. */
	unsigned driver_pid;
	uint64_t used_bytes; /* of the device */
};

/*
 * The living processes of the tenant, also those that hold nothing of the device; those that have
 * no pid in our namespace are left out. The caller frees the list. Their number, or -ENOMEM.
 */
int nvml_share_members(const struct nvml_share *share, struct nvml_member **out_list);

/* The one that NVML names so; NULL when it is none of the tenant's. */
const struct nvml_member *nvml_share_named(const struct nvml_member *list, int count,
					   unsigned driver_pid);
