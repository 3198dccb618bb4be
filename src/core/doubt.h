/*
 * Waiting for what is in doubt: quota_doubt() reserves the most that a call may take, and most of
 * it comes back when the call is over, some microseconds later. Nobody is refused for want of it
 * before that, within bounds.
 *
 * Thread safe. The caller holds no lock that who is in doubt may need.
 */
#pragma once

#include "core/device.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * True, perhaps after a nap, if `bytes` would fit but for what is in doubt: it is worth another
 * try. *end_ns begins as 0 and bounds the naps.
 */
bool doubt_await(struct dev dev, uint64_t bytes, int64_t *end_ns);

/*
 * What `call` says, a reservation of `bytes`, made again while it is refused for want of what is in
 * doubt.
 */
#define DOUBT_TRY(dev, bytes, call)                                                        \
	({                                                                                 \
		int64_t doubt_end_ns = 0;                                                  \
		int doubt_rc;                                                              \
                                                                                           \
		do                                                                         \
			doubt_rc = (call);                                                 \
		while (doubt_rc == -EDQUOT && doubt_await((dev), (bytes), &doubt_end_ns)); \
		doubt_rc;                                                                  \
	})

/* What would be left if all that is in doubt came back, but for `but_bytes` of it. */
uint64_t doubt_left_at_best(struct dev dev, uint64_t but_bytes);
