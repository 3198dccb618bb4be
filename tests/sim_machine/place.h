/*
 * A machine file for one test, and child processes that work on it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Names a new file in RATION_SIM_FILE and sets RATION_SIM to `config` (NULL: unset). The caller's
 * process is not attached to a machine yet and removes the file with place_remove(). */
void place_make(const char *config);

/* The file's path. */
const char *place_path(void);

void place_remove(void);

/* Memory that this process and its later children share, zeroed. Ends the test without it. */
void *place_shared(size_t bytes);

/* Starts a child that runs body(arg) and exits with what it returns. */
pid_t place_start(int (*body)(void *arg), void *arg);

/* Waits for a child: its exit status, or 128 + the signal that ended it. */
int place_wait(pid_t pid);

/* Runs body(arg) in a child to its end. */
int place_run(int (*body)(void *arg), void *arg);

/* Kills a child by SIGKILL and waits for it. */
void place_kill(pid_t pid);

/* Moves this process (flags as for unshare(2)) into new namespaces, as root or in a user namespace of
 * its own, with no mount seen outside. False where neither is allowed. */
bool place_unshare(int flags);

/* Waits until *flag is at least `value`; false after 60 s. */
bool place_await(_Atomic uint32_t *flag, uint32_t value);
