/*
 * The worker: one thread of ours in the program's process, for what must not be in the program's
 * way. Now and then it compares what is charged with what the card says this process holds: modules
 * that load at their first use, local memory that grows at a launch and libraries' workspaces show in
 * no call.
 *
 * It is started only once the driver has threads of its own (after the first context), blocks all
 * signals, is detached and has a small stack. A process goes on without it where it cannot be had.
 */
#pragma once

/* Starts it if this process has none. Cheap to call again. */
void worker_start(void);
