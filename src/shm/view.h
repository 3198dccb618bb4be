/*
 * What a region holds, for looking at it from outside: a copy taken by pread, which no truncation
 * and no garbage in the file can hurt, and which needs no right but to read.
 */
#pragma once

#include "base/limits.h"

#include <ration/region.h>
#include <stdbool.h>
#include <stdint.h>

enum view_kind {
	VIEW_OWN,     /* a region of ours: who lives is known */
	VIEW_FOREIGN, /* written by HAMi-core: its processes are what the file says, dead or not */
};

struct view_device {
	char uuid[HAMI_UUID_BYTES];
	uint64_t limit_bytes;    /* in force; 0 = none */
	uint64_t physical_bytes; /* of the card; 0 = not known */
	uint64_t used_bytes;     /* by the living, and what descriptors hold of the dead's */
	uint64_t room_bytes;     /* of card and host memory; UINT64_MAX: of the card alone */
	unsigned sm_limit_pct;   /* in force, of GPU time, 1..99; 0 = none */
	bool is_metered;         /* its time is measured; else the next says nothing */
	unsigned busy_permille;  /* of the last second, by the tenant */
};

struct view_process {
	unsigned slot;
	int pid;                                /* in the tenant's pid namespace */
	uint64_t pid_namespace;                 /* inode of that, 0 = not known */
	uint64_t start_ticks;                   /* as base/pid.h; 0 = not known */
	char comm[16];                          /* "" = not known */
	uint64_t used_bytes[RATION_DEVICES];    /* but for what is at hand for the next */
	uint64_t card_bytes[RATION_DEVICES];    /* on the card, of what may leave it */
	uint64_t host_bytes;                    /* in host memory in place of that */
	uint64_t kept_bytes;                    /* of that, at hand with nothing in it */
	uint64_t moved_bytes;                   /* by exchanges of memory, since its start */
	enum ration_suspend suspended;          /* how far it is held */
	int suspend_rc;                         /* why it is not as far as asked: -errno, or 0 */
	bool has_answered;                      /* to what is asked now; else that is 0 */
	unsigned busy_permille[RATION_DEVICES]; /* of a second, as measured last */
	uint64_t held_ns[RATION_DEVICES]; /* its threads' waits for GPU time, since its start */
};

struct view {
	enum view_kind kind;
	bool is_held;                 /* a process has a slot, or a `ration run` stands above it */
	char name[RATION_NAME_BYTES]; /* "" = none */
	char mem_spec[RATION_SPEC_BYTES]; /* base/limits.h; "" = none */
	char mem_source[RATION_SOURCE_BYTES];
	char sm_spec[RATION_SPEC_BYTES]; /* likewise, of GPU time */
	char sm_source[RATION_SOURCE_BYTES];
	enum sm_policy sm_policy;
	bool is_sm_held;    /* its limits hold now, by the policy and what the monitor wants */
	uint64_t created_s; /* CLOCK_REALTIME; 0 = not known */
	uint32_t flags;     /* RATION_FLAG_* */
	enum ration_suspend suspend_want;
	int device_count;
	struct view_device devices[RATION_DEVICES];
	unsigned process_count;
	struct view_process *processes; /* the living ones, by slot */
	uint64_t st_dev, st_ino;        /* of the file */
};

/*
 * Reads the region at `path`; view_free() what it gives. 0, or -errno: -ENOTUNIQ for a file that is
 * no region, -ESTALE for one that is short or of a version we do not know, -ENODATA for one that is
 * empty or not finished.
 */
int view_read(const char *path, struct view *out_view);

/* Frees what view_read() allocated. */
void view_free(struct view *view);

/* True when a process or a `ration run` uses the region now. */
bool view_is_alive(const struct view *view);

/*
 * The limit of a kind in force for a device of the view, in the unit of its kind: its word in the
 * region, or what is configured where that was cleared. 0 = none.
 */
uint64_t view_limit(const struct view *view, enum limits_kind kind, int dev);

/* The limits of a kind as configured, and where they came from: mem_spec and mem_source or sm_*. */
const char *view_spec(const struct view *view, enum limits_kind kind);
const char *view_source(const struct view *view, enum limits_kind kind);

/*
 * What an allocation can still get: limit, or the card where that is smaller or nothing is limited,
 * less what is used. False when neither is known.
 */
bool view_free_bytes(const struct view_device *device, uint64_t *out_bytes);
