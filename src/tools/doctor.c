#include "tools/doctor.h"

#include "base/clock.h"
#include "base/conf.h"
#include "tools/device_list.h"
#include "tools/doctor_limits.h"
#include "tools/doctor_loaded.h"
#include "tools/doctor_probe.h"
#include "tools/doctor_report.h"
#include "tools/doctor_system.h"
#include "tools/install_path.h"
#include "tools/option_check.h"
#include "tools/region_error.h"
#include "tools/run_env.h"
#include "tools/sim_check.h"
#include "tools/tenant.h"
#include "tools/tools_common.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND "doctor"

/* A driver that has to wake its cards takes seconds. */
#define PROBE_WAIT_NS (60 * NSEC_PER_SEC)

/* What the probe is tried with where nothing is limited: a context fits, no card is as small. */
#define TRIAL_SPEC "2g"

struct options {
	bool has_sim;
	const char *sim; /* as RATION_SIM, or NULL */
};

/* How a program is started here. */
struct scene {
	bool is_preloaded; /* the library comes up by itself: LD_PRELOAD or /etc/ld.so.preload */
	bool has_tenant;   /* else: in a tenant of the doctor's own, as `ration run` makes it */
	struct tenant tenant;
	char library[PATH_MAX];
	const char *specs[LIMITS_KINDS]; /* of that tenant */
	char nvml[PATH_MAX];
};

static const char doc[] =
	"Checks whether Ration works in this environment: the driver, every way to it, the kernel, "
	"the region file, and which limits are in force and where each came from."
	"\v"
	"Every line says ok, note, warn or FAIL. The exit status is 0 when nothing failed, else 1.";

static const struct argp_option option_table[] = {
	{ "sim", 's', "KEY=VALUE,...", OPTION_ARG_OPTIONAL,
	  "look at the software GPU, set up by mem=8g,count=2 and the like", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case 's':
		opt->has_sim = true;
		opt->sim = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (opt->has_sim && !opt->sim && strchr(arg, '='))
			argp_failure(state, TOOLS_USAGE, 0,
				     "the settings of --sim follow it without a blank: --sim=%s",
				     arg);
		argp_error(state, "'%s' is one argument too many; doctor takes none", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool use_sim(const struct options *opt, struct scene *scene)
{
	static struct device_list ignored;
	char dir[PATH_MAX - 32], error[2 * PATH_MAX];
	int rc;

	snprintf(scene->nvml, sizeof(scene->nvml), "libnvidia-ml.so.1");
	if (!opt->has_sim)
		return true;
	if (install_path_sim(dir, sizeof(dir), error, sizeof(error)) < 0) {
		doctor_report(DOCTOR_FAIL, "driver", "%s", error);
		return false;
	}
	snprintf(scene->nvml, sizeof(scene->nvml), "%s/libnvidia-ml.so.1", dir);
	if (run_env_use_sim(dir, opt->sim) < 0) {
		doctor_report(DOCTOR_FAIL, "driver", "the environment cannot be set (%m)");
		return false;
	}
	rc = sim_check(scene->nvml, &ignored, error, sizeof(error));
	if (rc == -EINVAL)
		doctor_report(DOCTOR_FAIL, "driver", "%s: %s; nothing else was looked at",
			      opt->sim ? "--sim" : "RATION_SIM", error);
	else if (rc < 0)
		doctor_report(DOCTOR_FAIL, "driver",
			      "the software GPU does not start: %s; nothing else was looked at",
			      error);
	return rc == 0;
}

/* Makes the tenant in which the probe runs where programs here have none by themselves. */
static void set_scene(const struct conf *conf, struct scene *scene)
{
	struct region_setup setup = {
		.mem_source = conf->mem_source,
		.sm_spec = conf->sm_spec,
		.sm_source = conf->sm_source,
		.sm_policy = conf->sm_policy,
		.priority = conf->priority,
		.flags = conf->context_free ? RATION_FLAG_CONTEXT_FREE : 0,
	};
	char error[2 * PATH_MAX];

	scene->specs[LIMITS_MEM] = *conf->mem_spec ? conf->mem_spec : TRIAL_SPEC;
	scene->specs[LIMITS_SM] = run_env_sm_spec(conf);
	setup.mem_spec = scene->specs[LIMITS_MEM];
	if (install_path_library(scene->library, sizeof(scene->library), error, sizeof(error)) <
	    0) {
		doctor_report(DOCTOR_FAIL, "preload", "%s", error);
		return;
	}
	doctor_report(
		DOCTOR_NOTE, "preload",
		"nothing loads the library into programs started here; `ration run` does, from %s",
		scene->library);
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++)
		if (*conf_spec(conf, kind))
			doctor_report(
				DOCTOR_WARN, "preload",
				"%s is set, but no program started here follows it; start them by "
				"`ration run`, or put %s into LD_PRELOAD",
				conf_source(conf, kind), scene->library);
	if (tenant_make(NULL, "doctor", &setup, &scene->tenant, error, sizeof(error)) < 0) {
		doctor_report(DOCTOR_FAIL, "region", "%s", error);
		return;
	}
	scene->has_tenant = true;
}

_Noreturn static void execute_probe(const struct scene *scene)
{
	static char name[] = "ration", command[] = DOCTOR_PROBE_COMMAND, driver[] = "driver";
	bool is_whole = scene->is_preloaded || scene->has_tenant;
	char *argv[] = { name, command, is_whole ? NULL : driver, NULL };

	if (scene->has_tenant &&
	    run_env_use_library(scene->library, &scene->tenant, scene->specs) < 0)
		_exit(DOCTOR_PROBE_MAX + 1);
	execv("/proc/self/exe", argv);
	_exit(DOCTOR_PROBE_MAX + 1);
}

/* Waits for the probe, not for ever. 0 with its status, or -ETIMEDOUT. */
static int wait_probe(pid_t pid, int *out_status)
{
	int64_t end_ns = clock_now_ns() + PROBE_WAIT_NS;

	while (waitpid(pid, out_status, WNOHANG) != pid) {
		if (clock_now_ns() >= end_ns) {
			kill(pid, SIGKILL);
			return -ETIMEDOUT;
		}
		clock_sleep_ns(2 * NSEC_PER_MSEC);
	}
	return 0;
}

static void run_probe(const struct scene *scene)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	int status;
	pid_t pid;

	fflush(stdout);
	sigaction(SIGCHLD, &dfl, NULL);
	pid = fork();
	if (pid == 0)
		execute_probe(scene);
	if (pid < 0)
		doctor_report(DOCTOR_FAIL, "interception", "no process can be started (%m)");
	else if (wait_probe(pid, &status) < 0)
		doctor_report(DOCTOR_FAIL, "interception",
			      "the probe hangs; see whether `nvidia-smi` works without Ration");
	else if (WIFSIGNALED(status))
		doctor_report(DOCTOR_FAIL, "interception",
			      "the probe was killed by signal %d (%s); please report it",
			      WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) > DOCTOR_PROBE_MAX)
		doctor_report(DOCTOR_FAIL, "interception",
			      "the probe could not be started (status %d)", WEXITSTATUS(status));
	else
		doctor_report_add(WEXITSTATUS(status));
}

/* `view` is of the region that is in force, NULL where there is none to look at. */
static void report_kind(enum limits_kind kind, const struct conf *conf, const struct scene *scene,
			const struct view *view, const char *path,
			const struct device_list *devices)
{
	char text[32];

	if (kind == LIMITS_MEM && !scene->is_preloaded && !*conf->mem_spec)
		doctor_report(
			DOCTOR_NOTE, "limit",
			"none is set here (the lines above were tried with %s); `ration run --mem` "
			"sets one",
			limits_format(kind, limits_for_device(kind, TRIAL_SPEC, 0, ""), text,
				      sizeof(text)));
	else if (view && view->device_count)
		doctor_limits_of_region(kind, view, path, conf, devices);
	else
		doctor_limits_of_conf(kind, conf, devices);
}

/* True after view_read() said `rc`: a region that nobody here understands, with its limits. */
static bool is_unknown(int rc)
{
	return rc < 0 && rc != -ENOENT && rc != -ENODATA && rc != -ENOTUNIQ && rc != -EISDIR &&
	       rc != -ELOOP;
}

static void report_limits(const struct conf *conf, const struct scene *scene, const char *path)
{
	static struct device_list devices;
	static struct view view;
	int rc = *path ? view_read(path, &view) : -ENOENT;
	bool has_view = rc == 0;
	char text[256];

	if (is_unknown(rc)) {
		doctor_report(DOCTOR_FAIL, "limit", "the region %s %s: nobody can tell the limits",
			      path, region_error_text(path, rc, text, sizeof(text)));
		return;
	}
	if (device_list_read(scene->nvml, &devices) < 0)
		devices.count = 0;
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++)
		report_kind(kind, conf, scene, has_view ? &view : NULL, path, &devices);
	if (has_view)
		view_free(&view);
}

static int conclude(void)
{
	int failures = doctor_report_failures();

	if (failures == 0)
		puts("healthy");
	else
		printf("not healthy: %d fault%s\n", failures, failures == 1 ? "" : "s");
	return failures == 0 ? TOOLS_OK : TOOLS_UNHEALTHY;
}

int doctor_main(int argc, char **argv)
{
	static const struct argp argp = { option_table, parse_option, NULL, doc, NULL, NULL, NULL };
	static struct conf conf;
	static struct scene scene;
	struct doctor_loaded loaded;
	struct options opt = { 0 };
	const char *path;

	tools_begin(COMMAND, argv);
	if (!option_check(COMMAND, argc, argv, option_table, OPTION_END_AT_DASHES))
		return TOOLS_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	doctor_report(DOCTOR_NOTE, "ration", "version " RATION_VERSION);
	if (!use_sim(&opt, &scene))
		return conclude();
	conf_load(&conf, CONF_FILE, tools_getenv);
	doctor_limits_variables(&conf);
	doctor_system_preload();
	doctor_loaded_find(&loaded);
	scene.is_preloaded = loaded.own_count > 0;
	if (!scene.is_preloaded)
		set_scene(&conf, &scene);
	path = scene.has_tenant ? scene.tenant.path : scene.is_preloaded ? conf.region_path : "";
	run_probe(&scene);
	doctor_system_kernel();
	if (*path) {
		doctor_report(DOCTOR_NOTE, "region", "the region file is %s", path);
		doctor_system_region(path);
	}
	report_limits(&conf, &scene, path);
	doctor_system_limits();
	if (scene.has_tenant)
		tenant_end(&scene.tenant);
	return conclude();
}
