#include "core/pace_policy.h"

enum { RECENT_ACTIVE = 2 };

void pace_policy_launched(int32_t *recent_kernel)
{
	int32_t have = __atomic_load_n(recent_kernel, __ATOMIC_RELAXED);

	while (have >= 0 && have != RECENT_ACTIVE &&
	       !__atomic_compare_exchange_n(recent_kernel, &have, RECENT_ACTIVE, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}
