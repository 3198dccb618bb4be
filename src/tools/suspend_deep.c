#include "tools/suspend_deep.h"

#include "base/pid.h"
#include "base/units.h"
#include "tools/checkpoint.h"
#include "tools/tools_common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MS_PER_S = 1000 };

static bool is_ready(const struct view_process *p)
{
	return p->suspended == RATION_SUSPEND_DEEP;
}

bool suspend_deep_any(const struct view *view)
{
	for (unsigned i = 0; i < view->process_count; i++)
		if (is_ready(&view->processes[i]))
			return true;
	return false;
}

/* How we know the process, 0 when we cannot: the driver takes pids of our own namespace. */
static int pid_of(const struct view_process *p)
{
	uint64_t start_ticks;

	if (p->pid <= 0 || !p->pid_namespace)
		return 0;
	if (p->pid_namespace != pid_namespace())
		return pid_here(p->pid, p->pid_namespace, p->start_ticks);
	/* Another may have its number by now. */
	start_ticks = pid_start(p->pid);
	return !start_ticks || !p->start_ticks || start_ticks == p->start_ticks ? p->pid : 0;
}

static void complain(const char *command, const struct view_process *p,
		     const struct checkpoint_error *error)
{
	char comm[sizeof(p->comm)];

	if (error)
		tools_complain(command, "%d %s: %s gives %d (%s)", p->pid,
			       tools_printable(p->comm, comm, sizeof(comm)), error->call,
			       (int)error->result, checkpoint_error_name(error->result));
	else
		tools_complain(command,
			       "%d %s: it is of another pid namespace, and cannot be seen from "
			       "here; call ration where its container's processes are seen",
			       p->pid, tools_printable(p->comm, comm, sizeof(comm)));
}

/* Its slot was its own while it lived. */
static bool has_ended(const char *path, const struct view_process *p)
{
	static struct view now; /* too large for a stack */
	bool is_there = false;

	if (view_read(path, &now) < 0)
		return false;
	for (unsigned i = 0; i < now.process_count; i++)
		is_there |= now.processes[i].slot == p->slot && now.processes[i].pid == p->pid;
	view_free(&now);
	return !is_there;
}

/* 0, or -EIO after a complaint; one that has ended meanwhile has nothing there. */
static int take(const char *command, const char *path, const struct view_process *p, int wait_s)
{
	struct checkpoint_error error;
	int pid = pid_of(p);

	/* 0 would be no bound. */
	if (pid && checkpoint_take(pid, wait_s > 0 ? (unsigned)wait_s * MS_PER_S : 1, &error) == 0)
		return 0;
	if (has_ended(path, p))
		return 0;
	complain(command, p, pid ? &error : NULL);
	return -EIO;
}

static void print(const struct view *view)
{
	for (unsigned i = 0; i < view->process_count; i++) {
		const struct view_process *p = &view->processes[i];
		char comm[sizeof(p->comm)], size[32];

		tools_printable(p->comm, comm, sizeof(comm));
		if (is_ready(p))
			printf("%d %s: off the GPU, %s and its contexts in host memory\n", p->pid,
			       comm, units_format_size(p->host_bytes, size, sizeof(size)));
		else
			printf("%d %s: has nothing on the GPU\n", p->pid, comm);
	}
}

int suspend_deep_bring_back(const char *command, const struct view *view, bool is_final)
{
	int worst = 0;

	for (unsigned i = 0; i < view->process_count; i++) {
		const struct view_process *p = &view->processes[i];
		struct checkpoint_error error;
		int pid, rc;

		if (!is_ready(p))
			continue;
		pid = pid_of(p);
		rc = pid ? checkpoint_bring_back(pid, &error) : -EIO;
		if (rc < 0 && is_final)
			complain(command, p, pid ? &error : NULL);
		if (rc < 0 && worst != -EIO)
			worst = rc;
	}
	return worst;
}

int suspend_deep_take(const char *command, const char *path, const struct view *view, int wait_s)
{
	int rc = 0;

	for (unsigned i = 0; i < view->process_count && rc == 0; i++)
		if (is_ready(&view->processes[i]))
			rc = take(command, path, &view->processes[i], wait_s);
	if (rc == 0)
		print(view);
	return rc;
}
