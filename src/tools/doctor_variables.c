#include "tools/doctor_variables.h"

#include "tools/doctor_report.h"
#include "tools/tools_common.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define TOPIC "configuration"

enum { NAME_BYTES = 128, TYPOS_MAX = 2 };

/* Variables of the command's own, which conf.def does not list. */
static const char *const own_variables[] = { "RATION_DIR",       "RATION_LIB",
					     "RATION_SIM",       "RATION_SIM_FILE",
					     "RATION_SIM_FAULT", "RATION_SIM_MISSING",
					     "RATION_SIM_TRACE" };

static bool is_known(const char *name)
{
	for (int i = 0; i < CONF_COUNT; i++)
		if (!strcmp(name, conf_name((enum conf_var)i)))
			return true;
	for (size_t i = 0; i < sizeof(own_variables) / sizeof(*own_variables); i++)
		if (!strcmp(name, own_variables[i]))
			return true;
	return false;
}

/* True for a limit of one device: the general name, '_' and a number. */
static bool is_indexed(const char *name)
{
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++) {
		const char *general = conf_name(conf_schedulers(kind));
		size_t n = strlen(general);

		if (!strncmp(name, general, n) && name[n] == '_' && name[n + 1] &&
		    strspn(name + n + 1, "0123456789") == strlen(name + n + 1))
			return true;
	}
	return false;
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* How many letters have to be changed, put in or left out to make `a` into `b`, in either case. */
static int distance(const char *a, const char *b)
{
	int row[NAME_BYTES + 1], n = (int)strlen(b);

	for (int k = 0; k <= n; k++)
		row[k] = k;
	for (int i = 1; a[i - 1]; i++) {
		int above_left = row[0];

		row[0] = i;
		for (int k = 1; k <= n; k++) {
			bool is_same = toupper((unsigned char)a[i - 1]) == b[k - 1];
			int above = row[k];

			row[k] = least(least(above, row[k - 1]) + 1, above_left + !is_same);
			above_left = above;
		}
	}
	return row[n];
}

/* `name` without the index that it may end in: "..._0", "...0". */
static void cut_index(const char *name, char *out, size_t out_bytes)
{
	size_t n = strlen(name);

	while (n && strchr("0123456789", name[n - 1]))
		n--;
	if (n < strlen(name) && n && name[n - 1] == '_')
		n--;
	snprintf(out, out_bytes, "%.*s", (int)n, name);
}

/* The scheduler's variable that `name` was meant to be; NULL when it looks like none of them. */
static const char *meant_by(const char *name)
{
	bool is_limit = !strncasecmp(name, "CUDA_", 5) && strcasestr(name, "LIMIT");
	char base[NAME_BYTES];

	if (is_limit && strcasestr(name, "MEM"))
		return conf_name(CONF_CUDA_DEVICE_MEMORY_LIMIT);
	if (is_limit && (strcasestr(name, "SM") || strcasestr(name, "CORE")))
		return conf_name(CONF_CUDA_DEVICE_SM_LIMIT);
	cut_index(name, base, sizeof(base));
	for (int i = 0; i < CONF_COUNT; i++) {
		const char *known = conf_name((enum conf_var)i);

		if ((!strncmp(known, "CUDA_", 5) || !strncmp(known, "GPU_", 4)) &&
		    distance(base, known) <= TYPOS_MAX)
			return known;
	}
	return NULL;
}

/* `line` is NAME=value; `place` follows the name. True when nothing is wrong with it. */
static bool report_line(const char *line, const char *place)
{
	char name[NAME_BYTES], text[NAME_BYTES];
	const char *meant;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, "="), line);
	if (is_known(name) || is_indexed(name))
		return true;
	tools_printable(name, text, sizeof(text));
	if (!strncmp(name, "RATION_", 7)) {
		doctor_report(DOCTOR_WARN, TOPIC,
			      "%s%s is set, but there is no such variable; ration(7) lists them",
			      text, place);
		return false;
	}
	meant = meant_by(name);
	if (meant)
		doctor_report(DOCTOR_WARN, TOPIC, "%s%s is set, but nobody reads it; %s is read%s",
			      text, place, meant,
			      strstr(meant, "LIMIT") ? ", also with an index behind it, as in _0" :
						       "");
	return !meant;
}

/* As HAMi-core, conf_load() takes every other word for the default. True when it is none. */
static bool report_policy(const struct conf *conf)
{
	static const char *const words[] = { "force",   "FORCE",   "disable", "DISABLE",
					     "default", "DEFAULT", "" };
	const char *name = conf_name(CONF_GPU_CORE_UTILIZATION_POLICY);
	const char *value = conf_value(conf, name);
	char text[NAME_BYTES];

	for (size_t i = 0; value && i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(value, words[i]))
			return true;
	if (value)
		doctor_report(DOCTOR_WARN, TOPIC,
			      "%s is '%s', which is none of force, disable and default: default is "
			      "taken",
			      name, tools_printable(value, text, sizeof(text)));
	return !value;
}

bool doctor_variables_report(const struct conf *conf)
{
	bool is_right = true;

	for (char **e = environ; *e; e++)
		is_right &= report_line(*e, "");
	for (size_t at = 0; at < conf->file_bytes; at += strlen(conf->file + at) + 1)
		if (conf->file[at] != '#' && strchr(conf->file + at, '='))
			is_right &= report_line(conf->file + at, " in " CONF_FILE);
	is_right &= report_policy(conf);
	return is_right;
}
