/*
 * Suspension of one process by signals, for who steers with them: SIGUSR2 suspends it, SIGUSR1 lets
 * it go on. Only where the operator asks for it (RATION_SIGNALS).
 *
 * A handler of the program's own still runs, after ours and as it would have: it may have been set
 * before ours, or after it, which the worker finds and puts behind ours again. Where the program
 * has none, the signals do not end it.
 */
#pragma once

#include <stdbool.h>

/* Takes the two signals, with the start of a member of a movable tenant. */
void signals_start(void);

/* Finds handlers that the program has set meanwhile. The worker, now and then. */
void signals_check(void);

/* What was asked by a signal is over. */
void signals_forget(void);

/* True when the last of the two signals was to suspend. */
bool signals_want_suspension(void);
