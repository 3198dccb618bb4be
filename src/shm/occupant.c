#include "shm/occupant.h"

#include "base/pid.h"

#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* What tells his lifeline from another's. */
static uint32_t mark_of(uint32_t pid, uint64_t start_ticks, uint64_t pid_namespace)
{
	uint64_t x = (start_ticks ^ pid_namespace << 32 ^ pid) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(x >> 32);
}

void occupant_begin(struct occupant *o, bool by_descriptor)
{
	*o = (struct occupant){ .start_ticks = pid_start((int)getpid()),
				.pid_namespace = pid_namespace(),
				.pid = (uint32_t)getpid(),
				.by_descriptor = by_descriptor };
	if (by_descriptor)
		lifeline_take(mark_of(o->pid, o->start_ticks, o->pid_namespace), &o->line);
}

void occupant_show(const struct occupant *o, struct ration_slot *s)
{
	__atomic_store_n(&s->pid, 0, __ATOMIC_RELEASE);
	s->start_ticks = o->start_ticks;
	s->pid_namespace = o->pid_namespace;
	s->lifeline = o->line.number;
	s->by_descriptor = !o->by_descriptor ? 0 : o->line.namespace ? o->line.namespace : 1;
	memset(s->comm, 0, sizeof(s->comm));
	prctl(PR_GET_NAME, s->comm);
	__atomic_store_n(&s->pid, o->pid, __ATOMIC_RELEASE);
}

bool occupant_is(const struct occupant *o, const struct ration_slot *s)
{
	return __atomic_load_n(&s->pid, __ATOMIC_ACQUIRE) == o->pid &&
	       s->start_ticks == o->start_ticks && s->pid_namespace == o->pid_namespace &&
	       s->lifeline == o->line.number;
}

/* One of another namespace has a number that means nothing here. */
static bool is_in_sight(const struct ration_slot *s)
{
	return s->pid_namespace && s->pid_namespace == pid_namespace();
}

static bool is_held(enum occupant_byte byte)
{
	return byte == OCCUPANT_BYTE_HELD;
}

/*
 * He is there by his pid: he became another program, and let go of the slot; or, where a descriptor
 * holds the byte, his program closed that.
 */
static enum occupant_life of_running(const struct ration_slot *s, enum occupant_byte byte,
				     enum lifeline_state line)
{
	bool is_another = line == LIFELINE_GONE || s->pid == (uint32_t)getpid();

	if (s->by_descriptor && !is_another)
		return OCCUPANT_ALIVE;
	/* A child of the program that he was has the byte. */
	return is_held(byte) ? OCCUPANT_FADING : OCCUPANT_DEAD;
}

/* His pid tells nothing; `is_in_sight`: but that somebody has it. */
static enum occupant_life of_hidden(const struct ration_slot *s, enum occupant_byte byte,
				    enum lifeline_state line, bool is_in_sight)
{
	if (!s->by_descriptor || line == LIFELINE_GONE)
		return OCCUPANT_FADING;
	/* His program may have closed the descriptor. */
	return is_held(byte) || is_in_sight || pid_namespace() == 0 ? OCCUPANT_ALIVE :
								      OCCUPANT_FADING;
}

enum occupant_life occupant_look(const struct ration_slot *s, enum occupant_byte byte)
{
	enum lifeline_state line = LIFELINE_UNKNOWN;

	if (is_held(byte) && (!s->by_descriptor || !s->pid))
		return OCCUPANT_ALIVE;
	if (!s->pid)
		return OCCUPANT_DEAD;
	/*
	 * Before his pid: it goes when the exit has begun, and with nothing seen of an exit he
	 * would be another program.
	 */
	if (s->by_descriptor)
		line = lifeline_look(s->lifeline, s->by_descriptor,
				     mark_of(s->pid, s->start_ticks, s->pid_namespace));
	if (line == LIFELINE_HELD)
		return OCCUPANT_ALIVE;
	if (!is_in_sight(s))
		return of_hidden(s, byte, line, false);
	switch (pid_look((int)s->pid, s->start_ticks)) {
	case PID_ENDED:
		return OCCUPANT_DEAD;
	case PID_ENDING:
		/* Perhaps only the thread that he began with has. */
		return is_held(byte) && line == LIFELINE_UNKNOWN ? OCCUPANT_ALIVE :
								   OCCUPANT_LEAVING;
	case PID_RUNS:
		return of_running(s, byte, line);
	default:
		return of_hidden(s, byte, line, true);
	}
}

bool occupant_seems_dead(const struct ration_slot *s)
{
	return s->pid && is_in_sight(s) && pid_look((int)s->pid, s->start_ticks) == PID_ENDED;
}
