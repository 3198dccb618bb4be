/*
 * The quota: this process's part of the tenant's memory on every device.
 *
 * Thread safe. One mutex of the process's own serialises its changes; it is never held across a
 * driver call. Between processes the account's compare-and-swap decides.
 */
#pragma once

#include "core/device.h"
#include "shm/slot.h"

#include <stdint.h>

/* What bytes are for; HAMi's monitors show the three apart. */
enum quota_kind { QUOTA_CONTEXT, QUOTA_MODULE, QUOTA_DATA, QUOTA_KINDS };

/* Starts with the slot that slot_claim() gave. Both are kept, not owned. */
void quota_init(struct region *region, struct slot *slot);

/*
 * Charges `bytes` if the tenant's sum stays within the limit; dead processes are reaped before it
 * says no, and waited for are those who leave (core/leaving.h) and what calls under way have
 * reserved in doubt. 0 or -EDQUOT.
 */
int quota_reserve(struct dev dev, enum quota_kind kind, uint64_t bytes);

/* As that, at once: nothing is reaped or waited for. */
int quota_take(struct dev dev, enum quota_kind kind, uint64_t bytes);

/*
 * This process has allocations on the device that share blocks with others, or none any more: while
 * any of the tenant's has, quota_reserve() leaves QUOTA_KEPT_BYTES of the limit (shm/kept.h).
 */
#define QUOTA_KEPT_BYTES (UINT64_C(2) << 20)
void quota_keep_block(struct dev dev, bool has_small);

/* What is kept back now: that, or 0 where none has any, by a look at all slots. */
uint64_t quota_kept(struct dev dev);

/*
 * As quota_take(), in doubt: the most that a call about to be made may take, all or
 * some of which comes back after it. Nobody is refused for want of it before it was waited for, a
 * little. Up to the limit, with what quota_reserve() leaves.
 */
int quota_doubt(struct dev dev, enum quota_kind kind, uint64_t bytes);

/* The call is over: `bytes` are in doubt no more, `back_bytes` of them are released. */
void quota_doubt_over(struct dev dev, enum quota_kind kind, uint64_t bytes, uint64_t back_bytes);

/* What all have in doubt on the device, and perhaps more; the dead too, until they are reaped. */
uint64_t quota_doubted(struct dev dev);

/*
 * Charges `bytes` whatever the limit: the card has given them already. 0, or -ESTALE when the
 * region is not ours any more.
 */
int quota_charge(struct dev dev, enum quota_kind kind, uint64_t bytes);

/*
 * Makes what this process holds as context and module `bytes` together, whatever the limit: the
 * card has given them already. What is added counts as `kind`; what is taken off is of `kind`
 * first.
 */
void quota_set_overhead(struct dev dev, enum quota_kind kind, uint64_t bytes);

/* As quota_set_overhead(), but nothing is taken off. */
void quota_raise_overhead(struct dev dev, enum quota_kind kind, uint64_t bytes);

/* Takes `bytes` off again, never more than this process holds of that kind. */
void quota_release(struct dev dev, enum quota_kind kind, uint64_t bytes);

/* Counts `bytes` of one kind as another from now on; the sum is the same at every instant. */
void quota_move(struct dev dev, enum quota_kind from, enum quota_kind to, uint64_t bytes);

/* What this process holds of that kind. */
uint64_t quota_held(struct dev dev, enum quota_kind kind);

/* What it holds as context and module together, in one look. */
uint64_t quota_overhead(struct dev dev);

/* What this process holds as QUOTA_DATA, and how much it has taken of that ever, in one look. */
struct quota_data {
	uint64_t held_bytes, taken_bytes;
};
struct quota_data quota_data(struct dev dev);

/*
 * Takes off what dead processes held on a device, before it is shown, once in a millisecond at
 * most. Their end alone changes nothing: the sum is right again at the next reservation that would
 * pass the limit.
 */
void quota_settle(struct dev dev);

/* Takes off what dead processes held of anything. Before something is refused. */
void quota_reap(void);

/* As that, now and then. The worker, as often as it looks. */
void quota_tidy(int64_t now_ns);

/* This process's slot in the region. */
unsigned quota_slot(void);

/* The process is about to end: the monitors see the slot free, and nothing of it from now on. */
void quota_leave(void);

/*
 * NVML lists this process under this pid, which is not its own: the tenant's monitors and views
 * find its row by it (hostpid of the HAMi layout).
 */
void quota_name_host_pid(unsigned pid);

/*
 * The tenant's sum and its limit (0: none) on a device. When the region is not ours any more the
 * sum is UINT64_MAX and the limit the one read last.
 */
uint64_t quota_used(struct dev dev);
uint64_t quota_limit(struct dev dev);

/*
 * False when the region is not ours any more: nobody may touch it then. `now_ns` is clock_now_ns();
 * the kernel is asked once in a millisecond.
 */
bool quota_has_region(int64_t now_ns);

/* As that, by the clock. */
bool quota_has_region_now(void);

/*
 * Takes the slot back where the program has closed what held it, with the calling thread's root
 * directory (core/root.h). Who serves, often.
 */
void quota_hold_slot(void);

/* True when nobody of the tenant but this process holds anything on the device, the dead too. */
bool quota_is_alone(struct dev dev);

/* True when the tenant holds more than its limit. */
bool quota_is_over(struct dev dev);

/* Bytes that can still be reserved: UINT64_MAX without a limit. */
uint64_t quota_left(struct dev dev);

/*
 * What quota_limit() says and quota_reserve() would give, where there is a limit after
 * quota_settle(), by one look at the region. `now_ns` is clock_now_ns().
 */
struct quota_share {
	uint64_t limit_bytes, left_bytes;
};
struct quota_share quota_share(struct dev dev, int64_t now_ns);

/* Name of the device, for messages. */
const char *quota_uuid(struct dev dev);

/* What the region says of the device; NULL when it is not ours any more. */
struct ration_device *quota_device(struct dev dev);

/* False when the tenant was set up so that contexts and modules do not count. */
bool quota_counts_contexts(void);
