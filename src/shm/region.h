/*
 * The region file: open, create, check, map. ration/region.h has the layout and the words.
 */
#pragma once

#include "base/limits.h"

#include <ration/region.h>
#include <stdbool.h>
#include <stdint.h>

/* What a region is created with. Strings are borrowed for the call. */
struct region_setup {
	const char *name;       /* of the tenant; NULL or "" = none */
	const char *mem_spec;   /* base/limits.h; NULL = keep what the file says */
	const char *mem_source; /* where mem_spec came from */
	const char *sm_spec;    /* as mem_spec, of GPU time; and its source */
	const char *sm_source;
	enum sm_policy sm_policy;            /* goes with sm_spec */
	int priority;                        /* 0 high, 1 low */
	uint32_t flags;                      /* RATION_FLAG_* */
	uint64_t resident_bytes, host_bytes; /* as in struct ration_region; go with flags */
	int64_t wait_ns;                     /* for the creation lock; 0 = ten seconds */
	bool must_be_new; /* -EBUSY when a living process or keeper has the file */
};

/* Where a path is followed from: the root directory, and the mount namespace (base/pid.h). */
struct region_root {
	uint64_t st_dev, st_ino, mount_namespace;
};

/* Which file a region is, and from where its path was followed. */
struct region_place {
	uint64_t st_dev, st_ino;
	struct region_root root;
};

/* A mapped region. Not thread safe; what it points to is shared. */
struct region {
	struct hami_region *hami;
	struct ration_region *own;
	char path[4096];
	struct region_place place; /* of the file that is mapped */
	uint64_t generation;       /* of the file when it was opened */
	bool is_new; /* initialised by us: the HAMi magic comes with region_settle() */
	int fd;      /* holds the creation lock between region_open() and region_settle() */
	/* region_keep_spare()'s; the program may have closed or replaced it; -1 = none. Atomic. */
	int spare;
};

/* One line for people: what is wrong with the file, and what would be right. */
struct region_error {
	char text[512];
};

/*
 * Opens the region at `path`, creating it if it is not there, and maps it. A file whose processes
 * are all gone is initialised anew, with `setup`; one with living processes stays as it is. On
 * success the creation lock is held until region_settle(). 0 or -errno with *out_error filled:
 * -ELOOP, -EISDIR, -ENOTSUP (not a regular file), -EACCES, -EROFS, -ENOSPC, -EFBIG (file size
 * limit), -ENOTUNIQ (holds something else), -ESTALE (in use with another layout), -EBUSY,
 * -ETIMEDOUT (the creation lock), -EBADMSG (it may hold a limit that cannot be understood, and no
 * other is given).
 */
int region_open(const char *path, const struct region_setup *setup, struct region *out_region,
		struct region_error *out_error);

/*
 * After region_open() said `rc`: whether a limit that nobody could read may stand at the path.
 * False where nothing is there, or what is no region.
 */
bool region_may_hold_limit(const char *path, int rc);

/*
 * Shows a new region to the monitors (the HAMi magic is written last of all), and drops the
 * creation lock and the descriptor; the mapping stays.
 */
void region_settle(struct region *region);

/* Unmaps; after region_settle(). */
void region_close(struct region *region);

/*
 * Opens the file again: -ESTALE when the path leads to another file by now. The descriptor is
 * above 2 and close-on-exec; the caller closes it.
 */
int region_reopen(const struct region *region);

/*
 * Keeps a descriptor of the file for when its path leads nowhere (another root directory); before
 * region_settle(). It is high, close-on-exec and holds no lock.
 */
void region_keep_spare(struct region *region);

/* Closes it: somebody else will open the file for us. */
void region_drop_spare(struct region *region);

/* The spare descriptor, not to be closed, or -EBADF. Who locks by it drops each lock. */
int region_spare(const struct region *region);

/* True when the path leads to that file, or our root directory is the same as then. */
bool region_place_is(const struct region_place *place, const char *path);

/*
 * Whether who comes next will be in this region too: -ESTALE when the path leads to another file
 * by now, or the file was unlinked; -ENOENT where the path does not tell, from another root.
 */
int region_check_path(const struct region *region);

/*
 * Whether the region is still the one that was opened, before it is touched: -ESTALE when somebody
 * truncated, cleared or initialised it anew under us. A touch would be a SIGBUS, and zeros would
 * read as "no limit". Half a microsecond.
 */
int region_check(const struct region *region);

/* As region_check() of a file that is known to be as long as it was: no system call. */
int region_check_words(const struct region *region);

/*
 * For a process without a slot: as region_check(), but where the file was initialised
 * anew it is the region from now on; waits for who is at that. -ESTALE also when the path leads to
 * another file.
 */
int region_follow(struct region *region);

/* A descriptor above 2: a program with 0, 1 or 2 closed must not get ours there. Closes `fd`. */
int region_fd_up(int fd);

/*
 * Index of the device with this UUID in the region's table, entered under the creation lock if it
 * is new. -ENOSPC when the table is full.
 */
int region_add_device(struct region *region, const char *uuid, uint64_t physical_bytes);

/* Index of the device with this UUID, or -ENODEV. */
int region_find_device(const struct ration_region *own, const char *uuid);

/* Number of devices in the table, 0..RATION_DEVICES whatever the file says. */
int region_device_count(const struct ration_region *own);

/* The limit in force for device `dev`, in bytes; 0 = none. */
uint64_t region_limit(const struct hami_region *hami, const struct ration_region *own, int dev);

/* Sets the limit of device `dev`. */
void region_set_limit(struct hami_region *hami, struct ration_region *own, int dev,
		      uint64_t limit_bytes);

/*
 * The limit of GPU time that stands in the device's word, in percent: 1..99; LIMITS_SM_NONE_PCT =
 * there is none; 0 = the word was cleared, and what is configured holds.
 */
unsigned region_sm_limit(const struct hami_region *hami, const struct ration_region *own, int dev);

/* Sets the word of device `dev`: 0 is none, as 100. */
void region_set_sm_limit(struct hami_region *hami, struct ration_region *own, int dev,
			 uint64_t limit_pct);

/* The word of a kind's limit of device `dev`; 0 = none, or it was cleared. */
uint64_t region_word(const struct hami_region *hami, const struct ration_region *own,
		     enum limits_kind kind, int dev);

/* When limits of GPU time hold; a value that is none of them is SM_POLICY_FORCE. */
enum sm_policy region_sm_policy(const struct ration_region *own);

/*
 * Whether limits of GPU time hold now, by the policy and, where it leaves that to it, the monitor.
 */
bool region_sm_holds(const struct hami_region *hami, const struct ration_region *own);

/*
 * Fills a text field of `to_bytes` from at most `from_bytes` that need not be terminated, or from
 * NULL: as much as fits, and zeros behind it, one at least.
 */
void region_copy_text(char *to, size_t to_bytes, const char *from, size_t from_bytes);

/* The slot bound that views and reapers use: 0..HAMI_SLOTS whatever the file says. */
unsigned region_slot_bound(const struct hami_region *hami);

/* What is asked of the tenant now; a word that nobody could mean asks for nothing. Atomic. */
enum ration_suspend region_suspend_want(const struct ration_region *own);
