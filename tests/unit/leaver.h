/*
 * A process that was killed and whose exit does not come to its end: one of its threads is traced
 * by us, and is there until we wait for it. All that the process had open is closed by then.
 */
#pragma once

#include "base/proc_stat.h"
#include "child.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/ptrace.h>

/* A thread of the process that is not the one it began with; 0: there is none. */
static inline pid_t leaver_thread(pid_t pid)
{
	char path[32];
	struct dirent *entry;
	pid_t found = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && !found && (entry = readdir(tasks))) {
		pid_t thread = (pid_t)atoi(entry->d_name);

		found = thread > 0 && thread != pid ? thread : 0;
	}
	if (tasks)
		closedir(tasks);
	return found;
}

/* Kills it so. Returns the thread to be waited for, or 0 where nothing can be traced. */
static inline pid_t leaver_kill(pid_t pid)
{
	pid_t thread = leaver_thread(pid);
	struct proc_stat stat = { .state = '?' };

	if (!thread || ptrace(PTRACE_SEIZE, thread, NULL, NULL) < 0)
		return 0;
	kill(pid, SIGKILL);
	/* The last of what it had goes before the last thread's own end, whichever that is. */
	while (!proc_stat_read(pid, &stat) || stat.state != 'Z' || stat.threads > 2 ||
	       !proc_stat_read(thread, &stat) || stat.state != 'Z')
		usleep(1000);
	return thread;
}

/* Lets its exit come to the end. */
static inline void leaver_let_go(pid_t thread)
{
	CHECK(waitpid(thread, NULL, __WALL) == thread);
}
