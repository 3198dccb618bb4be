#include "hook/signals.h"

#include "base/process.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

enum { SIGNALS = 2, TURNS = 2 };

static const int numbers[SIGNALS] = { SIGUSR1, SIGUSR2 };

struct signals_state {
	_Atomic bool is_on; /* of this process, not of a fork child */
	_Atomic bool wants_suspension;
};
PROCESS_STATE(signals_state, state);

/* The program's, and a fork child's as well. */
static struct {
	/* Written by who puts ours in, then published. */
	struct sigaction actions[SIGNALS][TURNS];
	unsigned turn[SIGNALS];
	/* NULL: none; what was there where ours is now. Atomic. */
	const struct sigaction *_Atomic next[SIGNALS];
} program;

static int index_of(int number)
{
	return number == SIGUSR1 ? 0 : 1;
}

/* A process that never asked for it ends by the signal, as it would have. */
static void end_by(int number)
{
	struct sigaction action = { .sa_handler = SIG_DFL };

	sigaction(number, &action, NULL);
	raise(number);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const struct sigaction *next = atomic_load(&program.next[index_of(number)]);
	bool is_on = atomic_load(&state.s.is_on);
	int saved = errno;

	if (is_on)
		atomic_store(&state.s.wants_suspension, number == SIGUSR2);
	errno = saved;
	if (next && next->sa_flags & SA_SIGINFO)
		next->sa_sigaction(number, info, context);
	else if (next && next->sa_handler != SIG_DFL && next->sa_handler != SIG_IGN)
		next->sa_handler(number);
	else if (!is_on && (!next || next->sa_handler == SIG_DFL))
		end_by(number);
}

/* As what it stands before: the same signals are blocked, calls go on as they would. */
static void put_before(int i, const struct sigaction *old)
{
	struct sigaction *kept = &program.actions[i][program.turn[i]++ % TURNS];
	struct sigaction own = *old;

	*kept = *old;
	atomic_store(&program.next[i], kept);
	if (!(old->sa_flags & SA_SIGINFO) &&
	    (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN))
		own.sa_flags = SA_RESTART | SA_ONSTACK;
	own.sa_flags &= ~(int)SA_RESETHAND;
	own.sa_flags |= SA_SIGINFO;
	own.sa_sigaction = on_signal;
	sigaction(numbers[i], &own, NULL);
}

void signals_check(void)
{
	struct sigaction now;

	if (!atomic_load(&state.s.is_on))
		return;
	for (int i = 0; i < SIGNALS; i++)
		if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_sigaction != on_signal)
			put_before(i, &now);
}

void signals_start(void)
{
	process_wipe_on_fork(&state, sizeof(state));
	atomic_store(&state.s.is_on, true);
	signals_check();
}

void signals_forget(void)
{
	atomic_store(&state.s.wants_suspension, false);
}

bool signals_want_suspension(void)
{
	return atomic_load(&state.s.wants_suspension);
}
