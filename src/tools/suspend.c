#include "tools/suspend.h"

#include "base/clock.h"
#include "base/units.h"
#include "shm/pace_call.h"
#include "tools/option_check.h"
#include "tools/region_error.h"
#include "tools/region_write.h"
#include "tools/tenant_find.h"
#include "tools/tools_common.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS (5 * NSEC_PER_MSEC)

enum { KEY_WAIT = 'w', WAIT_S = 60, WAIT_MAX_S = 86400 };

static struct {
	const char *command; /* "suspend" or "resume" */
	const char *tenant;
	enum ration_suspend want;
	int wait_s;
} opt;

static const char suspend_doc[] =
	"Has all memory of a tenant that may leave the GPU leave it, for host memory, and holds "
	"its work until `ration resume`. TENANT is its name, as `ration ps` shows it, or the path of "
	"its file or directory; it was started with --movable or --oversubscribe."
	"\v"
	"Returns when every process of it is suspended; 1 when one is not in time. What was asked "
	"for goes on to hold then, until `ration resume`.";

static const char resume_doc[] =
	"Brings the memory of a suspended tenant back to where it was and lets its work go on."
	"\v"
	"Returns when every process of it goes on; 1 when one does not in time.";

static const struct argp_option option_table[] = {
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
	for (int d = 0; d < RATION_DEVICES; d++)
		pace_call(&own->pace[d]);
	munmap(map, RATION_FILE_BYTES);
	return 0;
}

/* What is wrong with asking that of this tenant; NULL: nothing. */
static const char *cannot(const struct view *view)
{
	if (opt.want != RATION_RUN && !(view->flags & RATION_FLAG_MOVABLE))
		return "its memory cannot leave the GPU: it was started without --movable";
	return NULL;
}

static int ask(const char *path)
{
	char error[1024], text[512];
	struct view view;
	const char *why;
	int fd, rc;

	fd = region_write_open(path, &view, error, sizeof(error));
	if (fd < 0) {
		tools_complain(opt.command, "%s: %s",
			       tools_printable(opt.tenant, text, sizeof(text)), error);
		return TOOLS_UNHEALTHY;
	}
	why = cannot(&view);
	rc = why ? 0 : store(fd);
	if (rc < 0)
		why = strerror(-rc);
	if (why)
		tools_complain(opt.command, "%s: %s",
			       tools_printable(opt.tenant, text, sizeof(text)), why);
	view_free(&view);
	close(fd);
	return why ? TOOLS_UNHEALTHY : TOOLS_OK;
}

static bool has_memory(const struct view *view, const struct view_process *p)
{
	for (int d = 0; d < view->device_count; d++)
		if (p->used_bytes[d])
			return true;
	return false;
}

/* True when the process is as it was asked to be. One without memory has nothing to do for it. */
static bool is_there(const struct view *view, const struct view_process *p)
{
	return opt.want == RATION_RUN ? !p->is_suspended : p->is_suspended || !has_memory(view, p);
}

static void print_process(const struct view *view, const struct view_process *p)
{
	char comm[sizeof(p->comm)], size[32];
	uint64_t card_bytes = 0;

	for (int d = 0; d < view->device_count; d++)
		card_bytes += p->card_bytes[d];
	printf("%d %s: ", p->pid, tools_printable(p->comm, comm, sizeof(comm)));
	if (is_there(view, p))
		printf("%s, %s %s\n", opt.want == RATION_RUN ? "runs" : "suspended",
		       units_format_size(opt.want == RATION_RUN ? card_bytes : p->host_bytes, size,
					 sizeof(size)),
		       opt.want == RATION_RUN ? "on the GPU" : "in host memory");
	else
		printf("not yet%s%s\n", p->suspend_rc ? ": " : "",
		       p->suspend_rc ? strerror(-p->suspend_rc) : "");
}

/* Looks until all processes are where they are to be or the time is over. */
static int wait_for_all(const char *path)
{
	int64_t until_ns = clock_now_ns() + opt.wait_s * NSEC_PER_SEC;
	struct timespec nap = { .tv_nsec = LOOK_NS };
	static struct view view; /* too large for a stack */
	char text[512], what[256];
	unsigned missing;
	bool is_over;
	int rc;

	for (;;) {
		is_over = clock_now_ns() >= until_ns;
		rc = view_read(path, &view);
		if (rc < 0)
			break;
		missing = 0;
		for (unsigned i = 0; i < view.process_count; i++)
			missing += !is_there(&view, &view.processes[i]);
		if (missing == 0 || is_over)
			break;
		view_free(&view);
		nanosleep(&nap, NULL);
	}
	if (rc < 0) {
		tools_complain(opt.command, "%s: %s", tools_printable(path, text, sizeof(text)),
			       region_error_text(path, rc, what, sizeof(what)));
		return TOOLS_UNHEALTHY;
	}
	for (unsigned i = 0; i < view.process_count; i++)
		print_process(&view, &view.processes[i]);
	view_free(&view);
	return missing ? TOOLS_UNHEALTHY : TOOLS_OK;
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
		rc = ask(path);
	return rc == TOOLS_OK ? wait_for_all(path) : rc;
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
	return run(argc, argv, resume_doc, option_table);
}
