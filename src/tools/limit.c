#include "tools/limit.h"

#include "base/conf.h"
#include "base/limits.h"
#include "base/units.h"
#include "tools/limit_change.h"
#include "tools/option_check.h"
#include "tools/region_error.h"
#include "tools/tenant_find.h"
#include "tools/tools_common.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

#define COMMAND "limit"

enum { KEY_MEM = 'm', KEY_SM = 't' };

struct options {
	const char *tenant;
	const char *specs[LIMITS_KINDS]; /* the new limits of each kind; NULL = as they are */
};

static const char doc[] =
	"Shows the limits of a running tenant, or changes them: TENANT is its name, as `ration ps` "
	"shows it, or the path of its file or directory."
	"\v"
	"SPEC of --mem is a size for every device (10g, 1.5g, 512m), or sizes for single ones by "
	"index or UUID (0:10g,1:4g or GPU-8f6d3c2a:10g); that of --sm is written so with whole "
	"percents of the device's time, where 100 is none (30 or 0:30,1:50). A memory limit under "
	"what the tenant holds takes nothing away: it gets no more until it holds less.";

static const struct argp_option option_table[] = {
	{ "mem", KEY_MEM, "SPEC", 0, "the new memory limits", 0 },
	{ "sm", KEY_SM, "SPEC", 0, "the new limits of GPU time, in percent", 0 },
	{ 0 },
};

static void take_limits(enum limits_kind kind, const char *spec, struct options *opt,
			struct argp_state *state)
{
	const char *option = tools_limit_option(kind);
	struct limits_error err;

	if (opt->specs[kind])
		argp_failure(state, TOOLS_USAGE, 0,
			     "%s is given twice; write all limits into one: %s", option,
			     kind == LIMITS_MEM ? "0:10g,1:4g" : "0:30,1:50");
	if (limits_check(kind, spec, LIMITS_ZERO_IS_ERROR, &err) < 0)
		argp_failure(state, TOOLS_USAGE, 0, "%s: %s", option, err.text);
	opt->specs[kind] = spec;
}

/* A word behind the tenant: a limit without its option, most likely. */
static void refuse_argument(const char *arg, struct argp_state *state)
{
	bool is_sm = limits_check(LIMITS_SM, arg, LIMITS_ZERO_IS_ERROR, NULL) == 0;
	bool is_mem = limits_check(LIMITS_MEM, arg, LIMITS_ZERO_IS_ERROR, NULL) == 0;

	if (is_mem && is_sm)
		argp_error(state,
			   "'%s' is one argument too many; did you mean --mem %sg or --sm %s?", arg,
			   arg, arg);
	else if (is_mem || is_sm)
		argp_error(state, "'%s' is one argument too many; did you mean %s %s?", arg,
			   is_mem ? "--mem" : "--sm", arg);
	else
		argp_error(state, "'%s' is one argument too many; limit takes one tenant", arg);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case KEY_MEM:
		take_limits(LIMITS_MEM, arg, opt, state);
		return 0;
	case KEY_SM:
		take_limits(LIMITS_SM, arg, opt, state);
		return 0;
	case ARGP_KEY_ARG:
		if (opt->tenant)
			refuse_argument(arg, state);
		opt->tenant = arg;
		return 0;
	case ARGP_KEY_END:
		if (!opt->tenant)
			argp_error(state,
				   "the tenant is missing; `ration ps` shows which there are");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* "0 GPU-01234567", and what is limited, where it is not memory. */
static void print_device(const struct view *view, enum limits_kind kind, int d)
{
	enum { SHORT_CHARS = 12 };
	char uuid[HAMI_UUID_BYTES];

	printf("%d %.*s: %s", d, SHORT_CHARS,
	       tools_printable(view->devices[d].uuid, uuid, sizeof(uuid)),
	       kind == LIMITS_SM ? "GPU time " : "");
}

static const char *amount_text(enum limits_kind kind, uint64_t amount, char *buf, size_t buf_bytes)
{
	return amount ? limits_format(kind, amount, buf, buf_bytes) : "none";
}

/* Why a limit of GPU time does not hold now; "" where it does. */
static const char *why_off(const struct view *view)
{
	if (view->is_sm_held)
		return "";
	return view->sm_policy == SM_POLICY_DISABLE ? "; switched off by its policy" :
						      "; switched off by the monitor now";
}

/* A limit in force, and whose it is. */
static void show_device(const struct view *view, enum limits_kind kind, int d)
{
	uint64_t configured = limits_effective(kind, limits_for_device(kind, view_spec(view, kind),
								       d, view->devices[d].uuid));
	uint64_t now = view_limit(view, kind, d);
	char amount[32], was[32], source[RATION_SOURCE_BYTES], spec[RATION_SPEC_BYTES];

	tools_printable(view_source(view, kind), source, sizeof(source));
	tools_printable(view_spec(view, kind), spec, sizeof(spec));
	print_device(view, kind, d);
	printf("%s", amount_text(kind, now, amount, sizeof(amount)));
	if (now && now == configured)
		printf(", from %s (%s)", source, spec);
	else if (now && !*spec)
		printf(", written into its file; it was started without a limit");
	else if (now != configured)
		printf(", written into its file; %s said %s", source,
		       amount_text(kind, configured, was, sizeof(was)));
	puts(kind == LIMITS_SM && now ? why_off(view) : "");
}

static void show_without_device(const struct view *view, enum limits_kind kind)
{
	char source[RATION_SOURCE_BYTES], spec[RATION_SPEC_BYTES];

	tools_printable(view_source(view, kind), source, sizeof(source));
	tools_printable(view_spec(view, kind), spec, sizeof(spec));
	printf("no device is used yet: %s%s%s%s\n", kind == LIMITS_SM ? "GPU time " : "",
	       *spec ? spec : "no limit", *spec ? ", from " : "", *spec ? source : "");
}

static int show(const char *path)
{
	static struct view view; /* too large for a stack */
	char text[512], what[256];
	int rc = view_read(path, &view);

	if (rc < 0) {
		tools_complain(COMMAND, "%s: %s", tools_printable(path, text, sizeof(text)),
			       region_error_text(path, rc, what, sizeof(what)));
		return TOOLS_UNHEALTHY;
	}
	for (int d = 0; d < view.device_count; d++)
		for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++)
			show_device(&view, kind, d);
	for (enum limits_kind kind = 0; view.device_count == 0 && kind < LIMITS_KINDS; kind++)
		show_without_device(&view, kind);
	view_free(&view);
	return TOOLS_OK;
}

/* The old and the new limit of a device, and what may surprise. */
static void print_change(const struct limit_change *change, enum limits_kind kind, int d)
{
	const struct view_device *dev = &change->before.devices[d];
	uint64_t new = change->devices[d].new[kind];
	char was[32], now[32], size[32];

	print_device(&change->before, kind, d);
	printf("%s -> %s", amount_text(kind, change->devices[d].old[kind], was, sizeof(was)),
	       amount_text(kind, new, now, sizeof(now)));
	if (kind == LIMITS_MEM && new && dev->used_bytes > new)
		printf("; %s are in use: nothing more is given until it is less",
		       units_format_size(dev->used_bytes, size, sizeof(size)));
	else if (kind == LIMITS_MEM && dev->physical_bytes && new > dev->physical_bytes)
		printf("; the card has %s, and those hold",
		       units_format_size(dev->physical_bytes, size, sizeof(size)));
	putchar('\n');
}

static void print_changes(const struct limit_change *change, enum limits_kind kind)
{
	uint64_t general = change->kept[kind];
	char was[RATION_SPEC_BYTES], kept[32];

	for (int d = 0; d < change->before.device_count; d++)
		print_change(change, kind, d);
	tools_printable(view_spec(&change->before, kind), was, sizeof(was));
	if (change->before.device_count == 0)
		printf("no device is used yet: %s%s -> %s\n", kind == LIMITS_SM ? "GPU time " : "",
		       *was ? was : "no limit", change->specs[kind]);
	else if (general)
		printf("all other devices: %s%s, as before\n", kind == LIMITS_SM ? "GPU time " : "",
		       limits_format(kind, general, kept, sizeof(kept)));
}

static int change(const char *tenant, const char *path, const char *const specs[LIMITS_KINDS])
{
	static struct limit_change done; /* too large for a stack */
	char error[2048], text[512];
	int rc = limit_change_make(path, specs, &done, error, sizeof(error));

	if (rc < 0) {
		tools_complain(COMMAND, "%s: %s", tools_printable(tenant, text, sizeof(text)),
			       error);
		return rc == -EINVAL ? TOOLS_USAGE : TOOLS_UNHEALTHY;
	}
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++)
		if (specs[kind])
			print_changes(&done, kind);
	limit_change_free(&done);
	return TOOLS_OK;
}

static const char *getenv_nothing(const char *name)
{
	(void)name;
	return NULL;
}

/* False, with a complaint, where the operator's file has a say in what is to be changed. */
static bool may_change(const char *const specs[LIMITS_KINDS])
{
	static struct conf conf;

	if (conf_load(&conf, CONF_FILE, getenv_nothing) < 0) {
		tools_complain(COMMAND, "%s", conf.error);
		return false;
	}
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++)
		if (specs[kind] && tools_is_operators(COMMAND, &conf, kind))
			return false;
	return true;
}

int limit_main(int argc, char **argv)
{
	static const struct argp argp = { option_table, parse_option, "TENANT", doc,
					  NULL,         NULL,         NULL };
	struct options opt = { 0 };
	char path[4096];
	int rc;

	tools_begin(COMMAND, argv);
	if (!option_check(COMMAND, argc, argv, option_table, OPTION_END_AT_DASHES))
		return TOOLS_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	rc = tenant_find(COMMAND, opt.tenant, path, sizeof(path));
	if (rc != TOOLS_OK)
		return rc;
	if (!opt.specs[LIMITS_MEM] && !opt.specs[LIMITS_SM])
		return show(path);
	return may_change(opt.specs) ? change(opt.tenant, path, opt.specs) : TOOLS_UNHEALTHY;
}
