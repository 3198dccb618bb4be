/*
 * A still moment of this process's memory, for who must know at once what a call took that no call
 * tells: while another thread's change is under way its bytes cannot be told from what is looked
 * for. So the others are asked to let their next change wait, for a few milliseconds at most;
 * nobody is held that has begun.
 *
 * Thread safe; no lock is held while it waits or asks the card.
 */
#pragma once

#include "core/quota.h"

/* Starts: fork children begin with nothing. */
void still_init(void);

/* Before a change of this process's memory begins: waits while a thread wants it still. */
void still_yield(void);

/*
 * As charge_reconcile(), and waits some milliseconds for a moment in which the card can be asked.
 * Nothing of the calling thread is under way.
 */
int still_reconcile_soon(struct dev dev, enum quota_kind kind);

/*
 * What was reserved for a call stands until the next look, which could not be had: it may be far
 * more than the call took.
 */
void still_owe(struct dev dev);

/* As still_reconcile_soon(), before a refusal: where one is owed it waits longer, 2 s at most. */
int still_reconcile_refusing(struct dev dev, enum quota_kind kind);

/*
 * As that, and has the other threads wait, after a call that took an unknown amount. Returns by how
 * many bytes the overhead may be more than what is charged now: 0 after an exact look, or where the
 * card cannot be asked; else what the card shows and nobody has entered.
 */
uint64_t still_reconcile(struct dev dev, enum quota_kind kind);

/* True when the tenant is above its limit, with `doubt_bytes` on top of what is charged. */
bool still_is_over(struct dev dev, uint64_t doubt_bytes);
