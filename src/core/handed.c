#include "core/handed.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/charge.h"
#include "core/given.h"
#include "core/lent.h"
#include "core/quota.h"
#include "core/taken.h"
#include "shm/heir.h"
#include "shm/region.h"
#include "shm/residency.h"

#include <pthread.h>
#include <stdatomic.h>

/* Workers look ten times a second, in a crowd less often (core/watch.h). */
#define WAIT_NS (2 * NSEC_PER_SEC)

struct handed_state {
	struct ration_region *own; /* constant after handed_init() */
	unsigned slot;             /* likewise */
	_Atomic bool has_imported, has_exported;
	_Atomic uint64_t noted_bytes[RATION_DEVICES];
	_Atomic uint64_t kept_bytes[RATION_DEVICES]; /* written under mutex */
	/* With it what descriptors held is looked for and released; before the next. */
	pthread_mutex_t lent;
	_Atomic bool is_settling;   /* written under lent */
	_Atomic uint64_t lent_ends; /* how often there was some; likewise */
	/* Orders the rest; taken before the quota's. Never held across a wait. */
	pthread_mutex_t mutex;
	uint32_t
		seen[HAMI_SLOTS]; /* looks of each importer when something was kept last; 0: none */
};
PROCESS_STATE(handed_state, state);

void handed_init(struct region *region, unsigned slot)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.own = region->own;
	state.s.slot = slot;
	lent_init(region, slot);
}

static bool has_region(void)
{
	return state.s.own && quota_has_region_now();
}

bool handed_has_imported(void)
{
	return atomic_load_explicit(&state.s.has_imported, memory_order_relaxed);
}

void handed_import(void)
{
	atomic_store(&state.s.has_imported, true);
	if (has_region())
		residency_note_import(state.s.own, state.s.slot);
}

void handed_export(void)
{
	atomic_store(&state.s.has_exported, true);
	if (has_region())
		heir_note_export(state.s.own, state.s.slot);
}

/*
 * Something is imported that the figure of this process does not show, since sparse arrays alone
 * hold it, or of which nobody looks whether it does.
 */
static bool has_unseen_imports(void)
{
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct dev dev = { d };

		if (handle_has_unseen_imports(dev) ||
		    (!charge_may_look(dev) &&
		     (handle_has_imports(dev) || track_has_weightless(dev))))
			return true;
	}
	return false;
}

void handed_looked(void)
{
	if (has_region() && !has_unseen_imports())
		residency_note_look(state.s.own, state.s.slot);
}

void handed_hold(void)
{
	if (!has_region())
		return;
	given_hold();
	taken_hold();
	if (handed_has_imported())
		residency_note_import(state.s.own, state.s.slot);
	if (atomic_load_explicit(&state.s.has_exported, memory_order_relaxed))
		heir_note_export(state.s.own, state.s.slot);
}

void handed_note(struct dev dev, uint64_t bytes)
{
	atomic_fetch_add(&state.s.noted_bytes[dev.v], bytes);
}

/* Of what is noted, `bytes` at most. */
static uint64_t take_noted(struct dev dev, uint64_t bytes)
{
	_Atomic uint64_t *noted = &state.s.noted_bytes[dev.v];
	uint64_t have = atomic_load_explicit(noted, memory_order_relaxed);

	while (have && !atomic_compare_exchange_weak(noted, &have, have - bytes_least(have, bytes)))
		;
	return bytes_least(have, bytes);
}

/* mutex held: who may have it. This process knows it of itself where it can look. False: nobody. */
static bool see_importers(struct dev dev)
{
	bool is_any = false;

	for (unsigned i = 0; i < HAMI_SLOTS; i++) {
		bool is_known = i == state.s.slot && charge_may_look(dev);

		state.s.seen[i] = is_known ? 0 : residency_import_looks(state.s.own, i);
		is_any |= state.s.seen[i] != 0;
	}
	return is_any;
}

/* mutex held. */
static bool have_all_looked(void)
{
	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		if (!residency_has_looked(state.s.own, i, state.s.seen[i]))
			return false;
	return true;
}

/* Of what ended and others may have: what stays charged until they have looked. */
static uint64_t keep(struct dev dev, uint64_t bytes)
{
	if (bytes == 0 || !has_region())
		return 0;
	pthread_mutex_lock(&state.s.mutex);
	if (see_importers(dev))
		atomic_fetch_add(&state.s.kept_bytes[dev.v], bytes);
	else
		bytes = 0;
	pthread_mutex_unlock(&state.s.mutex);
	return bytes;
}

uint64_t handed_keep(struct dev dev, uint64_t bytes)
{
	uint64_t noted_bytes = take_noted(dev, bytes);
	uint64_t lent_bytes = lent_claim(dev, noted_bytes);

	return bytes - lent_bytes - keep(dev, noted_bytes - lent_bytes);
}

static bool is_any(struct dev dev)
{
	return atomic_load_explicit(&state.s.kept_bytes[dev.v], memory_order_relaxed) > 0;
}

/* True when it was released. */
static bool settle(struct dev dev)
{
	uint64_t bytes = 0;

	if (!has_region())
		return false;
	pthread_mutex_lock(&state.s.mutex);
	if (have_all_looked())
		bytes = atomic_exchange(&state.s.kept_bytes[dev.v], 0);
	pthread_mutex_unlock(&state.s.mutex);
	quota_release(dev, QUOTA_DATA, bytes);
	return bytes > 0;
}

/*
 * What no descriptor holds any more: those who made something of one have to look. True when some
 * was found, be it by another thread meanwhile.
 */
static bool settle_lent(struct dev dev)
{
	uint64_t before = atomic_load(&state.s.lent_ends), bytes;
	int held = sys_cancel_hold();

	pthread_mutex_lock(&state.s.lent);
	atomic_store(&state.s.is_settling, true);
	bytes = lent_settle(dev);
	quota_release(dev, QUOTA_DATA, bytes - keep(dev, bytes));
	if (bytes)
		atomic_fetch_add(&state.s.lent_ends, 1);
	atomic_store(&state.s.is_settling, false);
	pthread_mutex_unlock(&state.s.lent);
	sys_cancel_release(held);
	return atomic_load(&state.s.lent_ends) != before;
}

/* What was given of pools and nobody can hold any more. True when there was some. */
static bool settle_given(struct dev dev)
{
	uint64_t bytes = given_settle(dev);

	quota_release(dev, QUOTA_DATA, bytes);
	return bytes > 0;
}

void handed_settle(struct dev dev)
{
	settle_given(dev);
	lent_claim(dev, 0);
	if (lent_any(dev))
		settle_lent(dev);
	if (is_any(dev))
		settle(dev);
}

bool handed_await(struct dev dev)
{
	int64_t start_ns = clock_now_ns(), waited_ns = 0;

	if (settle_given(dev))
		return true;
	/* How long somebody has a descriptor nobody can say. */
	if ((lent_any(dev) || atomic_load(&state.s.is_settling)) && settle_lent(dev) &&
	    !is_any(dev))
		return true;
	while (is_any(dev) && waited_ns < WAIT_NS) {
		if (settle(dev))
			return true;
		clock_sleep_ns(clock_nap_ns(waited_ns));
		waited_ns = clock_now_ns() - start_ns;
		/* Who has died holds nothing. */
		quota_reap();
	}
	return false;
}
