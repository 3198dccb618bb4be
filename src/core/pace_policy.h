/*
 * What a launch has to keep to, and the word in which the tenant tells the node's monitor that it
 * launches.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pace_terms {
	uint32_t share_pct; /* 1..99, or 100: no limit */
	bool is_blocked;    /* held until this changes */
};

/*
 * Says in recent_kernel that the tenant launches: makes it 2 unless it is negative, which is the
 * monitor's. Writes only when it has to; called at least every 100 ms in which something was launched.
 */
void pace_policy_launched(int32_t *recent_kernel);
