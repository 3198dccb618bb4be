/*
 * Kernels that wait for each other are best begun together: who begins first keeps its device
 * busy until the last has paid what its own device owes.
 */
#pragma once

#include "core/pace.h"

/* A linked process asks, of a device where its share is that. */
void pace_meet_note(struct pace *pace, uint32_t share_pct, int64_t now_ns);

/*
 * A launch of a linked process waits once for what the tenant's other devices owe on which linked
 * processes wait, or are waited for: returns until when, 0: it need not. *inout_have_ns, what its
 * own device's bucket has, is lowered to what theirs have, since that bounds what it may have in
 * flight. Its thread.
 */
int64_t pace_meet_until_ns(struct pace *pace, struct pace_hold *hold, int64_t *inout_have_ns,
			   int64_t now_ns);
