/*
 * A charge: one piece of device memory on its way from "may I" to "it is mine". Reserve, driver
 * call, commit or cancel; every charge_reserve_*() that says 0 is followed by exactly one of the
 * two. The other way round: take, driver call, end or put back.
 *
 * Thread safe: a charge belongs to one thread, what it changes is quota's, track's and handle's.
 */
#pragma once

#include "base/bytes.h"
#include "core/gpu_ops.h"
#include "core/handle.h"
#include "core/leaving.h"
#include "core/quota.h"
#include "core/track.h"

/* Managed memory is counted in pages of the host's largest usual size. */
#define CHARGE_MANAGED_PAGE_BYTES UINT64_C(65536)

/*
 * Whether who leaves is waited for (core/leaving.h): not by who holds a lock, or tries again. What
 * this process has of the card already is charged whatever the limit.
 */
enum charge_wait { CHARGE_MAY_WAIT, CHARGE_AT_ONCE, CHARGE_IS_THERE };

/* Constant between reserve and commit, but for the charge's own functions. */
struct charge {
	struct dev dev;
	uint64_t bytes; /* reserved */
	const void *ctx;
	enum charge_wait wait;
	bool is_managed;
	bool is_object;
	bool is_small;   /* shares a block with others */
	bool is_hoping;  /* a block is reserved in doubt: perhaps the driver has room */
	bool has_before; /* of an object: the look at the card before the call, as follows */
	uint64_t before_begun, before_driver_bytes, before_tracked_bytes;
	struct track_node *node;
	struct handle_node *handle;
};

/* Starts, after quota_init(). `ops` is kept. */
void charge_init(const struct gpu_ops *ops);

/*
 * Reserves for a linear allocation of `bytes` in context `ctx`. A small one that the limit has no
 * block left for may still go on: perhaps the driver has room in an open block (core/small.h).
 * 0, -EDQUOT, -ENOMEM.
 */
int charge_reserve_linear(struct charge *c, struct dev dev, const void *ctx, uint64_t bytes);

/* Reserves for managed memory, which the driver's figure for the process does not hold. */
int charge_reserve_managed(struct charge *c, struct dev dev, const void *ctx, uint64_t bytes,
			   enum charge_wait wait);

/*
 * The driver gave `bytes` at `addr` (more than was asked where it pads). 0, or -EDQUOT: it opened a
 * block that is to be given back; the caller frees the memory again and then cancels.
 */
int charge_commit(struct charge *c, uint64_t addr, uint64_t bytes);

/*
 * Reserves for an object whose true size no call tells (an array, a mipmap, an import): `bytes` is
 * an estimate, 0 where it cannot be made. The driver's figure before and after the call is its
 * size, if nothing else of this process changed meanwhile; else the estimate is.
 */
int charge_reserve_object(struct charge *c, struct dev dev, const void *ctx, uint64_t bytes);

/*
 * The driver made the object with this handle. As charge_commit(); or -EOVERFLOW: it is charged,
 * and more than the limit allows. The caller ends it as any object.
 */
int charge_commit_object(struct charge *c, const void *handle);

/*
 * Before a refusal: has the pools, and other processes, give back what they do not use, and asks
 * the card whether the overhead that is counted is still true. Nothing of the calling thread is
 * under way. False when none can be had; else it is worth another try.
 */
bool charge_ask_card(struct dev dev);

/* The driver gave nothing, or has what it gave back. */
void charge_cancel(struct charge *c);

/* Takes the allocation at `addr` out before the driver frees it: NULL when it is not ours. */
struct track_node *charge_take(uint64_t addr, struct dev *out_dev);

/*
 * The driver freed it, or not. Or it did, and the card may hold it for a while yet, since others
 * lie beside it in what was given for it or its stream has yet to come to the free: charge_keep().
 */
void charge_end(struct track_node *node, struct dev dev);
void charge_end_later(struct track_node *node, struct dev dev);
void charge_put_back(struct track_node *node, struct dev dev);

/* Reserves for a handle of `bytes`; then charge_commit_handle() or charge_cancel(). */
int charge_reserve_handle(struct charge *c, struct dev dev, uint64_t bytes);
void charge_commit_handle(struct charge *c, uint64_t handle);

/*
 * Memory that ended with a handle, with mappings or with a context. charge_begin() before the
 * driver call that ends it, charge_over() after all is entered.
 */
void charge_begin(void);
void charge_over(void);
void charge_freed_handle(struct handle_freed freed);
void charge_freed_handles(const uint64_t freed_bytes[RATION_DEVICES]);

/*
 * Memory that is gone for the program, and perhaps not for the card: one of our imports, or what it
 * was bound to, may keep that of a handle, and no call tells which. So the charge goes on as
 * overhead until a look at the card says what is still held. Nobody finds room in it before that;
 * where the card cannot be asked, it is given up.
 */
void charge_keep(struct handle_freed freed);

/* As those, of memory that had ended unseen before. */
void charge_stale_handles(const uint64_t freed_bytes[RATION_DEVICES]);

/*
 * The program frees what is at this address: memory of a pool or an object, which is charged by
 * others' books. What a descriptor holds of it (core/lent.h) is charged for itself.
 */
void charge_lent_end(uint64_t addr);

/* Ends all allocations of `ctx` that were entered before `mark`; see track_mark(). */
void charge_drop_context(const void *ctx, uint64_t mark);

/*
 * What no allocation call shows: contexts and modules. Compares the driver's figure for this
 * process with what is tracked and charges the difference as `kind`, whatever the limit. While
 * allocations of this process are under way (their bytes would be taken for overhead) it is put
 * off until they are over: -EAGAIN. 0 when it was done, -ENOTSUP when the driver cannot say.
 */
int charge_reconcile(struct dev dev, enum quota_kind kind);

/* As charge_reconcile() for modules, by who comes again anyway: nothing is put off. */
int charge_watch(struct dev dev);

/* Before what the tenant holds is shown: so, where some of it may be on the card no more. */
void charge_settle(struct dev dev);

/*
 * By how much the driver's figure for this process is more than all that is entered or counted as
 * overhead: what other threads have just been given, or overhead that could not be told from it.
 */
uint64_t charge_doubt(struct dev dev);

/*
 * Looks at the card, and changes of this process's memory that have begun and that are over, so
 * far: what is the same later did not happen meanwhile.
 */
struct charge_mark {
	uint64_t looks, begun, over;
};
struct charge_mark charge_mark(void);

/*
 * Reserves `bytes` for a context, as CHARGE_AT_ONCE. 0 as after charge_begin(), and no look at the
 * card takes the reservation for something that is gone before charge_over(); or -EDQUOT.
 */
int charge_take_context(struct dev dev, uint64_t bytes);

/* Likewise, as CHARGE_MAY_WAIT; so as quota_reserve(). */
static inline int charge_reserve_context(struct dev dev, uint64_t bytes)
{
	int rc = charge_take_context(dev, bytes);

	if (rc != -EDQUOT)
		return rc;
	return LEAVING_TRY(dev, bytes_sum(bytes, quota_kept(dev)), charge_take_context(dev, bytes));
}

/*
 * As that of any kind, in doubt: the call may take less. Ends with charge_over(), then a look at
 * the card, then quota_doubt_over().
 */
int charge_doubt_overhead(struct dev dev, enum quota_kind kind, uint64_t bytes);

/*
 * Something ended or began that is not in the books as it was. The sum is made right by the
 * driver's figure: as soon as nothing is under way, in charge_over() at the latest.
 */
void charge_look_later(struct dev dev);

/* True where the card's figure for this process can be had. */
bool charge_may_look(struct dev dev);

/*
 * The driver freed memory at `addr`, or of a handle (0), that was not known here. It may be that of
 * an allocation that is on its way into the books: this is then ended there.
 */
void charge_freed_unknown(uint64_t addr);
