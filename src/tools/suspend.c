#include "tools/suspend.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/units.h"
#include "shm/lock.h"
#include "shm/pace_call.h"
#include "tools/checkpoint.h"
#include "tools/option_check.h"
#include "tools/region_error.h"
#include "tools/region_write.h"
#include "tools/suspend_deep.h"
#include "tools/tenant_find.h"
#include "tools/tools_common.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS NSEC_PER_MSEC
/* What does not change by waiting is said after so long: each process has tried some times by then. */
#define REFUSED_NS (500 * NSEC_PER_MSEC)

enum {
	KEY_WAIT = 'w',
	KEY_DEEP = 'd',
	KEY_SIM = 's',
	WAIT_S = 60,
	WAIT_MAX_S = 86400,
	VAIN_LOOKS = 200
};

static struct {
	const char *command; /* "suspend" or "resume" */
	const char *tenant;
	enum ration_suspend want;
	int wait_s;
	bool is_sim;
	bool is_stepping_down; /* what somebody else asked for meanwhile holds */
} opt;

static const char suspend_doc[] =
	"Has all memory of a tenant that may leave the GPU leave it, for host memory, and holds "
	"its work until `ration resume`. TENANT is its name, as `ration ps` shows it, or the path of "
	"its file or directory; it was started with --movable or --oversubscribe. With --deep its "
	"contexts leave too, by the driver's checkpoint (CUDA 12.8), so that nothing of it is left."
	"\v"
	"Returns when every process of it is suspended; 1 when one is not in time, or says that it "
	"cannot be: no room in host memory, a library for RDMA. What was asked for goes on to hold "
	"then, until `ration resume`.";

static const char resume_doc[] =
	"Brings the memory of a suspended tenant back to where it was and lets its work go on."
	"\v"
	"Returns when every process of it goes on; 1 when one does not in time.";

/* All are suspend's; resume has those behind the first. */
static const struct argp_option option_table[] = {
	{ "deep", KEY_DEEP, NULL, 0, "contexts too: nothing of it is left on the GPU", 0 },
	{ "sim", KEY_SIM, NULL, 0, "for contexts, of a tenant that is on the software GPU", 0 },
	{ "wait", KEY_WAIT, "SECONDS", 0, "how long to wait for its processes (60)", 0 },
	{ 0 },
};

static int parse_seconds(const char *text, struct argp_state *state)
{
	const char *end;
	uint64_t value = units_parse_digits(text, &end);

	if (end == text || *end || value > WAIT_MAX_S)
		argp_failure(state, TOOLS_USAGE, 0,
			     "--wait: '%s' is no number of seconds from 0 to %d", text, WAIT_MAX_S);
	return (int)value;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case KEY_WAIT:
		opt.wait_s = parse_seconds(arg, state);
		return 0;
	case KEY_DEEP:
		opt.want = RATION_SUSPEND_DEEP;
		return 0;
	case KEY_SIM:
		opt.is_sim = true;
		return 0;
	case ARGP_KEY_ARG:
		if (opt.tenant)
			argp_error(state, "'%s' is one argument too many; %s takes one tenant", arg,
				   opt.command);
		opt.tenant = arg;
		return 0;
	case ARGP_KEY_END:
		if (!opt.tenant)
			argp_error(state,
				   "the tenant is missing; `ration ps` shows which there are");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void complain(const char *why)
{
	char text[512];

	tools_complain(opt.command, "%s: %s", tools_printable(opt.tenant, text, sizeof(text)), why);
}

/* Stores what is wanted and wakes the tenant's processes. 0 or -errno. */
static int store(int fd)
{
	char *map = mmap(NULL, RATION_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct ration_region *own;

	if (map == MAP_FAILED)
		return -errno;
	own = (struct ration_region *)(map + RATION_OFFSET);
	__atomic_store_n(&own->suspend_want, opt.want, __ATOMIC_RELEASE);
	if (opt.want == RATION_RUN)
		__atomic_fetch_add(&own->resumes, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&own->suspend_asks, 1, __ATOMIC_RELEASE);
	for (int d = 0; d < RATION_DEVICES; d++)
		pace_call(&own->pace[d]);
	munmap(map, RATION_FILE_BYTES);
	return 0;
}

/* The driver, where contexts are to go or may be away. True when it is there or not needed. */
static bool has_driver(const struct view *view)
{
	char error[1024];

	if (opt.want != RATION_SUSPEND_DEEP && !suspend_deep_any(view))
		return true;
	if (checkpoint_open(opt.is_sim, error, sizeof(error)) == 0)
		return true;
	complain(error);
	return false;
}

/*
 * Contexts that are away come back before the tenant is asked for something else: its processes would
 * wait for them. Those that do not come hold the others up only where it is not to run.
 */
static bool has_contexts(const struct view *view)
{
	if (opt.want == RATION_SUSPEND_DEEP || !suspend_deep_any(view))
		return true;
	return suspend_deep_bring_back(opt.command, view, opt.want != RATION_RUN) == 0 ||
	       opt.want == RATION_RUN;
}

/* Before the tenant's file is locked: the driver takes its time. */
static enum tools_exit prepare(const char *path)
{
	static struct view view; /* too large for a stack */
	bool is_ready = false;

	/* Who opens the file says what is wrong with it. */
	if (view_read(path, &view) < 0)
		return TOOLS_OK;
	if (opt.want != RATION_RUN && !(view.flags & RATION_FLAG_MOVABLE))
		complain("its memory cannot leave the GPU: it was started without --movable");
	else
		is_ready = has_driver(&view) && has_contexts(&view);
	view_free(&view);
	return is_ready ? TOOLS_OK : TOOLS_UNHEALTHY;
}

static enum tools_exit ask(const char *path)
{
	static struct view view;
	char error[1024];
	int fd, rc;

	if (prepare(path) != TOOLS_OK)
		return TOOLS_UNHEALTHY;
	fd = region_write_open(path, &view, error, sizeof(error));
	if (fd < 0) {
		complain(error);
		return TOOLS_UNHEALTHY;
	}
	rc = opt.is_stepping_down && view.suspend_want != RATION_SUSPEND_DEEP ? 0 : store(fd);
	close(fd);
	if (rc < 0)
		complain(strerror(-rc));
	/*
	 * Once more: who has contexts leave looks after that whether it is still asked for, so that
	 * one of both sees the other.
	 */
	else if (opt.want == RATION_RUN && suspend_deep_any(&view) && has_driver(&view))
		suspend_deep_bring_back(opt.command, &view, false);
	view_free(&view);
	return rc < 0 ? TOOLS_UNHEALTHY : TOOLS_OK;
}

static bool has_memory(const struct view *view, const struct view_process *p)
{
	for (int d = 0; d < view->device_count; d++)
		if (p->used_bytes[d])
			return true;
	return false;
}

/*
 * True when the process is as it was asked to be. One without memory has nothing to do for it; one
 * that is suspended from an earlier time may be about to run, until it answers.
 */
static bool is_there(const struct view *view, const struct view_process *p)
{
	return opt.want == RATION_RUN ?
		       p->suspended == RATION_RUN :
		       (p->suspended >= opt.want && p->has_answered) || !has_memory(view, p);
}

/* Why a process is not as it was asked to be. */
static const char *why_not(const struct view_process *p, char *text, size_t room)
{
	static const struct {
		int rc;
		const char *what;
	} known[] = {
		{ -ENOMEM, " (no room in host memory; --host of `ration run` bounds it)" },
		{ -EPERM, " (a library for RDMA is loaded; see RATION_RDMA)" },
		{ -EBUSY, " (its work does not end)" },
		{ -EAGAIN, " (it captures a graph)" },
		{ -EINPROGRESS, " (what it has given the GPU is waited for)" },
	};
	const char *what = "";

	for (size_t i = 0; opt.want != RATION_RUN && i < sizeof(known) / sizeof(*known); i++)
		if (p->suspend_rc == known[i].rc)
			what = known[i].what;
	text[0] = '\0';
	if (!p->has_answered || (p->suspend_rc == 0 && opt.want != RATION_RUN))
		snprintf(text, room, ": it has not answered (it is stopped, or has just begun)");
	else if (p->suspend_rc)
		snprintf(text, room, ": %s%s", strerror(-p->suspend_rc), what);
	return text;
}

/* True when it says that it cannot be, and waiting does not change that. */
static bool is_refused(const struct view *view, const struct view_process *p)
{
	return opt.want != RATION_RUN && !is_there(view, p) &&
	       (p->suspend_rc == -ENOMEM || p->suspend_rc == -EPERM || p->suspend_rc == -ENOTSUP);
}

static uint64_t on_the_gpu(const struct view *view, const struct view_process *p)
{
	uint64_t far_bytes = bytes_beyond(p->host_bytes, p->kept_bytes), bytes = 0;

	for (int d = 0; d < view->device_count; d++)
		bytes += p->used_bytes[d];
	return bytes_beyond(bytes, far_bytes);
}

static void print_process(const struct view *view, const struct view_process *p)
{
	uint64_t bytes = opt.want == RATION_RUN ? on_the_gpu(view, p) : p->host_bytes;
	char comm[sizeof(p->comm)], size[32], why[256];

	printf("%d %s: ", p->pid, tools_printable(p->comm, comm, sizeof(comm)));
	if (is_there(view, p))
		printf("%s, %s %s\n", opt.want == RATION_RUN ? "runs" : "suspended",
		       units_format_size(bytes, size, sizeof(size)),
		       opt.want == RATION_RUN ? "on the GPU" : "in host memory");
	else
		printf("not yet%s\n", why_not(p, why, sizeof(why)));
}

static void print_all(const struct view *view)
{
	for (unsigned i = 0; i < view->process_count; i++)
		print_process(view, &view->processes[i]);
}

/* Contexts that had no room come once there is some. False when all that is missing never will. */
static bool may_come(const struct view *view, unsigned missing)
{
	char ignored[1024];
	unsigned away = 0;

	if (opt.want != RATION_RUN || !suspend_deep_any(view))
		return true;
	for (unsigned i = 0; i < view->process_count; i++)
		away += view->processes[i].suspended == RATION_SUSPEND_DEEP;
	/* Another command may have had them leave since the driver was looked for. */
	return (checkpoint_open(opt.is_sim, ignored, sizeof(ignored)) == 0 &&
		suspend_deep_bring_back(opt.command, view, false) != -EIO) ||
	       away < missing;
}

/* How many are not where they are to be. True when one of them says that it will not be. */
static bool look_at_all(const struct view *view, unsigned *out_missing)
{
	bool is_any = false;

	*out_missing = 0;
	for (unsigned i = 0; i < view->process_count; i++) {
		*out_missing += !is_there(view, &view->processes[i]);
		is_any |= is_refused(view, &view->processes[i]);
	}
	return is_any;
}

/*
 * Looks until all processes are where they are to be, one says that it will not be, or the time is over. 0
 * with the last look and how many are not; -errno after a complaint.
 */
static int wait_for_all(const char *path, struct view *out_view, unsigned *out_missing)
{
	int64_t until_ns = clock_now_ns() + opt.wait_s * NSEC_PER_SEC, refused_ns = INT64_MAX;
	struct timespec nap = { .tv_nsec = LOOK_NS };
	char text[512], what[256];
	unsigned vain = 0;
	int rc;

	for (;;) {
		int64_t now_ns = clock_now_ns();

		rc = view_read(path, out_view);
		if (rc < 0)
			break;
		if (!look_at_all(out_view, out_missing))
			refused_ns = INT64_MAX;
		else if (refused_ns == INT64_MAX)
			refused_ns = now_ns + REFUSED_NS;
		if (*out_missing == 0 || now_ns >= until_ns || now_ns >= refused_ns)
			return 0;
		/* One look may meet a process that is about to end. */
		vain = may_come(out_view, *out_missing) ? 0 : vain + 1;
		if (vain == VAIN_LOOKS)
			return 0;
		view_free(out_view);
		nanosleep(&nap, NULL);
	}
	tools_complain(opt.command, "%s: %s", tools_printable(path, text, sizeof(text)),
		       region_error_text(path, rc, what, sizeof(what)));
	return rc;
}

/* It did not go all the way: it stays suspended as without --deep. */
static void step_down(const char *path)
{
	opt.want = RATION_SUSPEND;
	opt.is_stepping_down = true;
	if (ask(path) == TOOLS_OK)
		complain("its contexts are on the GPU, it is suspended as without --deep");
	else
		complain("`ration resume` tries again to bring back what did not come");
}

/* All are ready. What was asked for may have changed meanwhile: then nobody would bring them back. */
static enum tools_exit go_deep(const char *path, const struct view *view)
{
	static struct view now;
	int rc = suspend_deep_take(opt.command, path, view, opt.wait_s);

	if (rc < 0)
		step_down(path);
	if (rc < 0 || view_read(path, &now) < 0)
		return TOOLS_UNHEALTHY;
	if (now.suspend_want != RATION_SUSPEND_DEEP) {
		complain("somebody asked for something else meanwhile; its contexts come back");
		suspend_deep_bring_back(opt.command, view, true);
		rc = -ECANCELED;
	}
	view_free(&now);
	return rc < 0 ? TOOLS_UNHEALTHY : TOOLS_OK;
}

static enum tools_exit conclude(const char *path)
{
	enum tools_exit status = TOOLS_OK;
	static struct view view;
	unsigned missing;

	if (wait_for_all(path, &view, &missing) < 0)
		return TOOLS_UNHEALTHY;
	if (opt.want == RATION_SUSPEND_DEEP && missing == 0) {
		status = go_deep(path, &view);
	} else {
		if (missing && opt.want == RATION_RUN && suspend_deep_any(&view) &&
		    has_driver(&view))
			suspend_deep_bring_back(opt.command, &view, true);
		print_all(&view);
		if (opt.want == RATION_SUSPEND_DEEP)
			step_down(path);
		else if (missing && opt.want == RATION_SUSPEND)
			complain(
				"not all of its processes are suspended; that is tried again until "
				"`ration resume`");
		status = missing ? TOOLS_UNHEALTHY : TOOLS_OK;
	}
	view_free(&view);
	return status;
}

/*
 * Nobody else suspends or resumes the tenant until this process ends: who is about to have contexts leave must
 * not find that their process runs again. False after a complaint. What is wrong with the file is said later.
 */
static bool is_alone(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	int64_t wait_ns = (opt.wait_s ? opt.wait_s : 1) * NSEC_PER_SEC;

	if (fd < 0 || lock_wait(fd, RATION_LOCK_STEER, 1, wait_ns) != -ETIMEDOUT)
		return true;
	complain("another command has it suspended or resumed, and does not come to an end");
	return false;
}

static int run(int argc, char **argv, const char *doc, const struct argp_option *table)
{
	const struct argp argp = { table, parse_option, "TENANT", doc, NULL, NULL, NULL };
	char path[4096];
	int rc;

	opt.wait_s = WAIT_S;
	tools_begin(opt.command, argv);
	if (!option_check(opt.command, argc, argv, table, OPTION_END_AT_DASHES))
		return TOOLS_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	rc = tenant_find(opt.command, opt.tenant, path, sizeof(path));
	if (rc == TOOLS_OK)
		rc = is_alone(path) ? (int)ask(path) : TOOLS_UNHEALTHY;
	return rc == TOOLS_OK ? (int)conclude(path) : rc;
}

int suspend_main(int argc, char **argv)
{
	opt.command = "suspend";
	opt.want = RATION_SUSPEND;
	return run(argc, argv, suspend_doc, option_table);
}

int resume_main(int argc, char **argv)
{
	opt.command = "resume";
	opt.want = RATION_RUN;
	return run(argc, argv, resume_doc, option_table + 1);
}
