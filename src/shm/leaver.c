#include "shm/leaver.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/process.h"
#include "shm/account.h"
#include "shm/heir.h"

#include <pthread.h>

/* An owner who was seen to go; all zero: nobody. */
struct leaver {
	int64_t since_ns;
	uint64_t start_ticks;
	uint32_t pid, lifeline;
};

struct leaver_state {
	pthread_mutex_t mutex;        /* zero is an unlocked one */
	struct leaver of[HAMI_SLOTS]; /* mutex */
};
PROCESS_STATE(leaver_state, state);

static bool is_of(const struct leaver *l, const struct ration_slot *s)
{
	return l->since_ns && l->start_ticks == s->start_ticks && l->lifeline == s->lifeline &&
	       l->pid == __atomic_load_n(&s->pid, __ATOMIC_RELAXED);
}

/* Before the lock: a child forked while it is held must find it free. */
static void lock(void)
{
	process_wipe_on_fork(&state, sizeof(state));
	pthread_mutex_lock(&state.s.mutex);
}

static void unlock(void)
{
	pthread_mutex_unlock(&state.s.mutex);
}

/* Since when he is seen to go. */
static int64_t note(const struct ration_slot *s, unsigned index)
{
	struct leaver *l = &state.s.of[index];
	int64_t since_ns;

	lock();
	if (!is_of(l, s))
		*l = (struct leaver){ .since_ns = clock_now_ns(),
				      .start_ticks = s->start_ticks,
				      .pid = s->pid,
				      .lifeline = s->lifeline };
	since_ns = l->since_ns;
	unlock();
	return since_ns;
}

static void forget(unsigned index)
{
	lock();
	state.s.of[index].since_ns = 0;
	unlock();
}

/* There is nothing that could be had twice. */
static bool holds_nothing(struct ration_region *own, unsigned index)
{
	struct account_holder h;

	for (int d = 0; d < RATION_DEVICES; d++) {
		account_settle(&h, own, index, d);
		if (h.bytes)
			return false;
	}
	return __atomic_load_n(&own->residency[index].host_bytes, __ATOMIC_RELAXED) == 0;
}

bool leaver_is_gone(struct ration_region *own, unsigned index, enum occupant_byte byte,
		    uint64_t out_keep_bytes[RATION_DEVICES])
{
	const struct ration_slot *s = &own->slots[index];
	bool is_gone = false;

	switch (occupant_look(s, byte)) {
	case OCCUPANT_ALIVE:
		forget(index);
		return false;
	case OCCUPANT_LEAVING:
		note(s, index);
		return false;
	case OCCUPANT_FADING:
		is_gone = clock_now_ns() - note(s, index) >= LEAVER_GONE_NS ||
			  (byte == OCCUPANT_BYTE_FREE && holds_nothing(own, index));
		break;
	case OCCUPANT_DEAD:
		is_gone = true;
	}
	if (!is_gone)
		return false;
	if (!heir_have_looked(own, index, out_keep_bytes)) {
		note(s, index);
		return false;
	}
	forget(index);
	return true;
}

uint64_t leaver_bytes(const struct ration_region *own, int dev)
{
	uint64_t bytes = 0;

	lock();
	for (int i = 0; i < HAMI_SLOTS; i++) {
		const uint64_t *held = dev < RATION_DEVICES ? &own->slots[i].used_bytes[dev] :
							      &own->residency[i].host_bytes;

		if (is_of(&state.s.of[i], &own->slots[i]))
			bytes = bytes_sum(bytes, __atomic_load_n(held, __ATOMIC_RELAXED));
	}
	unlock();
	return bytes;
}
