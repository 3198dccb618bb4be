#include "hook/signals.h"

#include "base/process.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

enum { SIGNALS = 2, TURNS = 8 };

static const int numbers[SIGNALS] = { SIGUSR1, SIGUSR2 };

struct signals_state {
	_Atomic bool is_on; /* of this process, not of a fork child */
	_Atomic bool wants_suspension;
};
PROCESS_STATE(signals_state, state);

/* What was there where ours is now, and what that had found, which may have been ours. */
struct found {
	struct sigaction action;
	const struct found *before; /* NULL: none */
};

/* The program's, and a fork child's as well. */
static struct {
	/* Written by who puts ours in, then published. */
	struct found found[SIGNALS][TURNS];
	unsigned turn[SIGNALS];
	const struct found *_Atomic last[SIGNALS]; /* NULL: none. Atomic. */
} program;

/*
 * How often the thread is in our handler, as a handler of the program's may go on to what it found;
 * and the first one's frame. A jump out of a handler is told by a frame that is not below that.
 */
static __thread volatile unsigned char depth[SIGNALS] __attribute__((tls_model("initial-exec")));
static __thread const void *volatile first[SIGNALS] __attribute__((tls_model("initial-exec")));

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

static void enter(int i, const void *frame)
{
	if (depth[i] && (uintptr_t)frame >= (uintptr_t)first[i])
		depth[i] = 0;
	if (!depth[i])
		first[i] = frame;
}

/* What is to be called: the last that was found, or where that has called ours, the one before. */
static const struct sigaction *next_of(int i)
{
	const struct found *found = atomic_load(&program.last[i]);

	for (unsigned n = depth[i]; n > 0 && found; n--)
		found = found->before;
	return found && depth[i] < TURNS ? &found->action : NULL;
}

static void call(const struct sigaction *next, int number, siginfo_t *info, void *context)
{
	if (next->sa_flags & SA_SIGINFO)
		next->sa_sigaction(number, info, context);
	else if (next->sa_handler != SIG_DFL && next->sa_handler != SIG_IGN)
		next->sa_handler(number);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	int i = index_of(number), saved = errno;
	bool is_on = atomic_load(&state.s.is_on), is_default;
	const struct sigaction *next;

	enter(i, __builtin_frame_address(0));
	next = next_of(i);
	is_default = !next || (!(next->sa_flags & SA_SIGINFO) && next->sa_handler == SIG_DFL);
	if (is_on)
		atomic_store(&state.s.wants_suspension, number == SIGUSR2);
	errno = saved;
	if (next) {
		depth[i]++;
		call(next, number, info, context);
		depth[i]--;
	}
	/* Who was called by the program's own handler ends nothing. */
	if (!is_on && is_default && !depth[i])
		end_by(number);
}

/* As what it stands before: the same signals are blocked, calls go on as they would. */
static void put_before(int i, const struct sigaction *old)
{
	struct found *found = &program.found[i][program.turn[i]++ % TURNS];
	struct sigaction own = *old;

	*found = (struct found){ *old, atomic_load(&program.last[i]) };
	atomic_store(&program.last[i], found);
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
