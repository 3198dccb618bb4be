#include "tools/run.h"

#include "base/conf.h"
#include "base/limits.h"
#include "base/units.h"
#include "tools/device_list.h"
#include "tools/install_path.h"
#include "tools/run_child.h"
#include "tools/run_env.h"
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

struct options {
	char mem_spec[RATION_SPEC_BYTES]; /* "" = no --mem */
	const char *name;                 /* NULL = made from the command */
	bool has_sim;
	const char *sim; /* as RATION_SIM, or NULL */
	char **command;
};

static const char doc[] =
	"Starts COMMAND as a tenant of its own: every program in it uses the GPU under one memory "
	"limit, which none of them can change."
	"\v"
	"SPEC is a size for every device (10g, 1.5g, 512m), or sizes for single ones by index or "
	"UUID (0:10g,1:4g or GPU-8f6d3c2a:10g). Without --mem the limits are those of RATION_MEM "
	"or of the scheduler's variables, else there are none.\n\n"
	"The exit status is COMMAND's; 2 for a wrong command line, 125 when it could not be "
	"started as a tenant, 126 when it cannot be executed, 127 when it is not found.";

static const struct argp_option option_table[] = {
	{ "mem", 'm', "SPEC", 0, "memory limit", 0 },
	{ "name", 'n', "NAME", 0, "name of the tenant (letters, digits and . _ -)", 0 },
	{ "sim", 's', "KEY=VALUE,...", OPTION_ARG_OPTIONAL,
	  "use the software GPU, set up by mem=8g,count=2 and the like", 0 },
	{ 0 },
};

/* Joins the limits of several --mem into one specification. */
static void take_mem(const char *spec, struct options *opt, struct argp_state *state)
{
	size_t have = strlen(opt->mem_spec), room = sizeof(opt->mem_spec) - have;
	struct limits_error err;
	int n;

	if (limits_check(LIMITS_MEM, spec, LIMITS_ZERO_IS_ERROR, &err) < 0)
		argp_failure(state, TOOLS_USAGE, 0, "--mem: %s", err.text);
	/* Each by itself, then all together: the complaint names what was written. */
	n = snprintf(opt->mem_spec + have, room, "%s%s", have ? "," : "", spec);
	if (n < 0 || (size_t)n >= room)
		argp_failure(state, TOOLS_USAGE, 0,
			     "--mem: too many limits; at most %zu characters",
			     sizeof(opt->mem_spec) - 1);
	else if (limits_check(LIMITS_MEM, opt->mem_spec, LIMITS_ZERO_IS_ERROR, &err) < 0)
		argp_failure(state, TOOLS_USAGE, 0, "--mem: %s", err.text);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;
	const char *wrong;

	switch (key) {
	case 'm':
		take_mem(arg, opt, state);
		return 0;
	case 'n':
		wrong = tenant_dir_check_name(arg);
		if (wrong)
			argp_failure(state, TOOLS_USAGE, 0, "--name: '%s' %s", arg, wrong);
		opt->name = arg;
		return 0;
	case 's':
		opt->has_sim = true;
		opt->sim = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (opt->has_sim && !opt->sim && strchr(arg, '=') && !strchr(arg, '/'))
			argp_failure(state, TOOLS_USAGE, 0,
				     "the settings of --sim follow it without a blank: --sim=%s",
				     arg);
		/* The rest is the program's own. */
		opt->command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		if (!opt->command || !*opt->command[0])
			argp_error(state, "the command to start is missing");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const char *getenv_without_schedulers(const char *name)
{
	return run_env_is_scheduler(name) ? NULL : getenv(name);
}

/* With --mem, what the environment says of limits does not count, right or wrong. */
static const char *getenv_under_mem(const char *name)
{
	return strcmp(name, conf_name(CONF_RATION_MEM)) ? getenv_without_schedulers(name) : NULL;
}

/* Without --mem, the limits that hold here go on to hold; the region is a new one all the same. */
static const char *getenv_inherited(const char *name)
{
	static const char limit[] = "CUDA_DEVICE_MEMORY_LIMIT";

	return strncmp(name, limit, sizeof(limit) - 1) ? getenv_without_schedulers(name) :
							 getenv(name);
}

/* The operator's file decides over the command line. */
static int check_operator(const struct options *opt, const struct conf *conf)
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
	if (*opt->mem_spec && *conf->mem_spec) {
		tools_complain(COMMAND, "the limits are set by %s; --mem cannot change them",
			       conf->mem_source);
		return TOOLS_FAILED;
	}
	return TOOLS_OK;
}

static int load_conf(const struct options *opt, struct conf *conf)
{
	int rc = conf_load(conf, CONF_FILE, *opt->mem_spec ? getenv_under_mem : getenv_inherited);

	if (rc < 0) {
		tools_complain(COMMAND, "%s", conf->error);
		return TOOLS_USAGE;
	}
	rc = check_operator(opt, conf);
	if (rc == TOOLS_OK && *opt->mem_spec) {
		snprintf(conf->mem_spec, sizeof(conf->mem_spec), "%s", opt->mem_spec);
		snprintf(conf->mem_source, sizeof(conf->mem_source), "--mem of ration run");
	}
	return rc;
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

/* A larger limit is no error: the card itself limits then. */
static void warn_if_larger(const char *source, const struct limits_item *item,
			   const struct device_list_entry *e)
{
	char limit[32], card[32];

	if (e->memory_bytes && item->amount > e->memory_bytes)
		tools_complain(COMMAND,
			       "warning: %s: %s is more than device %s has; its own %s hold",
			       source, units_format_size(item->amount, limit, sizeof(limit)),
			       item->who, units_format_size(e->memory_bytes, card, sizeof(card)));
}

/* Whoever means gigabytes by a bare number would wonder why no program starts. */
static void warn_if_tiny(const char *source, const struct limits_item *item)
{
	char limit[32];

	if (item->amount < MIB)
		tools_complain(COMMAND,
			       "warning: %s: %s is less than any program needs; a number without a "
			       "unit is in bytes, write 10g for 10 GiB",
			       source, units_format_size(item->amount, limit, sizeof(limit)));
}

/*
 * Looks whether the devices that the specification names exist. Where NVML cannot say, the library
 * will in the program.
 */
static int check_devices(const char *spec, const char *source, const char *nvml)
{
	static struct device_list list;
	struct limits_item item;
	bool is_read = false;

	/* A scheduler names devices by their place in the container, all of them or some. */
	if (!strncmp(source, "CUDA_", 5))
		return TOOLS_OK;
	for (const char *at = spec;
	     limits_next(LIMITS_MEM, &at, LIMITS_ZERO_IS_ERROR, &item, NULL) > 0;) {
		const struct device_list_entry *e;

		warn_if_tiny(source, &item);
		if (!item.who[0])
			continue;
		if (!is_read && device_list_read(nvml, &list) < 0)
			return TOOLS_OK;
		is_read = true;
		e = device_list_find(&list, item.who);
		if (!e)
			return complain_no_device(source, item.who, &list);
		warn_if_larger(source, &item, e);
	}
	return TOOLS_OK;
}

/* Puts the software GPU into the environment if asked for. *out_nvml: the NVML to ask. */
static int use_sim(const struct options *opt, char out_nvml[PATH_MAX])
{
	char dir[PATH_MAX - 32], error[2 * PATH_MAX];

	snprintf(out_nvml, PATH_MAX, "libnvidia-ml.so.1");
	if (!opt->has_sim)
		return TOOLS_OK;
	if (install_path_sim(dir, sizeof(dir), error, sizeof(error)) < 0) {
		tools_complain(COMMAND, "%s", error);
		return TOOLS_FAILED;
	}
	snprintf(out_nvml, PATH_MAX, "%s/libnvidia-ml.so.1", dir);
	if (run_env_use_sim(dir, opt->sim) < 0) {
		tools_complain(COMMAND, "the environment cannot be set (%m)");
		return TOOLS_FAILED;
	}
	return TOOLS_OK;
}

static int start(const struct options *opt, const struct conf *conf)
{
	struct region_setup setup = {
		.mem_spec = conf->mem_spec,
		.mem_source = conf->mem_source,
		.priority = conf->priority,
		.flags = conf->context_free ? RATION_FLAG_CONTEXT_FREE : 0,
	};
	char library[PATH_MAX], error[2 * PATH_MAX];
	struct tenant tenant;
	int rc, status;

	rc = install_path_library(library, sizeof(library), error, sizeof(error));
	if (rc == 0)
		rc = tenant_make(opt->name, opt->command[0], &setup, &tenant, error, sizeof(error));
	if (rc < 0) {
		tools_complain(COMMAND, "%s", error);
		return TOOLS_FAILED;
	}
	rc = run_env_use_library(library, &tenant, conf->mem_spec);
	if (rc == 0)
		rc = run_child_wait(COMMAND, opt->command, &status);
	tenant_end(&tenant);
	if (rc < 0) {
		tools_complain(COMMAND, "'%s' cannot be started (%s)", opt->command[0],
			       strerror(-rc));
		return TOOLS_FAILED;
	}
	return run_child_pass_on(status);
}

int run_main(int argc, char **argv)
{
	static const struct argp argp = { option_table, parse_option, "COMMAND [ARG...]", doc, NULL,
					  NULL,         NULL };
	static struct options opt;
	static struct conf conf;
	const char *region = getenv(conf_name(CONF_RATION_REGION));
	char nvml[PATH_MAX];
	int rc;

	tools_begin(COMMAND, argv);
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &opt);
	if (region) {
		tools_complain(COMMAND,
			       "this is inside a tenant already (RATION_REGION is '%s'), and "
			       "tenants do not nest; start the program without `ration run`",
			       region);
		return TOOLS_FAILED;
	}
	rc = load_conf(&opt, &conf);
	if (rc == TOOLS_OK)
		rc = use_sim(&opt, nvml);
	if (rc == TOOLS_OK)
		rc = check_devices(conf.mem_spec, *opt.mem_spec ? "--mem" : conf.mem_source, nvml);
	return rc == TOOLS_OK ? start(&opt, &conf) : rc;
}
