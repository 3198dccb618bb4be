#include "base/pid.h"

#include "base/clock.h"
#include "base/proc_stat.h"
#include "base/process.h"
#include "base/sys.h"
#include "base/units.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t namespace_at(const char *path)
{
	struct stat st;

	return sys_stat(path, &st) == 0 ? st.st_ino : 0;
}

/* A process stays in the one it began in. */
struct pid_state {
	_Atomic uint64_t namespace; /* as seen last; 0 = not yet; atomic */
};
PROCESS_STATE(pid_state, state);

uint64_t pid_namespace(void)
{
	uint64_t now = namespace_at("/proc/self/ns/pid");

	if (now == 0)
		return atomic_load(&state.s.namespace);
	if (atomic_load_explicit(&state.s.namespace, memory_order_relaxed) != now) {
		process_wipe_on_fork(&state, sizeof(state));
		atomic_store(&state.s.namespace, now);
	}
	return now;
}

uint64_t pid_ipc_namespace(void)
{
	return namespace_at("/proc/self/ns/ipc");
}

uint64_t pid_mount_namespace(void)
{
	return namespace_at("/proc/thread-self/ns/mnt");
}

static uint64_t namespace_of(int pid, const char *kind)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kind);
	return namespace_at(path);
}

/*
 * Our time namespace, 0 before Linux 5.6: /proc writes the start of every process by its
 * reader's.
 */
static uint64_t time_namespace(void)
{
	return namespace_at("/proc/self/ns/time");
}

/* The pid by which a process knows itself, 0 when that is the one we know it by. */
static int innermost(int pid)
{
	char path[64], text[4096], *at, *last;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	/* Linux 4.1: one pid for each namespace, ours first. */
	at = strstr(text, "\nNSpid:\t");
	if (!at)
		return 0;
	at += strlen("\nNSpid:\t");
	at[strcspn(at, "\n")] = '\0';
	last = strrchr(at, '\t');
	return last ? (int)units_parse_digits(last + 1, NULL) : 0;
}

/* False where /proc is another namespace's: its numbers mean nothing to us. */
static bool proc_is_ours(void)
{
	char text[16];
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return units_parse_digits(text, NULL) == (uint64_t)getpid();
}

uint64_t pid_start(int pid)
{
	uint64_t ours = time_namespace();

	if (!proc_is_ours() || (ours && namespace_of(pid, "time") != ours))
		return 0;
	return clock_process_start(pid);
}

/* Whether the process that `now` was read of is the one that began then. */
enum same { IS_ANOTHER, MAY_BE_SAME, IS_SAME };

static enum same compare(int pid, uint64_t start_ticks, const struct proc_stat *now)
{
	uint64_t ours;

	if (start_ticks == 0)
		return MAY_BE_SAME;
	if (now->start_ticks == start_ticks)
		return IS_SAME;
	/* It may read another start itself; one that ends has no time namespace any more. */
	ours = time_namespace();
	return ours && namespace_of(pid, "time") != ours ? MAY_BE_SAME : IS_ANOTHER;
}

static bool is_ended_thread(const struct proc_stat *s)
{
	return s->state == 'Z' || s->state == 'X';
}

static enum pid_life look_behind(int fd, int pid, uint64_t start_ticks)
{
	struct proc_stat stat;
	bool is_read = proc_is_ours() && proc_stat_read(pid, &stat);
	enum same same = is_read ? compare(pid, start_ticks, &stat) : MAY_BE_SAME;

	if (same == IS_ANOTHER)
		return PID_ENDED;
	/* Whoever this is: there is nobody else by the number. */
	if (fd >= 0 && sys_pidfd_has_ended(fd))
		return PID_ENDED;
	if (!is_read)
		return PID_HIDDEN;
	if (fd < 0 && is_ended_thread(&stat) && stat.threads <= 1)
		return PID_ENDED;
	if (!is_ended_thread(&stat) && !(stat.flags & PROC_STAT_EXITING))
		return PID_RUNS;
	/* One of that number that never ends must not pass for the one that did. */
	return same == IS_SAME ? PID_ENDING : PID_HIDDEN;
}

enum pid_life pid_look(int pid, uint64_t start_ticks)
{
	enum pid_life life;
	int fd;

	if (pid <= 0)
		return PID_ENDED;
	fd = sys_pidfd_open(pid);
	/* Where there are no such descriptors, or none for a thread that has the number now. */
	if (fd < 0 && kill(pid, 0) < 0 && errno == ESRCH)
		return PID_ENDED;
	life = look_behind(fd, pid, start_ticks);
	if (fd >= 0)
		close(fd);
	return life;
}

/* Whether process `pid` may have read `start_ticks` as its own start; 0 is what nobody knows. */
static bool may_have_begun(int pid, uint64_t start_ticks)
{
	uint64_t theirs;

	if (start_ticks == 0 || clock_process_start(pid) == start_ticks)
		return true;
	theirs = namespace_of(pid, "time");
	return theirs && theirs != time_namespace();
}

int pid_here(int inner, uint64_t namespace, uint64_t start_ticks)
{
	DIR *proc = proc_is_ours() ? opendir("/proc") : NULL;
	struct dirent *entry;
	int found = 0;

	while (proc && !found && (entry = readdir(proc))) {
		int pid = (int)units_parse_digits(entry->d_name, NULL);
		uint64_t its;

		if (pid <= 0 || innermost(pid) != inner)
			continue;
		/* Of another user's process the namespace may be hidden. */
		its = namespace_of(pid, "pid");
		if (its && its != namespace)
			continue;
		if (may_have_begun(pid, start_ticks))
			found = pid;
	}
	if (proc)
		closedir(proc);
	return found;
}
