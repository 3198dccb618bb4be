/*
 * What the operator, the node's monitor and the scheduler want of this tenant's launches. Pure
 * decisions; the words lie in the HAMi part of the region, whose contract they follow.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* GPU_CORE_UTILIZATION_POLICY */
enum pace_rule {
	PACE_RULE_DEFAULT, /* the monitor's utilization_switch decides */
	PACE_RULE_FORCE,   /* the limit always holds */
	PACE_RULE_DISABLE, /* it never does */
};

/* What the words say at one moment. */
struct pace_wishes {
	enum pace_rule rule;
	uint64_t sm_limit_pct;      /* 0 or >= 100: none */
	int32_t utilization_switch; /* 0: no limit, by the default rule */
	int32_t recent_kernel;      /* < 0: hold every launch */
	bool is_suspended;
};

/* What a launch has to keep to. */
struct pace_terms {
	uint32_t share_pct; /* 1..99, or 100: no limit */
	bool is_blocked;    /* held until this changes */
};

/* The rule that the variable's text names; NULL and whatever else is the default. */
enum pace_rule pace_policy_rule(const char *text);

/* CUDA_TASK_PRIORITY as the region may hold it: 0 high, 1 low, which is the default. */
int pace_policy_priority(const char *text);

struct pace_terms pace_policy_terms(const struct pace_wishes *wishes);

/*
 * Says in recent_kernel that the tenant launches: makes it 2 unless it is negative, which is the
 * monitor's. Writes only when it has to; called at least every 100 ms in which something was launched.
 */
void pace_policy_launched(int32_t *recent_kernel);
