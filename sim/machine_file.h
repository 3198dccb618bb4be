/*
 * The layout of the machine's file, and what the machine_*.c files share of it.
 *
 * All processes map the whole file. Every field says who may write it. Nothing read from the file
 * is used as an index without a range check.
 *
 * Byte locks (open file description locks) at MACHINE_BYTES: byte `slot` is write-locked by the
 * living owner of that slot for as long as it lives; byte MACHINE_BYTE_SETUP by who creates the file
 * or takes a slot. A read lock on a slot's byte can be had when its owner is dead, by several at
 * once; it keeps the slot from being taken and is the right to clear what the dead process left, as
 * soon as its exit is over: a card has the memory back after the kernel has let go of the lock.
 * Clearing may be done twice, and at the same time. Who looks at many slots asks the kernel only of
 * those whose `life` is not sure.
 */
#pragma once

#include "machine.h"
#include "machine_life.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#define MACHINE_MAGIC UINT64_C(0x314d495352544e00) /* "\0NTRSIM1" */
#define MACHINE_BYTES (INT64_C(1) << 40)
#define MACHINE_BYTE_SETUP (MACHINE_BYTES + MACHINE_PROCESSES)

enum {
	MACHINE_LAYOUT = 10,
	MACHINE_SETTINGS_BYTES = 256,
	MACHINE_RINGS = 2048,
	MACHINE_RING_WORDS = 128,
	MACHINE_EXPORTS = 8192,
	MACHINE_IMPORTS = 8192,
};

/* Which of the last second's moments were busy: machine_time.c. Any process, atomically. */
struct machine_ring {
	_Atomic uint64_t last_us;                   /* CLOCK_REALTIME */
	_Atomic uint64_t words[MACHINE_RING_WORDS]; /* lap << 32 | one bit per moment */
};

/* Whose turn it is on a device: machine_turn.c. Written under the device's lock. */
struct machine_turn {
	_Atomic uint32_t holder;      /* slot + 1, 0 = nobody */
	_Atomic uint32_t has_waiters; /* somebody but the holder has a ticket */
	_Atomic uint32_t seq;         /* futex; changes when waiters should look again */
	_Atomic uint32_t is_sleeping; /* the next in line sleeps until the holder is idle */
	_Atomic uint64_t slice_start_ns;
	_Atomic uint64_t idle_since_ns; /* 0: the holder executes or was just chosen */
	_Atomic uint64_t last_ticket;
};

struct machine_state {
	alignas(64) _Atomic uint32_t lock; /* owner's slot + 1, | MACHINE_LOCK_WAITERS; futex */
	alignas(64) _Atomic uint64_t used_bytes; /* the sum over all slots; under the lock */
	_Atomic uint64_t most_bytes;             /* that it ever was, for tests; likewise */
	struct machine_turn turn;
	struct machine_ring sm, memory;
};

/* One process's part of one device. Written under the device's lock. */
struct machine_share {
	_Atomic uint64_t used_bytes;    /* all of it */
	_Atomic uint64_t managed_bytes; /* of it */
	_Atomic uint64_t ticket;        /* its place in the line for a turn, 0 = not in it */
	_Atomic uint32_t ring;          /* its ring + 1 while that says so too, 0 = none */
	uint32_t pad;
	/* of it, what a checkpoint took off the device: in no sum until it is restored */
	_Atomic uint64_t away_bytes, away_managed_bytes;
};

/* A process's place. Written by the holder of its byte, except `share` and where said. */
struct machine_slot {
	_Atomic uint32_t pid; /* in the process's own pid namespace; 0 = free */
	uint32_t pad;
	_Atomic uint64_t pid_namespace; /* inode number, 0 = unknown */
	_Atomic uint64_t start_ticks;   /* base/pid.h */
	_Atomic uint64_t contexts;      /* bit per device */
	pthread_mutex_t life;           /* machine_life.h */
	/* machine_checkpoint.c; any process */
	_Atomic uint32_t checkpoint; /* enum machine_checkpoint; futex */
	_Atomic uint32_t calls;      /* threads in calls of the driver */
	_Atomic uint64_t away_contexts;
	_Atomic uint32_t host_handles; /* of cuMemCreate, with host memory */
	uint32_t pad2;
	struct machine_share share[MACHINE_DEVICES];
};

/* Memory that descriptors may keep: machine_export.c. */
struct machine_export {
	/* slot + 1; 0: free; UINT32_MAX: nobody's. From free by whoever takes it, else under the
	 * device's lock, as is all that follows. */
	_Atomic uint32_t owner;
	_Atomic uint32_t device;
	_Atomic uint32_t uses;       /* that it had before */
	_Atomic uint32_t vain_looks; /* for what keeps it since it is nobody's */
	_Atomic uint64_t bytes;
	_Atomic uint32_t heir; /* slot + 1: in whose figure it was at the last look; 0: nobody's */
	_Atomic uint32_t is_marked; /* a descriptor of it was made; any process */
	_Atomic uint32_t is_hidden; /* machine_export_hide(); its owner's */
	uint32_t pad;
};

/* One import of such memory: machine_import.c. */
struct machine_import {
	/* slot + 1; 0: free. From free by whoever takes it, else under the device's lock, as is all
	 * that follows. */
	_Atomic uint32_t owner;
	_Atomic uint32_t device;
	_Atomic uint64_t export; /* what was imported; written last; 0: nothing yet */
	_Atomic uint64_t number; /* greater than those of all before */
};

/* Constant while any process lives. */
struct machine_config {
	uint32_t count;   /* cards */
	uint32_t devices; /* cards and slices */
	uint32_t cuda_version;
	uint32_t has_host_pids;  /* NVML lists processes by pids that no process knows */
	uint32_t start_ms;       /* that making a context takes */
	uint32_t has_bare_rows;  /* NVML lists processes without what they hold */
	uint32_t has_no_peers;   /* no device reaches another's memory */
	uint32_t has_early_heap; /* a heap comes with cuCtxSetLimit, not with a launch */
	char driver_version[32];
	struct machine_device device[MACHINE_DEVICES];
};

struct machine_file {
	_Atomic uint64_t magic; /* written last; 0 = being set up */
	uint32_t layout;
	uint32_t size_bytes;
	uint32_t key;                  /* by which locks elsewhere name this machine; random */
	_Atomic uint32_t exports_end;  /* no export from here on was ever used */
	_Atomic uint32_t exports_free; /* where a free one is likely */
	_Atomic uint32_t slots_end;   /* no slot from here on was ever used; under the setup byte */
	_Atomic uint32_t imports_end; /* no import from here on was ever used */
	_Atomic uint32_t imports_free; /* where a free one is likely */
	_Atomic uint64_t imports_made; /* since the machine was set up */
	_Atomic int64_t started_ns;    /* CLOCK_MONOTONIC: when all contexts asked for are made */
	struct machine_config config;
	char settings[MACHINE_SETTINGS_BYTES]; /* as they were written, for people; maybe cut */
	struct machine_state state[MACHINE_DEVICES];
	_Atomic uint32_t ring_owner[MACHINE_RINGS]; /* slot * MACHINE_DEVICES + device + 1 */
	struct machine_export export[MACHINE_EXPORTS];
	struct machine_import import[MACHINE_IMPORTS];
	struct machine_slot slot[MACHINE_PROCESSES];
	struct machine_ring ring[MACHINE_RINGS];
};

/* This process's view. A fork child finds it zero: the pages are MADV_WIPEONFORK. */
struct machine_self {
	pthread_mutex_t setup;
	_Atomic(struct machine_file *) file; /* NULL = not open; written under `setup` */
	int slot;
	uint64_t pid_namespace;
	_Atomic unsigned uses;
	pthread_mutex_t lock[MACHINE_DEVICES];  /* taken before the device's lock in the file */
	uint32_t executing[MACHINE_DEVICES];    /* threads inside a turn; device's lock */
	_Atomic uint32_t ring[MACHINE_DEVICES]; /* own ring + 1; MACHINE_RINGS + 1 = none left */
};

/* This process's view. */
struct machine_self *machine_self(void);

/* The machine's file once more, for locks: an own open file description. fd, or -errno; -ESTALE
 * when the path no longer leads to the file this process is attached to. */
int machine_reopen(void);

/* Takes (F_WRLCK, F_RDLCK) or gives back (F_UNLCK) one byte without waiting. 0 or -errno; -EAGAIN
 * when somebody else has it. */
int machine_byte_set(int fd, short type, int64_t byte);

/* The first write-locked byte of [*byte, end): 1 and *byte, or 0, or -errno. */
int machine_byte_next(int fd, int64_t end, int64_t *byte);

/* Number of slots that may be in use, never more than MACHINE_PROCESSES. */
uint32_t machine_slots_end(void);

/* Reads RATION_SIM. 0, or -EINVAL after one line on stderr. */
int machine_config_read(struct machine_config *out_config);

/* Device i's lock, for threads of all processes. A dead owner is passed over and what it left half
 * done is repaired. `dead_slot` is a slot whose byte the caller holds, or -1. */
void machine_lock(int i, int dead_slot);
void machine_unlock(int i);

/* Gives back everything that dead processes held. */
void machine_process_reap(void);

/* Gives back everything of slot `slot`, whose byte the caller holds. */
void machine_process_clear(int slot);

/* Read-locks the byte of `slot` if its process is dead: an fd that holds it, or -EAGAIN (it lives),
 * or another -errno (it cannot be told). */
int machine_process_take_dead(int slot);

/* Takes `slot` out of the line for device i, and its turn from it. Device i's lock is held. */
void machine_turn_forget(int i, int slot);

/* Marks [start_ns, end_ns) busy in `ring`. */
void machine_time_mark(struct machine_ring *ring, uint64_t start_ns, uint64_t end_ns);

/* Percent of the second before `now_ns` in which `ring` was busy. */
unsigned machine_time_busy_pct(const struct machine_ring *ring, uint64_t now_ns);

/* The ring of `slot` on device i, or NULL. */
struct machine_ring *machine_time_find(int slot, int i);

/* Frees all rings of a slot. */
void machine_time_forget(int slot);
