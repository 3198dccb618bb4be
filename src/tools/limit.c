#include "tools/limit.h"

#include "base/limits.h"
#include "base/units.h"
#include "tools/limit_change.h"
#include "tools/tenant_list.h"
#include "tools/tools_common.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

#define COMMAND "limit"

enum { KEY_MEM = 'm', NAMES_BYTES = 1024 };

struct options {
	const char *tenant;
	const char *mem_spec; /* NULL = show */
};

static const char doc[] =
	"Shows the memory limits of a running tenant, or changes them: TENANT is its name, as `ration "
	"ps` shows it, or the path of its file."
	"\v"
	"SPEC is a size for every device (10g, 1.5g, 512m), or sizes for single ones by index or UUID "
	"(0:10g,1:4g or GPU-8f6d3c2a:10g). A limit under what the tenant holds takes nothing away: it "
	"gets no more until it holds less.";

static const struct argp_option option_table[] = {
	{ "mem", KEY_MEM, "SPEC", 0, "the new memory limits", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;
	struct limits_error err;

	switch (key) {
	case KEY_MEM:
		if (opt->mem_spec)
			argp_failure(state, TOOLS_USAGE, 0,
				     "--mem is given twice; write all limits into one: 0:10g,1:4g");
		if (limits_check(LIMITS_MEM, arg, LIMITS_ZERO_IS_ERROR, &err) < 0)
			argp_failure(state, TOOLS_USAGE, 0, "--mem: %s", err.text);
		opt->mem_spec = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (opt->tenant)
			argp_error(state, "'%s' is one argument too many; limit takes one tenant",
				   arg);
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

/* What cannot be read is no tenant that could be meant. */
static void pass_over(const char *path, int error)
{
	(void)path;
	(void)error;
}

/* Adds a name, or where `has_path` the path, to a list for people. */
static void add_name(char *list, const struct tenant_list_entry *entry, bool has_path)
{
	char name[NAMES_BYTES / 2];
	size_t n = strlen(list);

	if (has_path)
		tools_printable(entry->path, name, sizeof(name));
	else
		tenant_list_name(entry, name, sizeof(name));
	snprintf(list + n, NAMES_BYTES - n, "%s%s", n ? ", " : "", name);
}

static int complain_unknown(const char *tenant, const struct tenant_list *list)
{
	char names[NAMES_BYTES] = "", text[128];

	for (size_t i = 0; i < list->count; i++)
		add_name(names, &list->entries[i], false);
	tools_complain(COMMAND, "there is no tenant '%s' here; %s%s",
		       tools_printable(tenant, text, sizeof(text)),
		       list->count ? "there are: " : "there is none at all", names);
	return TOOLS_UNHEALTHY;
}

static bool is_called(const struct tenant_list_entry *entry, const char *tenant)
{
	char name[NAMES_BYTES];

	return !strcmp(tenant_list_name(entry, name, sizeof(name)), tenant);
}

/* Finds the one tenant of that name in the list. */
static int choose(const char *tenant, const struct tenant_list *list, char *out_path,
		  size_t path_bytes)
{
	const struct tenant_list_entry *found = NULL;
	char paths[NAMES_BYTES] = "", text[128];
	int count = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (!is_called(&list->entries[i], tenant))
			continue;
		found = &list->entries[i];
		add_name(paths, found, true);
		count++;
	}
	if (!found)
		return complain_unknown(tenant, list);
	if (count > 1) {
		tools_complain(COMMAND, "%d tenants are called '%s'; give the path of one: %s",
			       count, tools_printable(tenant, text, sizeof(text)), paths);
		return TOOLS_UNHEALTHY;
	}
	snprintf(out_path, path_bytes, "%s", found->path);
	return TOOLS_OK;
}

/* The path of the tenant's file. */
static int find(const char *tenant, char *out_path, size_t path_bytes)
{
	struct tenant_list list;
	int rc;

	if (strchr(tenant, '/')) {
		snprintf(out_path, path_bytes, "%s", tenant);
		return TOOLS_OK;
	}
	rc = tenant_list_read(false, pass_over, &list);
	if (rc < 0) {
		tools_complain(COMMAND, "%s", strerror(-rc));
		return TOOLS_UNHEALTHY;
	}
	rc = choose(tenant, &list, out_path, path_bytes);
	tenant_list_free(&list);
	return rc;
}

/* "0 GPU-01234567" */
static void print_device(const struct view *view, int d)
{
	enum { SHORT_CHARS = 12 };
	char uuid[HAMI_UUID_BYTES];

	printf("%d %.*s: ", d, SHORT_CHARS,
	       tools_printable(view->devices[d].uuid, uuid, sizeof(uuid)));
}

static const char *size_text(uint64_t bytes, char *buf, size_t buf_bytes)
{
	return bytes ? units_format_size(bytes, buf, buf_bytes) : "none";
}

/* A limit in force, and whose it is. */
static void show_device(const struct view *view, int d)
{
	uint64_t configured = limits_for_device(LIMITS_MEM, view->mem_spec, d,
						view->devices[d].uuid);
	uint64_t now = limit_change_in_force(view, d);
	char size[32], was[32], source[RATION_SOURCE_BYTES], spec[RATION_SPEC_BYTES];

	tools_printable(view->mem_source, source, sizeof(source));
	tools_printable(view->mem_spec, spec, sizeof(spec));
	print_device(view, d);
	if (now == 0)
		printf("none\n");
	else if (now == configured)
		printf("%s, from %s (%s)\n", size_text(now, size, sizeof(size)), source, spec);
	else if (!*spec)
		printf("%s, written into its file; it was started without a limit\n",
		       size_text(now, size, sizeof(size)));
	else
		printf("%s, written into its file; %s said %s\n",
		       size_text(now, size, sizeof(size)), source,
		       size_text(configured, was, sizeof(was)));
}

static int show(const char *path)
{
	char text[512], source[RATION_SOURCE_BYTES], spec[RATION_SPEC_BYTES];
	static struct view view; /* 12 KiB */
	int rc = view_read(path, &view);

	if (rc < 0) {
		tools_complain(COMMAND, "%s: %s", tools_printable(path, text, sizeof(text)),
			       rc == -ENOTUNIQ || rc == -ESTALE || rc == -ENODATA ?
				       "it is no region that can be read" :
				       strerror(-rc));
		return TOOLS_UNHEALTHY;
	}
	for (int d = 0; d < view.device_count; d++)
		show_device(&view, d);
	tools_printable(view.mem_source, source, sizeof(source));
	tools_printable(view.mem_spec, spec, sizeof(spec));
	if (view.device_count == 0)
		printf("no device is used yet: %s%s%s\n", *spec ? spec : "no limit",
		       *spec ? ", from " : "", *spec ? source : "");
	view_free(&view);
	return TOOLS_OK;
}

/* The old and the new limit of a device, and what may surprise. */
static void print_change(const struct limit_change *change, int d)
{
	const struct view_device *dev = &change->before.devices[d];
	uint64_t new_bytes = change->devices[d].new_bytes;
	char was[32], now[32], size[32];

	print_device(&change->before, d);
	printf("%s -> %s", size_text(change->devices[d].old_bytes, was, sizeof(was)),
	       size_text(new_bytes, now, sizeof(now)));
	if (new_bytes && dev->used_bytes > new_bytes)
		printf("; %s are in use: nothing more is given until it is less",
		       units_format_size(dev->used_bytes, size, sizeof(size)));
	else if (dev->physical_bytes && new_bytes > dev->physical_bytes)
		printf("; the card has %s, and those hold",
		       units_format_size(dev->physical_bytes, size, sizeof(size)));
	putchar('\n');
}

static int change(const char *tenant, const char *path, const char *spec)
{
	static struct limit_change done; /* 12 KiB */
	char error[2048], text[512], was[RATION_SPEC_BYTES];
	int rc = limit_change_make(path, spec, &done, error, sizeof(error));

	if (rc < 0) {
		tools_complain(COMMAND, "%s: %s", tools_printable(tenant, text, sizeof(text)),
			       error);
		return rc == -EINVAL ? TOOLS_USAGE : TOOLS_UNHEALTHY;
	}
	for (int d = 0; d < done.before.device_count; d++)
		print_change(&done, d);
	tools_printable(done.before.mem_spec, was, sizeof(was));
	if (done.before.device_count == 0)
		printf("no device is used yet: %s -> %s\n", *was ? was : "no limit", spec);
	limit_change_free(&done);
	return TOOLS_OK;
}

int limit_main(int argc, char **argv)
{
	static const struct argp argp = { option_table, parse_option, "TENANT", doc,
					  NULL,         NULL,         NULL };
	struct options opt = { 0 };
	char path[4096];
	int rc;

	tools_begin(COMMAND, argv);
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	rc = find(opt.tenant, path, sizeof(path));
	if (rc != TOOLS_OK)
		return rc;
	return opt.mem_spec ? change(opt.tenant, path, opt.mem_spec) : show(path);
}
