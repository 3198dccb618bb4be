/*
 * The simulated machine: the GPUs that all processes of this computer share.
 *
 * One file in shared memory holds the devices, who uses how much of each, and who kept it busy
 * when. libcuda.so.1 (sim/cuda*.c) takes memory and GPU time from it, libnvidia-ml.so.1
 * (sim/nvml*.c) reports it. A process that dies gives everything back: liveness is a lock the
 * kernel holds for it, as in a real driver, which frees a process's memory at its end.
 *
 * Configured by the environment when the file is created (the first process decides, later ones
 * attach):
 *   RATION_SIM="count=2,mem=8g,sms=16,name=Sim GPU,context=64m,..."   see docs/sim.md
 * With no living process in it, a file of another configuration is set up anew.
 *   RATION_SIM_FILE=path        default /dev/shm/ration-sim-UID
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MACHINE_DEVICES = 64, MACHINE_PROCESSES = 2048 };

/* With RATION_SIM="pids=host" a process's pid on the host is its own and this. */
#define MACHINE_HOST_PIDS 1000000u

/* Constant after machine_open(). */
struct machine_device {
	char name[96];
	char uuid[48]; /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
	unsigned char uuid_bytes[16];
	char serial[32];
	char pci_bus_id[32]; /* "00000000:17:00.0" */
	unsigned pci_domain, pci_bus, pci_device;
	uint64_t memory_bytes;   /* what CUDA reports as total */
	uint64_t reserved_bytes; /* NVML total = memory_bytes + reserved_bytes, as on a real card */
	uint64_t context_bytes;  /* device memory one context costs */
	unsigned sms;
	unsigned cc_major, cc_minor;
	unsigned clock_mhz, memory_clock_mhz;
	unsigned slices; /* of a card: MIG slices it is divided into; they alone are for use then */
	unsigned card;   /* of a slice: the index of its card; else its own */
	unsigned slice;  /* of a slice: its place on the card, from 1; else 0 */
};

struct machine_process {
	uint32_t pid; /* in the reader's pid namespace, or the host's; 0 where it cannot be known */
	uint64_t used_bytes;    /* device memory this process holds, without managed memory */
	uint32_t sm_util_pct;   /* share of the last second in which its kernels ran, 0..100 */
	uint64_t last_seen_us;  /* CLOCK_REALTIME of the last busy moment, 0 = never busy */
	bool has_context;       /* it has made a CUDA context: NVML lists only those */
	unsigned slice;         /* where it is on a divided card; else 0 */
	uint64_t pid_namespace; /* its own, by inode number; 0 = unknown */
};

/* Opens (and, first of all, creates) the machine. Idempotent, thread safe, and right in a fork
 * child, which gets a place of its own. 0 or -errno; -EINVAL with one line on stderr for a
 * configuration that cannot be understood. */
int machine_open(void);

/* Number of cards; 0 before machine_open() and in a fork child before its own. */
int machine_cards(void);

/* False where no device reaches the memory of another. */
bool machine_has_peers(void);

/* True when the heap of kernels comes with cuCtxSetLimit; else with the first launch for it. */
bool machine_has_early_heap(void);

/* Number of devices: the cards, and behind them the slices of those that are divided, in order. */
int machine_count(void);

/* The slice of card i that has this place, from 1; -1 where there is none. */
int machine_slice(int i, unsigned slice);

/* What cuDriverGetVersion reports: 13000 is CUDA 13.0. */
int machine_cuda_version(void);

/* What nvmlSystemGetDriverVersion reports: "580.65.06". */
const char *machine_driver_version(void);

/* Device i, 0 <= i < machine_count(); NULL otherwise. Valid for ever. */
const struct machine_device *machine_device(int i);

/* Takes `bytes` of device i for this process. 0, or -ENOMEM when the device has not that much
 * left after the memory of dead processes was given back. Never over the device's size, whatever
 * the interleaving. */
int machine_take(int i, uint64_t bytes);

/* Takes the time of making a context: those of all processes are made one after another. */
void machine_start_context(void);

/* Gives `bytes` of this process's memory on device i back. */
void machine_give(int i, uint64_t bytes);

/* The same of memory that descriptors or imports may keep (machine_export.h): as long as they do, the
 * device has it in use and this process does not. `export` may be 0: there are none. True when
 * there are imports: its bytes are in use. */
bool machine_give_exported(int i, uint64_t bytes, uint64_t export);

/* The same for managed memory, which the device lacks but no process's figure shows. */
int machine_take_managed(int i, uint64_t bytes);
void machine_give_managed(int i, uint64_t bytes);

/* Bytes in use on device i by all living processes, and what descriptors keep. */
uint64_t machine_used(int i);

/* Marks that this process has (or no longer has) a context on device i. */
void machine_set_context(int i, bool has_context);

/* The living processes that hold memory or a context on device i: writes at most `max`, returns
 * how many there are. */
int machine_processes(int i, struct machine_process *out, int max);

/* A counter for the library that this is part of; a fork child finds 0. After machine_open(). */
_Atomic unsigned *machine_uses(void);

/* How far a process has been taken off its devices from outside (cuCheckpoint*). */
enum machine_checkpoint {
	MACHINE_NO_DRIVER, /* it has initialised none */
	MACHINE_RUNS,
	MACHINE_LOCKED, /* its calls wait */
	MACHINE_CHECKPOINTED,
	MACHINE_LOST, /* it could not be restored; its calls wait for ever */
};

/* This process has a driver from now on; its calls are between the two that follow. */
void machine_checkpoint_serve(void);

/* begin waits while the process is locked. They do not nest. */
void machine_call_begin(void);
void machine_call_end(void);

/* This process has one handle of cuMemCreate with host memory more, or less. */
void machine_host_handle(bool is_made);

/* How process `pid` of this pid namespace stands. 0, or -ESRCH: there is none with a driver. */
int machine_checkpoint_state(uint32_t pid, enum machine_checkpoint *out_state);

/*
 * The steps. 0; -ESRCH; -EINVAL when the one before was not made; -EBUSY: calls or work of it did
 * not end in time, and it stands as before. Of restore also -ENOMEM: a device has no room, it
 * stands as before; -EIO: it is lost.
 */
int machine_checkpoint_lock(uint32_t pid, int64_t wait_ns);
int machine_checkpoint_take(uint32_t pid);
int machine_checkpoint_restore(uint32_t pid);
int machine_checkpoint_unlock(uint32_t pid);

/* Device i's engine is one: whoever executes holds it for one slice (2 ms) at a time while others
 * wait, as a GPU does between processes. begin blocks until it is this process's turn (other
 * streams of the same process may run beside it); end gives it up. */
void machine_turn_begin(int i);
void machine_turn_end(int i);

/* True when another process waits for device i and this process's slice is over: a kernel that is
 * still running then does end + begin. */
bool machine_turn_expired(int i);

/* Records that this process's work executed on device i in [start_ns, end_ns), CLOCK_MONOTONIC. */
void machine_busy(int i, uint64_t start_ns, uint64_t end_ns);

/* Records that device i's memory was copied or set in [start_ns, end_ns), CLOCK_MONOTONIC. */
void machine_memory_busy(int i, uint64_t start_ns, uint64_t end_ns);

/* Percent of the last second in which anything executed on device i, 0..100. */
unsigned machine_util_pct(int i);

/* Percent of the last second in which this device's memory was copied or set, 0..100. */
unsigned machine_mem_util_pct(int i);
