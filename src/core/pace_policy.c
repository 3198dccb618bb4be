#include "core/pace_policy.h"

#include <string.h>

enum { RECENT_ACTIVE = 2, NO_LIMIT_PCT = 100 };

enum pace_rule pace_policy_rule(const char *text)
{
	if (!text)
		return PACE_RULE_DEFAULT;
	if (!strcmp(text, "force") || !strcmp(text, "FORCE"))
		return PACE_RULE_FORCE;
	if (!strcmp(text, "disable") || !strcmp(text, "DISABLE"))
		return PACE_RULE_DISABLE;
	return PACE_RULE_DEFAULT;
}

int pace_policy_priority(const char *text)
{
	/* The monitors index a table of two by it. */
	return text && !strcmp(text, "0") ? 0 : 1;
}

static bool is_limited(const struct pace_wishes *wishes)
{
	if (wishes->sm_limit_pct == 0 || wishes->sm_limit_pct >= NO_LIMIT_PCT)
		return false;
	switch (wishes->rule) {
	case PACE_RULE_FORCE:
		return true;
	case PACE_RULE_DISABLE:
		return false;
	case PACE_RULE_DEFAULT:
		break;
	}
	return wishes->utilization_switch != 0;
}

struct pace_terms pace_policy_terms(const struct pace_wishes *wishes)
{
	struct pace_terms terms = {
		.share_pct = is_limited(wishes) ? (uint32_t)wishes->sm_limit_pct : NO_LIMIT_PCT,
		.is_blocked = wishes->recent_kernel < 0 || wishes->is_suspended,
	};

	return terms;
}

void pace_policy_launched(int32_t *recent_kernel)
{
	int32_t have = __atomic_load_n(recent_kernel, __ATOMIC_RELAXED);

	while (have >= 0 && have != RECENT_ACTIVE &&
	       !__atomic_compare_exchange_n(recent_kernel, &have, RECENT_ACTIVE, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}
