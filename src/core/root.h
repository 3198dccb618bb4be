/*
 * Work that names a file by its path, also after the program has changed its root directory, where
 * paths lead nowhere, or elsewhere: a thread of ours has kept the old root and does it for the
 * others. Who does such work looks whether what it found is what it wanted.
 *
 * Thread safe. The caller holds no lock that the serving thread may need.
 */
#pragma once

#include <stdbool.h>

/*
 * The calling thread serves from now on, with a root directory of its own; `wake` ends its sleep.
 * False without the right to a root of its own: nobody serves.
 */
bool root_serve_here(void (*wake)(void));

/* True when somebody waited and was served. The thread that serves, often. */
bool root_serve(void);

/*
 * What job(arg) says, -errno where it failed. Where it found something else or nothing, what it
 * says in the thread that serves, for which it waits for a second at most; it takes little time.
 */
int root_do(int (*job)(void *arg), void *arg);
