#include "tools/run.h"

#include "base/conf.h"
#include "base/limits.h"
#include "base/units.h"
#include "tools/device_list.h"
#include "tools/install_path.h"
#include "tools/option_check.h"
#include "tools/run_child.h"
#include "tools/run_env.h"
#include "tools/sim_check.h"
#include "tools/tenant.h"
#include "tools/tenant_dir.h"
#include "tools/tools_common.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "run"

enum { KEY_MOVABLE = 256, KEY_OVERSUBSCRIBE, KEY_RESIDENT, KEY_HOST };

struct options {
	char specs[LIMITS_KINDS][RATION_SPEC_BYTES]; /* "" = no such option */
	/* Set by options of their own, as if their variables were. NULL: not said. */
	const char *movable, *oversubscribe, *resident, *host;
	const char *name; /* NULL = made from the command */
	bool has_sim;
	const char *sim; /* as RATION_SIM, or NULL */
	char **command;
};

static struct options opt;

/* What NVML says is here. */
static struct {
	bool is_read, is_noted;
	int rc; /* of device_list_read() */
	struct device_list list;
} devices;

static const char doc[] =
	"Starts COMMAND as a tenant of its own: every program in it uses the GPU under one limit, "
	"which none of them can change."
	"\v"
	"SPEC of --mem is a size for every device (10g, 1.5g, 512m), or sizes for single ones by "
	"index or UUID (0:10g,1:4g or GPU-8f6d3c2a:10g); that of --sm is written so with whole "
	"percents of the device's time, 1 to 100 (30 or 0:30,1:50). Without --mem the limits are "
	"those of RATION_MEM or of the scheduler's variables, else there are none; without --sm "
	"likewise those of RATION_SM.\n\n"
	"With --oversubscribe, --resident or --host a memory limit may pass what the GPU has.\n\n"
	"The exit status is COMMAND's; 2 for a wrong command line, 125 when it could not be "
	"started as a tenant, 126 when it cannot be executed, 127 when it is not found.";

static const struct argp_option option_table[] = {
	{ "mem", 'm', "SPEC", 0, "memory limit", 0 },
	{ "sm", 't', "SPEC", 0, "limit of GPU time, in percent", 0 },
	{ "name", 'n', "NAME", 0, "name of the tenant (letters, digits and . _ -)", 0 },
	{ "movable", KEY_MOVABLE, NULL, 0, "its memory may leave the GPU (ration suspend)", 0 },
	{ "oversubscribe", KEY_OVERSUBSCRIBE, NULL, 0,
	  "its memory is movable, and what the GPU has no room for lies in host memory", 0 },
	{ "resident", KEY_RESIDENT, "SIZE", 0,
	  "--oversubscribe, with no more than this of it on each GPU", 0 },
	{ "host", KEY_HOST, "SIZE", 0,
	  "--oversubscribe, with no more than this of it in host memory", 0 },
	{ "sim", 's', "KEY=VALUE,...", OPTION_ARG_OPTIONAL,
	  "use the software GPU, set up by mem=8g,count=2 and the like", 0 },
	{ 0 },
};

/* Joins the limits of several --mem, or several --sm, into one specification. */
static void take_limits(enum limits_kind kind, const char *spec, struct argp_state *state)
{
	const char *option = tools_limit_option(kind);
	char *all = opt.specs[kind];
	size_t have = strlen(all), room = RATION_SPEC_BYTES - have;
	struct limits_error err;
	int n;

	if (limits_check(kind, spec, LIMITS_ZERO_IS_ERROR, &err) < 0)
		argp_failure(state, TOOLS_USAGE, 0, "%s: %s", option, err.text);
	/* Each by itself, then all together: the complaint names what was written. */
	n = snprintf(all + have, room, "%s%s", have ? "," : "", spec);
	if (n < 0 || (size_t)n >= room)
		argp_failure(state, TOOLS_USAGE, 0, "%s: too many limits; at most %d characters",
			     option, RATION_SPEC_BYTES - 1);
	else if (limits_check(kind, all, LIMITS_ZERO_IS_ERROR, &err) < 0)
		argp_failure(state, TOOLS_USAGE, 0, "%s: %s", option, err.text);
}

static const char *checked_size(const char *option, const char *text, struct argp_state *state)
{
	struct limits_error err;

	if (strpbrk(text, ",:"))
		argp_failure(state, TOOLS_USAGE, 0, "%s: '%s' is a list; give one size", option,
			     text);
	if (limits_check(LIMITS_MEM, text, LIMITS_ZERO_IS_ERROR, &err) < 0)
		argp_failure(state, TOOLS_USAGE, 0, "%s: %s", option, err.text);
	return text;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	const char *wrong;

	switch (key) {
	case 'm':
		take_limits(LIMITS_MEM, arg, state);
		return 0;
	case 't':
		take_limits(LIMITS_SM, arg, state);
		return 0;
	case 'n':
		wrong = tenant_dir_check_name(arg);
		if (wrong)
			argp_failure(state, TOOLS_USAGE, 0, "--name: '%s' %s", arg, wrong);
		opt.name = arg;
		return 0;
	case KEY_MOVABLE:
		opt.movable = "true";
		return 0;
	case KEY_OVERSUBSCRIBE:
		opt.oversubscribe = "true";
		return 0;
	case KEY_RESIDENT:
		opt.resident = checked_size("--resident", arg, state);
		return 0;
	case KEY_HOST:
		opt.host = checked_size("--host", arg, state);
		return 0;
	case 's':
		opt.has_sim = true;
		opt.sim = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (opt.has_sim && !opt.sim && strchr(arg, '=') && !strchr(arg, '/'))
			argp_failure(state, TOOLS_USAGE, 0,
				     "the settings of --sim follow it without a blank: --sim=%s",
				     arg);
		/* The rest is the program's own. */
		opt.command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		if (!opt.command || !*opt.command[0])
			argp_error(state, "the command to start is missing");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/*
 * The environment in which a new tenant begins. The limits that hold here go on to hold, unless those
 * of their kind are on the command line: then they do not count, right or wrong.
 */
static const char *getenv_here(const char *name)
{
	const struct {
		enum conf_var var;
		const char *value;
	} options[] = {
		{ CONF_RATION_MOVABLE, opt.movable },
		{ CONF_RATION_OVERSUBSCRIBE, opt.oversubscribe },
		{ CONF_RATION_RESIDENT, opt.resident },
		{ CONF_RATION_HOST, opt.host },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (options[i].value && !strcmp(name, conf_name(options[i].var)))
			return options[i].value;
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++) {
		const char *theirs = conf_name(conf_schedulers(kind));

		if (!strcmp(name, conf_name(conf_ours(kind))) ||
		    !strncmp(name, theirs, strlen(theirs)))
			return *opt.specs[kind] ? NULL : getenv(name);
	}
	if (!strcmp(name, conf_name(CONF_GPU_CORE_UTILIZATION_POLICY)))
		return getenv(name);
	return run_env_is_scheduler(name) ? NULL : getenv(name);
}

/* The operator's file decides over the command line. */
static int check_operator(const struct conf *conf)
{
	static const enum conf_var paths[] = { CONF_RATION_REGION,
					       CONF_CUDA_DEVICE_MEMORY_SHARED_CACHE };

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		if (!conf_is_from_file(conf, conf_name(paths[i])))
			continue;
		tools_complain(COMMAND,
			       "%s in " CONF_FILE " names the region of all programs here; "
			       "start the program without `ration run`",
			       conf_name(paths[i]));
		return TOOLS_FAILED;
	}
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++)
		if (*opt.specs[kind] && tools_is_operators(COMMAND, conf, kind))
			return TOOLS_FAILED;
	return TOOLS_OK;
}

static void use_option(enum limits_kind kind, char spec[RATION_SPEC_BYTES],
		       char source[RATION_SOURCE_BYTES])
{
	snprintf(spec, RATION_SPEC_BYTES, "%s", opt.specs[kind]);
	snprintf(source, RATION_SOURCE_BYTES, "%s of ration run", tools_limit_option(kind));
}

static int load_conf(struct conf *conf)
{
	int rc = conf_load(conf, CONF_FILE, getenv_here);

	if (rc < 0) {
		tools_complain(COMMAND, "%s", conf->error);
		return TOOLS_USAGE;
	}
	rc = check_operator(conf);
	if (rc != TOOLS_OK)
		return rc;
	if (*opt.specs[LIMITS_MEM])
		use_option(LIMITS_MEM, conf->mem_spec, conf->mem_source);
	if (*opt.specs[LIMITS_SM]) {
		use_option(LIMITS_SM, conf->sm_spec, conf->sm_source);
		conf->sm_policy = SM_POLICY_FORCE;
	}
	return TOOLS_OK;
}

static int complain_no_device(const char *source, const char *who, const struct device_list *list)
{
	char have[1024] = "", index[32];
	size_t n = 0;

	for (int i = 0; i < list->count && n < sizeof(have); i++) {
		const struct device_list_entry *e = &list->entries[i];

		if (e->is_mig)
			snprintf(index, sizeof(index), "in %d: ", e->index);
		else
			snprintf(index, sizeof(index), "%d: ", e->index);
		n += (size_t)snprintf(have + n, sizeof(have) - n, "%s%s%s", i > 0 ? ", " : "",
				      index, e->uuid);
	}
	tools_complain(COMMAND, "%s: there is no device '%s'; %s%s", source, who,
		       list->count ? "there are " : "there is none at all", have);
	return TOOLS_USAGE;
}

/*
 * Whoever means gigabytes by a bare number would wonder why no program starts. `last` is the last
 * character of the item.
 */
static void warn_if_tiny(const char *source, const struct limits_item *item, char last)
{
	bool is_bare = last >= '0' && last <= '9';
	char limit[32];

	if (item->amount < MIB)
		tools_complain(COMMAND, "warning: %s: %s is less than any program needs%s", source,
			       units_format_size(item->amount, limit, sizeof(limit)),
			       is_bare ? "; a number without a unit is in bytes, write 10g for "
					 "10 GiB" :
					 "");
}

/* The devices, asked for once: 0, or why they are not known. */
static int get_devices(const char *nvml, const struct device_list **out_list)
{
	if (!devices.is_read) {
		devices.rc = device_list_read(nvml, &devices.list);
		devices.is_read = true;
	}
	*out_list = &devices.list;
	return devices.rc;
}

/* Where NVML cannot say whether a device exists, the library will in the program. */
static void note_unknown(const char *source, const char *who)
{
	if (!devices.is_noted)
		tools_complain(COMMAND,
			       "note: %s: there is no NVML here to say whether device '%s' exists; "
			       "that is seen when a program first uses a GPU",
			       source, who);
	devices.is_noted = true;
}

static int check_item(enum limits_kind kind, const char *source, const struct limits_item *item,
		      char last, const char *nvml)
{
	const struct device_list *list;

	if (kind == LIMITS_MEM)
		warn_if_tiny(source, item, last);
	if (!item->who[0])
		return TOOLS_OK;
	if (get_devices(nvml, &list) < 0)
		note_unknown(source, item->who);
	else if (!device_list_find(list, item->who))
		return complain_no_device(source, item->who, list);
	return TOOLS_OK;
}

/* Looks whether the devices that the specification names exist. */
static int check_devices(enum limits_kind kind, const struct conf *conf, const char *nvml)
{
	const char *source = *opt.specs[kind] ? tools_limit_option(kind) : conf_source(conf, kind);
	struct limits_item item;
	int rc = TOOLS_OK;

	/* A scheduler names devices by their place in the container, all of them or some. */
	if (!strncmp(source, "CUDA_", 5))
		return TOOLS_OK;
	for (const char *at = conf_spec(conf, kind);
	     rc == TOOLS_OK && limits_next(kind, &at, LIMITS_ZERO_IS_ERROR, &item, NULL) > 0;)
		rc = check_item(kind, source, &item, at[*at ? -2 : -1], nvml);
	return rc;
}

/* Puts the software GPU into the environment if asked for. *out_nvml: the NVML to ask. */
static int use_sim(char out_nvml[PATH_MAX])
{
	char dir[PATH_MAX - 32], error[2 * PATH_MAX];
	int rc;

	snprintf(out_nvml, PATH_MAX, "libnvidia-ml.so.1");
	if (!opt.has_sim)
		return TOOLS_OK;
	if (install_path_sim(dir, sizeof(dir), error, sizeof(error)) < 0) {
		tools_complain(COMMAND, "%s", error);
		return TOOLS_FAILED;
	}
	snprintf(out_nvml, PATH_MAX, "%s/libnvidia-ml.so.1", dir);
	if (run_env_use_sim(dir, opt.sim) < 0) {
		tools_complain(COMMAND, "the environment cannot be set (%m)");
		return TOOLS_FAILED;
	}
	rc = sim_check(out_nvml, &devices.list, error, sizeof(error));
	devices.is_read = rc == 0 && devices.list.count > 0;
	if (rc == 0)
		return TOOLS_OK;
	if (rc == -EINVAL)
		tools_complain(COMMAND, "%s: %s", opt.sim ? "--sim" : "RATION_SIM", error);
	else
		tools_complain(COMMAND, "the software GPU does not start: %s", error);
	return rc == -EINVAL ? TOOLS_USAGE : TOOLS_FAILED;
}

static int start(const struct conf *conf)
{
	struct region_setup setup = {
		.mem_spec = conf->mem_spec,
		.mem_source = conf->mem_source,
		.sm_spec = conf->sm_spec,
		.sm_source = conf->sm_source,
		.sm_policy = conf->sm_policy,
		.priority = conf->priority,
		.flags = conf_region_flags(conf),
		.resident_bytes = conf->resident_bytes,
		.host_bytes = conf->host_bytes,
	};
	const char *const specs[LIMITS_KINDS] = {
		[LIMITS_MEM] = conf->mem_spec,
		[LIMITS_SM] = run_env_sm_spec(conf),
	};
	char library[PATH_MAX], error[2 * PATH_MAX];
	struct tenant tenant;
	int rc, status;

	rc = install_path_library(library, sizeof(library), error, sizeof(error));
	if (rc == 0)
		rc = tenant_make(opt.name, opt.command[0], &setup, &tenant, error, sizeof(error));
	if (rc < 0) {
		tools_complain(COMMAND, "%s", error);
		return TOOLS_FAILED;
	}
	rc = run_env_use_library(library, &tenant, specs);
	if (rc == 0)
		rc = run_env_use_places(conf);
	if (rc == 0)
		rc = run_child_wait(COMMAND, opt.command, &status);
	tenant_end(&tenant);
	if (rc < 0) {
		tools_complain(COMMAND, "'%s' cannot be started (%s)", opt.command[0],
			       strerror(-rc));
		return TOOLS_FAILED;
	}
	return run_child_pass_on(status);
}

int run_main(int argc, char **argv)
{
	static const struct argp argp = { option_table, parse_option, "COMMAND [ARG...]", doc, NULL,
					  NULL,         NULL };
	static struct conf conf;
	const char *region = getenv(conf_name(CONF_RATION_REGION));
	char nvml[PATH_MAX];
	int rc;

	tools_begin(COMMAND, argv);
	if (!option_check(COMMAND, argc, argv, option_table, OPTION_END_AT_WORD))
		return TOOLS_USAGE;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	if (region) {
		tools_complain(COMMAND,
			       "this is inside a tenant already (RATION_REGION is '%s'), and "
			       "tenants do not nest; start the program without `ration run`",
			       region);
		return TOOLS_FAILED;
	}
	rc = load_conf(&conf);
	if (rc == TOOLS_OK)
		rc = use_sim(nvml);
	for (enum limits_kind kind = 0; rc == TOOLS_OK && kind < LIMITS_KINDS; kind++)
		rc = check_devices(kind, &conf, nvml);
	return rc == TOOLS_OK ? start(&conf) : rc;
}
