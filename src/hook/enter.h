/*
 * The first steps of every hook: is the driver there, are we a member, which device is meant.
 */
#pragma once

#include "core/charge.h"
#include "drv/status.h"
#include "hook/init.h"
#include "hook/lookup.h"

/* True when the driver has `sym`; finds the driver first if nobody has yet. */
#define ENTER_HAS(sym) (real.sym || (real_find(REAL_CUDA) && real.sym))

/* What a hook answers when it has no driver to ask. */
CUresult enter_missing(void);

enum enter {
	ENTER_CHARGE,  /* *out_dev is charged */
	ENTER_FORWARD, /* to the driver as it came: switched off, or it will refuse it itself */
	ENTER_REFUSE,  /* the limits cannot be held: enter_refusal() is the answer */
};

/* The device is used: what this process has there already is looked for once. */
void enter_use(struct dev dev);

/*
 * For an allocation in the calling thread's context, *out_ctx: of a green one its primary context,
 * whose memory it is.
 */
enum enter enter_current(struct dev *out_dev, const void **out_ctx);

/* For an operation on the device with this ordinal. */
enum enter enter_ordinal(CUdevice ord, struct dev *out_dev);

/* Why the limits cannot be held, as a CUresult. */
CUresult enter_refusal(void);

/* True for the first few refusals of the process: of more nothing is logged. Counts this one. */
bool enter_may_say(void);

/* `rc` of a reservation as a CUresult; says what was refused, for the first few refusals. */
CUresult enter_refused(int rc, struct dev dev, uint64_t bytes);

/*
 * What the driver says of the moment to an allocation: CUDA_SUCCESS, or the error of a capture that
 * forbids it, which is broken then as the driver does, or one that stays. Nothing is allocated.
 */
CUresult enter_would_allow(void);

/*
 * As that before a call that the driver would not serve during a capture, nor after an error that
 * stays: what it says of the moment comes first.
 */
CUresult enter_refused_now(int rc, struct dev dev, uint64_t bytes);

/*
 * Counts the contexts on a device again after one went: they are looked for at the next allocation.
 */
void enter_forget_context(struct dev dev);
