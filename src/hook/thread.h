/* Threads of ours in the program's process. */
#pragma once

typedef void *thread_body(void *arg);

/* Starts one, detached and with all signals blocked; `arg` is NULL. 0 or an error number. */
int thread_start(thread_body *body);
