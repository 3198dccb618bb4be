#include "shm/occupant.h"

#include "base/pid.h"

#include <errno.h>
#include <signal.h>
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

enum occupant_life occupant_by_pid(const struct ration_slot *s)
{
	uint64_t now;

	if (!s->pid || !s->pid_namespace || s->pid_namespace != pid_namespace())
		return OCCUPANT_UNKNOWN;
	if (kill((pid_t)s->pid, 0) < 0 && errno == ESRCH)
		return OCCUPANT_DEAD;
	/* Another process by the same number has another start. */
	now = s->start_ticks ? pid_start((int)s->pid) : 0;
	return now && now != s->start_ticks ? OCCUPANT_DEAD : OCCUPANT_ALIVE;
}

enum occupant_life occupant_life(const struct ration_slot *s)
{
	enum occupant_life by_pid = occupant_by_pid(s);

	if (by_pid == OCCUPANT_DEAD || !s->pid)
		return by_pid;
	switch (lifeline_look(s->lifeline, s->by_descriptor,
			      mark_of(s->pid, s->start_ticks, s->pid_namespace))) {
	case LIFELINE_HELD:
		return OCCUPANT_ALIVE;
	case LIFELINE_GONE:
		return OCCUPANT_DEAD;
	default:
		/* He became another program, which is us, and let go of the slot. */
		return by_pid == OCCUPANT_ALIVE && s->pid == (uint32_t)getpid() ? OCCUPANT_DEAD :
										  by_pid;
	}
}

bool occupant_is_out_of_sight(void)
{
	return pid_namespace() == 0;
}
