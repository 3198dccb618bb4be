#include "core/quota.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/leaving.h"
#include "core/limit.h"
#include "core/presence.h"
#include "core/reaper.h"
#include "shm/account.h"
#include "shm/doubted.h"
#include "shm/kept.h"
#include "shm/mirror.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Looking for dead processes opens the file: programs that ask in a loop do not pay each time. */
#define SETTLE_EVERY_NS NSEC_PER_MSEC

struct quota_state {
	/* Constant after quota_init(). */
	struct region *region;
	struct slot *place; /* what holds our slot; changed under mutex */
	unsigned slot;
	_Atomic bool is_missing; /* our slot is not held, and cannot be from here; atomic */
	struct limit limit;      /* atomic */
	/* Constant after quota_init(). */
	bool counts_contexts;
	_Atomic int64_t settled_ns; /* when quota_settle() looked last, 0 = never; atomic */
	/* Orders this process's changes of its slot; zero is an unlocked mutex. */
	pthread_mutex_t mutex;
	_Atomic int changers; /* threads that have the mutex or wait for it; atomic */
	/* Devices on which a block is kept back for us, as bits; written under mutex, atomic. */
	_Atomic uint32_t small_devices;
	/* mutex */
	bool has_left;    /* the monitors see the slot free */
	int32_t host_pid; /* our pid in NVML's lists where it is another there, else 0 */
	struct account_holder holder[RATION_DEVICES];
	bool is_settled[RATION_DEVICES];
	uint64_t held_bytes[RATION_DEVICES][QUOTA_KINDS];
	uint64_t taken_bytes[RATION_DEVICES]; /* of QUOTA_DATA, ever */
	/* On each device, in all, and on which, as bits. */
	uint64_t doubted_bytes[RATION_DEVICES], all_doubted_bytes, doubted_devices;
};
PROCESS_STATE(quota_state, state);

void quota_init(struct region *region, struct slot *slot)
{
	process_wipe_on_fork(&state, sizeof(state));
	presence_init(region);
	state.s.region = region;
	state.s.place = slot;
	state.s.slot = slot->index;
	state.s.counts_contexts = !(region->own->flags & RATION_FLAG_CONTEXT_FREE);
	limit_init(&state.s.limit, region, LIMITS_MEM);
}

static void lock(void)
{
	atomic_fetch_add(&state.s.changers, 1);
	pthread_mutex_lock(&state.s.mutex);
}

static void unlock(void)
{
	pthread_mutex_unlock(&state.s.mutex);
	atomic_fetch_sub(&state.s.changers, 1);
}

bool quota_has_region(int64_t now_ns)
{
	return presence_is_there(now_ns);
}

bool quota_has_region_now(void)
{
	return quota_has_region(clock_now_ns());
}

static bool is_whole(void)
{
	return quota_has_region(clock_now_ns());
}

/* mutex held. The slot was settled to 0 bytes when it was claimed. */
static struct account_holder *holder_of(int d)
{
	struct account_holder *h = &state.s.holder[d];

	if (!state.s.is_settled[d]) {
		account_settle(h, state.s.region->own, state.s.slot, d);
		state.s.is_settled[d] = true;
	}
	return h;
}

/* Shows the monitors what this process holds. mutex held, so there is one writer. */
static void mirror(int d, bool grows)
{
	const uint64_t *held = state.s.held_bytes[d];

	if (!state.s.has_left)
		mirror_show(state.s.region, state.s.slot, d,
			    &(struct mirror_held){ .context_bytes = held[QUOTA_CONTEXT],
						   .module_bytes = held[QUOTA_MODULE],
						   .data_bytes = held[QUOTA_DATA] },
			    grows);
}

/* mutex held, the slot is ours. */
static void show_host_pid(void)
{
	int32_t *shown = &state.s.region->hami->procs[state.s.slot].hostpid;

	if (state.s.host_pid && !state.s.has_left)
		__atomic_store_n(shown, state.s.host_pid, __ATOMIC_RELAXED);
}

/*
 * mutex held: our slot was taken from us and is back: what we hold is charged to it again, and no
 * more, since what was given back meanwhile stands there.
 */
static void charge_again(void)
{
	show_host_pid();
	for (int d = 0; d < RATION_DEVICES; d++) {
		const uint64_t *held = state.s.held_bytes[d];
		uint64_t bytes = held[QUOTA_CONTEXT] + held[QUOTA_MODULE] + held[QUOTA_DATA];
		struct account_holder *h;

		if (!state.s.is_settled[d])
			continue;
		if (atomic_load(&state.s.small_devices) >> d & 1)
			kept_show(state.s.region->own, state.s.slot, d, true);
		state.s.is_settled[d] = false;
		h = holder_of(d);
		if (h->bytes < bytes)
			account_add(h, bytes - h->bytes, 0);
		else
			account_sub(h, h->bytes - bytes);
		mirror(d, true);
	}
}

/* Until it can be taken back, perhaps by who has the old root directory. */
static void miss_slot(void)
{
	if (!atomic_exchange(&state.s.is_missing, true))
		log_warn("region %s: the program closed its file, and it cannot be opened here; "
			 "no memory is given until it is held again",
			 state.s.region->path);
}

/*
 * mutex held, before what we hold is changed: 0, or -ESTALE when our slot is not ours any more, or
 * not now.
 */
static int check(void)
{
	int rc = is_whole() ? slot_check(state.s.region, state.s.place) : -ESTALE;

	if (rc == -ENOENT || rc == -EAGAIN)
		miss_slot();
	else if (rc < 0)
		presence_lose();
	if (rc < 0)
		return -ESTALE;
	/* What was given back while it was missed stands in the account still. */
	if (rc == 1 || atomic_load_explicit(&state.s.is_missing, memory_order_relaxed)) {
		atomic_store(&state.s.is_missing, false);
		charge_again();
	}
	return 0;
}

void quota_hold_slot(void)
{
	lock();
	check();
	unlock();
}

static uint64_t limit_of(struct dev dev, bool is_region_whole)
{
	return limit_now(&state.s.limit, dev, is_region_whole);
}

/* mutex held: what we know that we hold passes the limit, whatever the file says. */
static bool passes_alone(struct dev dev, uint64_t bytes, uint64_t limit)
{
	const uint64_t *held = state.s.held_bytes[dev.v];
	uint64_t own = held[QUOTA_CONTEXT] + held[QUOTA_MODULE] + held[QUOTA_DATA];

	return limit && (own > limit || bytes > limit - own);
}

/* mutex held: the account has them. */
static void hold(int d, enum quota_kind kind, uint64_t bytes)
{
	state.s.held_bytes[d][kind] += bytes;
	if (kind == QUOTA_DATA)
		state.s.taken_bytes[d] += bytes;
	mirror(d, true);
}

/* Of the limit, what is for who finds out whether the driver has room; the region is whole. */
static uint64_t kept_of(struct dev dev)
{
	return kept_is(state.s.region->own, dev.v) ? QUOTA_KEPT_BYTES : 0;
}

/* What may be held but for `kept_bytes`; 0: there is no limit. */
static uint64_t less_kept(uint64_t limit, uint64_t kept_bytes)
{
	return limit > kept_bytes ? limit - kept_bytes : limit;
}

/* mutex held, after check(). */
static int add_locked(struct dev dev, enum quota_kind kind, uint64_t bytes, uint64_t kept_bytes)
{
	uint64_t limit = less_kept(limit_of(dev, true), kept_bytes);
	int rc = passes_alone(dev, bytes, limit) ? -EDQUOT :
						   account_add(holder_of(dev.v), bytes, limit);

	if (rc == 0)
		hold(dev.v, kind, bytes);
	return rc;
}

int quota_take(struct dev dev, enum quota_kind kind, uint64_t bytes)
{
	int rc;

	lock();
	rc = check();
	if (rc == 0)
		rc = add_locked(dev, kind, bytes, kept_of(dev));
	unlock();
	return rc;
}

/* mutex held, after check(). Before the sum grows and after it fell: who is refused sees why. */
static void set_doubted(int d, uint64_t bytes)
{
	uint64_t bit = UINT64_C(1) << d;

	state.s.all_doubted_bytes += bytes - state.s.doubted_bytes[d];
	state.s.doubted_bytes[d] = bytes;
	state.s.doubted_devices &= ~bit;
	state.s.doubted_devices |= bytes ? bit : 0;
	doubted_show(state.s.region->own, state.s.slot, state.s.doubted_devices,
		     state.s.all_doubted_bytes);
}

int quota_doubt(struct dev dev, enum quota_kind kind, uint64_t bytes)
{
	int rc;

	if (bytes > UINT64_MAX / 4)
		return -EDQUOT;
	lock();
	rc = check();
	if (rc == 0) {
		set_doubted(dev.v, state.s.doubted_bytes[dev.v] + bytes);
		rc = add_locked(dev, kind, bytes, 0);
		if (rc < 0)
			set_doubted(dev.v, state.s.doubted_bytes[dev.v] - bytes);
	}
	unlock();
	return rc;
}

void quota_reap(void)
{
	if (is_whole())
		reaper_reap(state.s.region, (int)state.s.slot);
}

void quota_tidy(int64_t now_ns)
{
	reaper_tick(state.s.region, (int)state.s.slot, now_ns);
}

void quota_keep_block(struct dev dev, bool has_small)
{
	uint32_t bit = UINT32_C(1) << dev.v;

	if ((atomic_load_explicit(&state.s.small_devices, memory_order_relaxed) & bit) ==
	    (has_small ? bit : 0))
		return;
	lock();
	if (has_small)
		atomic_fetch_or(&state.s.small_devices, bit);
	else
		atomic_fetch_and(&state.s.small_devices, ~bit);
	if (check() == 0)
		kept_show(state.s.region->own, state.s.slot, dev.v, has_small);
	unlock();
}

uint64_t quota_kept(struct dev dev)
{
	return is_whole() && kept_look(state.s.region->own, dev.v) ? QUOTA_KEPT_BYTES : 0;
}

int quota_reserve(struct dev dev, enum quota_kind kind, uint64_t bytes)
{
	int rc = quota_take(dev, kind, bytes);

	if (rc != -EDQUOT)
		return rc;
	/* Also when nothing was reaped by us: another may have done it in the same moment. */
	return LEAVING_TRY(dev, bytes_sum(bytes, quota_kept(dev)), quota_take(dev, kind, bytes));
}

/* mutex held. */
static void take_off(int d, enum quota_kind kind, uint64_t bytes)
{
	uint64_t *held = &state.s.held_bytes[d][kind];
	int rc = check();

	if (bytes > *held)
		bytes = *held;
	*held -= bytes;
	if (rc < 0)
		return;
	mirror(d, false);
	account_sub(holder_of(d), bytes);
}

void quota_doubt_over(struct dev dev, enum quota_kind kind, uint64_t bytes, uint64_t back_bytes)
{
	uint64_t *doubted = &state.s.doubted_bytes[dev.v];

	lock();
	if (back_bytes)
		take_off(dev.v, kind, back_bytes);
	if (check() == 0)
		set_doubted(dev.v, *doubted - bytes_least(*doubted, bytes));
	unlock();
}

/* mutex held. */
static int charge(int d, enum quota_kind kind, uint64_t bytes)
{
	int rc = check();

	if (rc == 0)
		rc = account_add(holder_of(d), bytes, 0);
	if (rc == 0)
		hold(d, kind, bytes);
	return rc;
}

int quota_charge(struct dev dev, enum quota_kind kind, uint64_t bytes)
{
	int rc;

	lock();
	rc = charge(dev.v, kind, bytes);
	unlock();
	return rc;
}

/* mutex held. */
static uint64_t overhead(int d)
{
	return state.s.held_bytes[d][QUOTA_CONTEXT] + state.s.held_bytes[d][QUOTA_MODULE];
}

uint64_t quota_overhead(struct dev dev)
{
	uint64_t bytes;

	lock();
	bytes = overhead(dev.v);
	unlock();
	return bytes;
}

void quota_set_overhead(struct dev dev, enum quota_kind kind, uint64_t bytes)
{
	uint64_t *held = state.s.held_bytes[dev.v], have, less;

	lock();
	have = overhead(dev.v);
	if (bytes > have) {
		charge(dev.v, kind, bytes - have);
	} else if (bytes < have) {
		less = have - bytes < held[kind] ? have - bytes : held[kind];
		take_off(dev.v, kind, less);
		take_off(dev.v, kind == QUOTA_CONTEXT ? QUOTA_MODULE : QUOTA_CONTEXT,
			 have - bytes - less);
	}
	unlock();
}

void quota_raise_overhead(struct dev dev, enum quota_kind kind, uint64_t bytes)
{
	uint64_t have;

	lock();
	have = overhead(dev.v);
	if (bytes > have)
		charge(dev.v, kind, bytes - have);
	unlock();
}

struct quota_data quota_data(struct dev dev)
{
	struct quota_data data;

	lock();
	data.held_bytes = state.s.held_bytes[dev.v][QUOTA_DATA];
	data.taken_bytes = state.s.taken_bytes[dev.v];
	unlock();
	return data;
}

void quota_release(struct dev dev, enum quota_kind kind, uint64_t bytes)
{
	if (bytes == 0)
		return;
	lock();
	take_off(dev.v, kind, bytes);
	unlock();
}

void quota_move(struct dev dev, enum quota_kind from, enum quota_kind to, uint64_t bytes)
{
	uint64_t *held = state.s.held_bytes[dev.v];

	lock();
	if (bytes > held[from])
		bytes = held[from];
	held[from] -= bytes;
	held[to] += bytes;
	if (check() == 0)
		mirror(dev.v, false);
	unlock();
}

uint64_t quota_held(struct dev dev, enum quota_kind kind)
{
	uint64_t bytes;

	lock();
	bytes = state.s.held_bytes[dev.v][kind];
	unlock();
	return bytes;
}

/* What the tenant holds of `dev`; the caller has seen the region whole. */
static uint64_t total_bytes(struct dev dev)
{
	return __atomic_load_n(&state.s.region->own->accounts[dev.v].total_bytes, __ATOMIC_RELAXED);
}

/* The caller has seen the region whole. */
static bool is_alone(struct dev dev)
{
	const struct ration_slot *slot = &state.s.region->own->slots[state.s.slot];

	return total_bytes(dev) == __atomic_load_n(&slot->used_bytes[dev.v], __ATOMIC_RELAXED);
}

bool quota_is_alone(struct dev dev)
{
	return is_whole() && is_alone(dev);
}

/* The caller has seen the region whole. */
static void settle(struct dev dev, int64_t now_ns)
{
	int64_t last_ns;

	/* Alone there is nobody to look for. */
	if (is_alone(dev))
		return;
	last_ns = atomic_load(&state.s.settled_ns);
	if (last_ns && now_ns - last_ns < SETTLE_EVERY_NS)
		return;
	atomic_store(&state.s.settled_ns, now_ns);
	quota_reap();
}

void quota_settle(struct dev dev)
{
	int64_t now_ns = clock_now_ns();

	if (quota_has_region(now_ns))
		settle(dev, now_ns);
}

unsigned quota_slot(void)
{
	return state.s.slot;
}

void quota_leave(void)
{
	/*
	 * A thread that shows our figures now has the mutex; one that was ended in the midst of it
	 * has it for ever, so the monitors' view is not worth waiting for.
	 */
	for (int tries = 0; atomic_load(&state.s.changers) > 0; tries++) {
		if (tries == 100)
			return;
		clock_sleep_ns(100 * NSEC_PER_USEC);
	}
	lock();
	state.s.has_left = true;
	if (!presence_is_lost())
		slot_vacate(state.s.region, state.s.place);
	unlock();
}

void quota_name_host_pid(unsigned pid)
{
	lock();
	state.s.host_pid = (int32_t)pid;
	if (check() == 0)
		show_host_pid();
	unlock();
}

uint64_t quota_used(struct dev dev)
{
	if (!is_whole())
		return UINT64_MAX;
	return total_bytes(dev);
}

uint64_t quota_limit(struct dev dev)
{
	return limit_of(dev, is_whole());
}

static uint64_t left_of(uint64_t limit, uint64_t used)
{
	if (limit == 0 && used != UINT64_MAX)
		return UINT64_MAX;
	return used < limit ? limit - used : 0;
}

struct quota_share quota_share(struct dev dev, int64_t now_ns)
{
	bool is_region_whole = quota_has_region(now_ns);
	uint64_t limit = limit_of(dev, is_region_whole), used = UINT64_MAX;

	if (limit && is_region_whole)
		settle(dev, now_ns);
	if (is_region_whole)
		used = total_bytes(dev);
	return (struct quota_share){
		.limit_bytes = limit,
		.left_bytes = left_of(is_region_whole ? less_kept(limit, kept_of(dev)) : limit,
				      used),
	};
}

bool quota_is_over(struct dev dev)
{
	uint64_t limit = quota_limit(dev);

	return limit && quota_used(dev) > limit;
}

uint64_t quota_left(struct dev dev)
{
	uint64_t limit = quota_limit(dev);

	return left_of(limit, quota_used(dev));
}

uint64_t quota_doubted(struct dev dev)
{
	return is_whole() ? doubted_sum(state.s.region->own, dev.v) : 0;
}

const char *quota_uuid(struct dev dev)
{
	return state.s.limit.uuid[dev.v];
}

struct ration_device *quota_device(struct dev dev)
{
	return is_whole() ? &state.s.region->own->devices[dev.v] : NULL;
}

bool quota_counts_contexts(void)
{
	return state.s.counts_contexts;
}
