/*
 * The region: a tenant's shared-memory file.
 *
 * A tenant is everything that shares one region: one container, one `ration run`. Every process of
 * the tenant that uses a GPU maps the file, takes a slot in it and charges the device memory it
 * gets to its slot and to the device's account.
 *
 *   byte 0         struct hami_region    the HAMi layout 1.2, which the monitors of HAMi, Volcano
 *                                        and KAI read (they never write but two fields)
 *   byte 2011136   struct ration_region  what is Ration's own
 *
 * Words
 *   device   a GPU or a MIG slice, known by its UUID. `dev` is its index in this file.
 *   slot     a process's place. Slot n is procs[n] in the HAMi part and slots[n] in ours.
 *   charge   bytes counted against the tenant's limit on a device.
 *
 * Invariants
 *   account[dev].total <= limit whenever a reserve succeeds, and == the sum of the slots' bytes.
 *   A slot is alive <=> its byte (RATION_LOCK_SLOT + n) is locked; the kernel drops the lock with
 *   the process. (Where a descriptor has to hold it, by_descriptor, the program may close that and
 *   a fork child may keep it: there `lifeline` decides, or a living or dead owner of our own pid
 *   namespace.)
 *   The owner changes its slot and nobody else; who takes a slot or reaps it has its
 *   RATION_LOCK_REAP meanwhile.
 *   Creation, attaching and changes of the device table, mem_spec and sm_spec happen under the
 *   byte range [0, HAMI_REGION_BYTES), the range that HAMi-core locks too.
 *   The file is never truncated, shrunk, renamed over or unlinked while a slot is alive; the magic
 *   numbers are written last. Nothing read from the file is used as an index or a length unchecked.
 *
 * Reading (a monitor): map read-only, check both magics, sizes and `layout`, then read single
 * aligned words. To see whether slot n is alive, ask F_OFD_GETLK for its byte. Bytes of one slot
 * that must fit together are read under its seqlock:
 *
 *   do {
 *           seq = load_acquire(&procs[n].seqlock);
 *           copy = procs[n].used[dev];
 *           acquire_fence();            so that no load of the copy comes after the next
 *   } while ((seq & 1) || load(&procs[n].seqlock) != seq);   with a bound on the tries
 *
 * Change rules: offsets below HAMI_REGION_BYTES never change. In our part a new field takes the
 * place of a `reserved` one and is 0 in older files; anything else raises RATION_LAYOUT.
 */
#ifndef RATION_REGION_H
#define RATION_REGION_H

#include <ration/pace.h>
#include <stddef.h>
#include <stdint.h>

#define HAMI_MAGIC 19920718
#define HAMI_REGION_BYTES 2008952
#define HAMI_MAJOR 1
#define HAMI_MINOR 2

#define RATION_MAGIC UINT64_C(0x31304e4f49544152) /* "RATION01" */
#define RATION_LAYOUT 4
#define RATION_OFFSET 2011136

/*
 * Lock bytes, far above the range that HAMi-core locks (0..2008951): slot n's life, the keeper's,
 * and the right to take or to reap slot n, which is had before its life is looked at.
 */
#define RATION_LOCK_SLOT ((int64_t)1 << 40)
#define RATION_LOCK_KEEPER (((int64_t)1 << 40) + 65536)
#define RATION_LOCK_REAP (((int64_t)1 << 40) + 131072)
/* Had by who has a tenant suspended or resumed, from the first look to the last. */
#define RATION_LOCK_STEER (((int64_t)1 << 40) + 196608)

enum {
	HAMI_DEVICES = 16,
	HAMI_SLOTS = 1024,
	HAMI_UUID_BYTES = 96,
	RATION_DEVICES = 32,
	RATION_UUID_BYTES = 48,
	RATION_NAME_BYTES = 64,
	RATION_SPEC_BYTES = 2048,
	RATION_SOURCE_BYTES = 128,
};

enum hami_status { HAMI_FREE = 0, HAMI_RUNNING = 1, HAMI_SUSPENDED = 2 };

/* Bytes a process holds on a device. total >= context + module + data at every instant. */
struct hami_used {
	uint64_t context_bytes;
	uint64_t module_bytes;
	uint64_t data_bytes;
	uint64_t offset_bytes;
	uint64_t total_bytes;
	uint64_t unused[3];
};

struct hami_util {
	uint64_t dec_pct;
	uint64_t enc_pct;
	uint64_t sm_pct;
	uint64_t unused[3];
};

/* Written by the slot's owner alone; atomic words, no field fits another without the seqlock. */
struct hami_slot {
	int32_t pid; /* in the container's namespace; 0 = free */
	int32_t hostpid;
	struct hami_used used[HAMI_DEVICES];
	uint64_t monitorused_bytes[HAMI_DEVICES];
	struct hami_util util[HAMI_DEVICES];
	int32_t status; /* enum hami_status */
	int32_t pad;
	uint64_t seqlock; /* odd while the owner writes */
	uint64_t unused[2];
};

struct hami_region {
	int32_t magic; /* HAMI_MAGIC, written last */
	uint32_t major_version;
	uint32_t minor_version;
	int32_t sm_init_flag;
	uint64_t owner_pid;
	unsigned char sem[32]; /* a process-shared sem_t of HAMi-core's; ours to initialise only */
	uint64_t device_num;
	char uuids[HAMI_DEVICES][HAMI_UUID_BYTES];
	uint64_t limit_bytes[HAMI_DEVICES];  /* 0 = none; may be changed while in use */
	uint64_t sm_limit_pct[HAMI_DEVICES]; /* likewise; >= 100 = none; 0 = what sm_spec says */
	struct hami_slot procs[HAMI_SLOTS];
	int32_t proc_num;           /* slots 0 .. proc_num-1 may be in use */
	int32_t utilization_switch; /* the monitor's: 1 = hold the SM limit */
	int32_t recent_kernel;      /* the monitor's and ours: < 0 = hold every launch */
	int32_t priority;           /* 0 high, 1 low */
	int64_t last_kernel_time_s;
	unsigned char sem_postinit[32];
};

/*
 * One device's sum over all slots. Both words change together, by one 128-bit compare-and-swap;
 * a plain load of total_bytes is fine for looking.
 */
struct ration_account {
	_Alignas(64) uint64_t total_bytes;
	uint64_t last; /* slot << 48 | seq: whose operation made it so */
	uint64_t reserved[6];
};

/*
 * One slot's part of one account. An operation numbered q of slot s took place if and only if
 * account.last == (s, q) or done >= q. The slot's bytes are after[seq & 1] if operation seq took
 * place, after[~seq & 1] if not.
 */
struct ration_entry {
	uint64_t seq;  /* the operation begun last; holder of the slot's byte */
	uint64_t done; /* raised by whoever replaces account.last: evidence; atomic, any process */
	uint64_t after_bytes[2]; /* holder of the slot's byte */
};

struct ration_slot {
	_Alignas(64) uint64_t
		start_ticks; /* of the process, /proc/PID/stat field 22; 0 = not known */
	uint32_t pid;        /* information: liveness is the byte lock */
	/*
	 * Where the byte may be lost, System V shared memory that the kernel removes with the
	 * owner: 1 + its id; 0 = none.
	 */
	uint32_t lifeline;
	char comm[16];
	uint64_t pid_namespace; /* inode of the namespace `pid` is of; 0 = not known */
	/*
	 * Not 0: the byte is held so, and may be lost while the owner lives. The inode of the IPC
	 * namespace `lifeline` is of; 1 = not known.
	 */
	uint32_t by_descriptor;
	/* Devices on which the owner has allocations that share blocks, as bits. Atomic. */
	uint32_t small_devices;
	/*
	 * Of what the slot is charged, what calls under way have reserved in doubt and may give
	 * back in a moment, and the devices that it is of, as bits. The owner's; atomic.
	 */
	uint64_t doubted_bytes, doubted_devices;
	uint64_t used_bytes[RATION_DEVICES]; /* what the owner believes; for views */
	struct ration_entry entry[RATION_DEVICES];
};

struct ration_device {
	char uuid[RATION_UUID_BYTES]; /* constant once count covers it */
	uint64_t physical_bytes;      /* total of the card; 0 = not known yet */
	uint64_t context_bytes;       /* what one context was last seen to cost; 0 = not known */
	uint64_t limit_bytes;  /* devices 16 up only: below, hami.limit_bytes is the one truth */
	uint64_t sm_limit_pct; /* likewise */
	/*
	 * The least that a context was seen to cost, and by how many processes; one that is sure of
	 * it counts as two. Atomic.
	 */
	uint64_t context_least_bytes;
	uint32_t context_seers;
	uint32_t reserved0;
	uint64_t reserved[4];
};

/* When a limit of GPU time holds. */
enum sm_policy {
	SM_POLICY_DEFAULT = 0, /* while hami.utilization_switch is not 0 */
	SM_POLICY_FORCE = 1,   /* always */
	SM_POLICY_DISABLE = 2, /* never */
};

/* What a process holds in places that have a bound of their own: its own words, atomic. */
struct ration_residency {
	_Alignas(64) uint64_t card_bytes[RATION_DEVICES]; /* on the cards, of what may leave them */
	uint64_t host_bytes;                              /* in host memory in their place */
	uint64_t moved_bytes; /* by exchanges of memory, since its start */
	/*
	 * enum ration_suspend: how far it is held. RATION_SUSPEND_DEEP: nothing of it stands in the
	 * way of the driver's checkpoint.
	 */
	uint32_t is_suspended;
	int32_t suspend_rc;  /* why it is not as far as asked for: -errno; 0 = nothing failed */
	uint64_t kept_bytes; /* of host_bytes, what is at hand for the next and has nothing in it */
	/* Blocks of 2 MiB, of card_bytes: likewise. Who asks for them by room_wanted gets them. */
	uint32_t idle_blocks[RATION_DEVICES];
	/*
	 * room_wanted as the owner has seen it, and given; and as it was for who waited in vain
	 * for that (atomic, any process). While that is ahead of the other, idle_blocks and
	 * kept_bytes cannot be had.
	 */
	uint32_t room_answered, room_missed;
	uint32_t suspend_answered; /* suspend_asks as of suspend_rc; written after it */
	/* The owner's pid above RATION_TOGETHER_BITS bits of enum ration_together; atomic. */
	uint32_t together;
	/*
	 * Kernels and graphs that may wait for others' that it has launched since its start, on the
	 * device with most. The owner writes, before `together`.
	 */
	uint64_t collectives;
	/* `resumes` as the owner has seen it when it said that it stands still; likewise. */
	uint32_t still_resumes;
	/*
	 * 0: it has imported no memory of other processes. Else it counts the times that it has
	 * looked what it holds of all cards; the owner's, atomic.
	 */
	uint32_t import_looks;
};

/*
 * Of pools that are shared between processes, what the card may hold for the owner and no figure
 * shows, on all devices together: what was given to others of its own pools, and what it has had of
 * theirs. Both last as long as the pools (docs/real-gpu.md). The owner's words, atomic.
 */
struct ration_shared_pools {
	uint64_t given_bytes, taken_bytes;
};

#define RATION_TOGETHER_BITS 2

/* How a process stands with others whose kernels may wait for its own (NCCL's). */
enum ration_together {
	RATION_APART = 0,  /* none does */
	RATION_LINKED = 1, /* some may */
	RATION_STILL = 2,  /* as that; its gate is shut and its work done, so that it can leave */
	RATION_WAITS = 3,  /* as that; its gate is shut, its work is not done */
};

/* What is asked of a tenant. */
enum ration_suspend {
	RATION_RUN = 0,
	RATION_SUSPEND = 1, /* its memory leaves the cards, its work is held */
	/*
	 * As that, and ready for whoever asks to have the driver take its contexts off the cards
	 * (cuCheckpointProcess*).
	 */
	RATION_SUSPEND_DEEP = 2,
};

struct ration_region {
	uint64_t magic; /* RATION_MAGIC, written before the HAMi magic */
	uint32_t layout;
	uint32_t file_bytes;
	uint32_t devices_max;
	uint32_t slots_max;
	uint32_t device_count;
	uint32_t reserved0;
	uint64_t created_s;               /* CLOCK_REALTIME */
	uint64_t generation;              /* raised each time the file is initialised anew */
	char name[RATION_NAME_BYTES];     /* of the tenant */
	char mem_spec[RATION_SPEC_BYTES]; /* the memory limits as configured: see base/limits.h */
	char mem_source[RATION_SOURCE_BYTES]; /* where mem_spec came from */
	uint32_t flags;                       /* RATION_FLAG_* */
	uint32_t spec_change; /* odd while mem_spec and the limits are changed; else raised by 2 */
	uint64_t resident_bytes; /* what the tenant keeps on each card at most; 0 = what is free */
	uint64_t host_bytes;   /* what it may have in host memory instead; 0 = base/host_memory.h */
	uint32_t suspend_want; /* enum ration_suspend; atomic, whoever steers the tenant */
	/* Raised by who finds no room: what was freed and is kept at hand goes back. Atomic. */
	uint32_t room_wanted;
	/* Likewise, of who finds no room in host memory. */
	uint32_t host_wanted;
	uint32_t resumes; /* raised by who resumes all, those too that a signal has suspended */
	/*
	 * Blocks of 2 MiB that are to leave each card for what cannot move: whoever sends some away
	 * takes them off. Atomic, any process.
	 */
	uint32_t room_blocks[RATION_DEVICES];
	/*
	 * Devices of whose limit the last 2 MiB are kept back, as bits: who has small allocations
	 * may find out there whether the driver has room for another. Atomic, any process.
	 */
	uint32_t kept_devices;
	/* Raised after each word of suspend_want: what was refused is tried again. Atomic. */
	uint32_t suspend_asks;
	uint64_t reaped_ns; /* CLOCK_MONOTONIC; when a worker last looked for the dead; atomic */
	uint64_t reserved[11];
	uint8_t hint[HAMI_SLOTS]; /* 1 = probably taken; atomic, any process */
	struct ration_device devices[RATION_DEVICES];
	struct ration_account accounts[RATION_DEVICES];
	struct ration_slot slots[HAMI_SLOTS];
	char sm_spec[RATION_SPEC_BYTES];     /* the limits of GPU time as configured, likewise */
	char sm_source[RATION_SOURCE_BYTES]; /* where sm_spec came from */
	uint32_t sm_policy;                  /* enum sm_policy; another value is SM_POLICY_FORCE */
	uint32_t sm_change; /* odd while sm_spec and those limits are changed; else raised by 2 */
	/* Slots whose owner has exported memory, as bits. Atomic, any process. */
	uint64_t exporters[HAMI_SLOTS / 64];
	uint64_t reserved_sm[31];
	struct pace_device pace[RATION_DEVICES]; /* ration/pace.h */
	struct ration_residency residency[HAMI_SLOTS];
	struct ration_shared_pools shared_pools[HAMI_SLOTS];
};

/* Contexts and modules are not counted against the limit. */
#define RATION_FLAG_CONTEXT_FREE 1u
/* Linear memory may leave the cards and come back (buffer objects). */
#define RATION_FLAG_MOVABLE 2u
/* It may also lie in host memory from the start: more is given than the cards have. */
#define RATION_FLAG_OVERSUBSCRIBE 4u

#define RATION_FILE_BYTES (RATION_OFFSET + sizeof(struct ration_region))

#define RATION_AT(type, field, at) \
	_Static_assert(offsetof(struct type, field) == (at), #type "." #field " has moved")
RATION_AT(hami_region, magic, 0);
RATION_AT(hami_region, major_version, 4);
RATION_AT(hami_region, minor_version, 8);
RATION_AT(hami_region, sm_init_flag, 12);
RATION_AT(hami_region, owner_pid, 16);
RATION_AT(hami_region, sem, 24);
RATION_AT(hami_region, device_num, 56);
RATION_AT(hami_region, uuids, 64);
RATION_AT(hami_region, limit_bytes, 1600);
RATION_AT(hami_region, sm_limit_pct, 1728);
RATION_AT(hami_region, procs, 1856);
RATION_AT(hami_region, proc_num, 2008896);
RATION_AT(hami_region, utilization_switch, 2008900);
RATION_AT(hami_region, recent_kernel, 2008904);
RATION_AT(hami_region, priority, 2008908);
RATION_AT(hami_region, last_kernel_time_s, 2008912);
RATION_AT(hami_region, sem_postinit, 2008920);
_Static_assert(sizeof(struct hami_region) == HAMI_REGION_BYTES, "hami_region has another size");
RATION_AT(hami_slot, pid, 0);
RATION_AT(hami_slot, hostpid, 4);
RATION_AT(hami_slot, used, 8);
RATION_AT(hami_slot, monitorused_bytes, 1032);
RATION_AT(hami_slot, util, 1160);
RATION_AT(hami_slot, status, 1928);
RATION_AT(hami_slot, seqlock, 1936);
RATION_AT(hami_slot, unused, 1944);
_Static_assert(sizeof(struct hami_slot) == 1960, "hami_slot has another size");
RATION_AT(hami_used, total_bytes, 32);
RATION_AT(hami_util, sm_pct, 16);
_Static_assert(sizeof(struct hami_used) == 64 && sizeof(struct hami_util) == 48, "hami sizes");
RATION_AT(ration_region, name, 48);
RATION_AT(ration_region, mem_spec, 112);
RATION_AT(ration_region, mem_source, 2160);
RATION_AT(ration_region, flags, 2288);
RATION_AT(ration_region, spec_change, 2292);
RATION_AT(ration_region, resident_bytes, 2296);
RATION_AT(ration_region, suspend_want, 2312);
RATION_AT(ration_region, room_wanted, 2316);
RATION_AT(ration_region, room_blocks, 2328);
RATION_AT(ration_region, hint, 2560); /* read by eights */
RATION_AT(ration_region, devices, 3584);
RATION_AT(ration_region, accounts, 3584 + 128 * RATION_DEVICES);
RATION_AT(ration_region, slots, 3584 + (128 + 64) * RATION_DEVICES);
RATION_AT(ration_region, sm_spec, 1385984);
RATION_AT(ration_region, sm_source, 1388032);
RATION_AT(ration_region, sm_policy, 1388160);
RATION_AT(ration_region, sm_change, 1388164);
RATION_AT(ration_region, exporters, 1388168);
RATION_AT(ration_region, pace, 1388544);
RATION_AT(ration_region, residency, 1388544 + RATION_DEVICES * sizeof(struct pace_device));
RATION_AT(ration_region, suspend_asks, 2460);
RATION_AT(ration_residency, room_answered, 416);
RATION_AT(ration_residency, suspend_answered, 424);
RATION_AT(ration_residency, together, 428);
RATION_AT(ration_residency, import_looks, 444);
_Static_assert(sizeof(struct ration_residency) == 448, "ration_residency has another size");
_Static_assert(sizeof(struct ration_account) == 64, "an account is one cache line");
_Static_assert(sizeof(struct ration_slot) == 64 + (8 + 32) * RATION_DEVICES, "ration_slot size");
_Static_assert(RATION_OFFSET % 4096 == 0 && RATION_OFFSET > HAMI_REGION_BYTES, "own part");

#endif
