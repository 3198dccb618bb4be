#include "shm/remains.h"

#include "base/clock.h"
#include "shm/leaver.h"
#include "shm/slot.h"

/* How often at least a living tenant says that it is, on a machine that is not overrun. */
#define SIGN_NS (2 * NSEC_PER_SEC)

/* What anybody holds of any device. */
static bool holds_any(const struct ration_region *own)
{
	for (int d = 0; d < RATION_DEVICES; d++)
		if (__atomic_load_n(&own->accounts[d].total_bytes, __ATOMIC_RELAXED))
			return true;
	return false;
}

/*
 * How long owners of whom nobody can say whether they have gone are waited for, ns. Who lived said
 * so (reaped_ns) not long before his end.
 */
static int64_t fading_ns(const struct ration_region *own)
{
	uint64_t said_ns = __atomic_load_n(&own->reaped_ns, __ATOMIC_RELAXED);
	uint64_t ago_ns = (uint64_t)clock_now_ns() - said_ns;

	return said_ns && ago_ns > (uint64_t)(SIGN_NS + LEAVER_GONE_NS) ? 0 : LEAVER_GONE_NS;
}

enum remains remains_look(const struct ration_region *own, int64_t waited_ns)
{
	enum occupant_life life = slot_look_free(own);

	if (life == OCCUPANT_ALIVE)
		return REMAINS_ALIVE;
	if (life == OCCUPANT_DEAD || !holds_any(own))
		return REMAINS_NOBODY;
	if (life == OCCUPANT_FADING)
		return waited_ns < fading_ns(own) ? REMAINS_FADING : REMAINS_NOBODY;
	return waited_ns < LEAVER_GONE_NS ? REMAINS_LEAVING : REMAINS_ALIVE;
}

bool remains_await(enum remains (*look)(const void *arg, int64_t waited_ns), const void *arg)
{
	int64_t start_ns = clock_now_ns(), waited_ns = 0;
	enum remains left;

	while ((left = look(arg, waited_ns)) != REMAINS_NOBODY && left != REMAINS_ALIVE) {
		clock_sleep_ns(clock_nap_ns(waited_ns));
		waited_ns = clock_now_ns() - start_ns;
	}
	return left == REMAINS_ALIVE;
}
