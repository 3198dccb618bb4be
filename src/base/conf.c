#include "base/conf.h"

#include "base/conf_file.h"
#include "base/conf_limits.h"
#include "base/conf_path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *name;
	const char *help;
} rows[CONF_COUNT] = {
#define CONF(name, help) { #name, help },
#include "base/conf.def"
#undef CONF
};

const char *conf_name(enum conf_var var)
{
	return rows[var].name;
}

const char *conf_help(enum conf_var var)
{
	return rows[var].help;
}

enum conf_var conf_ours(enum limits_kind kind)
{
	return kind == LIMITS_MEM ? CONF_RATION_MEM : CONF_RATION_SM;
}

enum conf_var conf_schedulers(enum limits_kind kind)
{
	return kind == LIMITS_MEM ? CONF_CUDA_DEVICE_MEMORY_LIMIT : CONF_CUDA_DEVICE_SM_LIMIT;
}

const char *conf_spec(const struct conf *conf, enum limits_kind kind)
{
	return kind == LIMITS_MEM ? conf->mem_spec : conf->sm_spec;
}

const char *conf_source(const struct conf *conf, enum limits_kind kind)
{
	return kind == LIMITS_MEM ? conf->mem_source : conf->sm_source;
}

uint32_t conf_region_flags(const struct conf *conf)
{
	return (conf->context_free ? RATION_FLAG_CONTEXT_FREE : 0) |
	       (conf->is_movable ? RATION_FLAG_MOVABLE : 0) |
	       (conf->is_oversubscribed ? RATION_FLAG_OVERSUBSCRIBE : 0);
}

bool conf_is_from_file(const struct conf *conf, const char *name)
{
	return conf_file_value(conf, name) != NULL;
}

const char *conf_value(const struct conf *conf, const char *name)
{
	const char *value = conf_file_value(conf, name);

	return value ? value : conf->getenv(name);
}

static const char *value_of(const struct conf *conf, enum conf_var var)
{
	return conf_value(conf, rows[var].name);
}

void conf_fail(struct conf *conf, const char *name, const char *text)
{
	if (!conf->error[0])
		snprintf(conf->error, sizeof(conf->error), "%.200s%s: %s", name,
			 conf_is_from_file(conf, name) ? " in " CONF_FILE : "", text);
}

static int parse_bool(const char *text)
{
	static const char *const yes[] = { "1", "t", "true", "yes", "on" };
	static const char *const no[] = { "0", "f", "false", "no", "off", "" };

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		if (!strcasecmp(text, yes[i]))
			return 1;
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
		if (!strcasecmp(text, no[i]))
			return 0;
	return -EINVAL;
}

static bool read_bool(struct conf *conf, enum conf_var var, bool unset)
{
	const char *text = value_of(conf, var);
	char what[128];
	int value;

	if (!text)
		return unset;
	value = parse_bool(text);
	if (value < 0) {
		snprintf(what, sizeof(what), "'%.40s' is neither true nor false", text);
		conf_fail(conf, rows[var].name, what);
		return unset;
	}
	return value;
}

/* A size, 0 when it is not said. None is no size here: it would leave nothing to run with. */
static uint64_t read_size(struct conf *conf, enum conf_var var)
{
	const char *text = value_of(conf, var);
	struct limits_error err;

	if (!text)
		return 0;
	if (strpbrk(text, ",:"))
		snprintf(err.text, sizeof(err.text), "'%.40s' is a list; give one size", text);
	else if (limits_check(LIMITS_MEM, text, LIMITS_ZERO_IS_ERROR, &err) == 0)
		return limits_for_device(LIMITS_MEM, text, 0, "");
	conf_fail(conf, rows[var].name, err.text);
	return 0;
}

static void read_rdma(struct conf *conf)
{
	const char *text = value_of(conf, CONF_RATION_RDMA);
	char what[128];

	if (!text || !strcmp(text, "stay"))
		return;
	conf->may_move_rdma = !strcmp(text, "move");
	if (conf->may_move_rdma)
		return;
	snprintf(what, sizeof(what), "'%.40s' is neither move nor stay", text);
	conf_fail(conf, rows[CONF_RATION_RDMA].name, what);
}

/* Where memory may lie. HAMi's word for it is exactly "true". */
static void read_places(struct conf *conf)
{
	const char *theirs = value_of(conf, CONF_CUDA_OVERSUBSCRIBE);

	conf->resident_bytes = read_size(conf, CONF_RATION_RESIDENT);
	conf->host_bytes = read_size(conf, CONF_RATION_HOST);
	conf->is_oversubscribed = read_bool(conf, CONF_RATION_OVERSUBSCRIBE,
					    (theirs && !strcmp(theirs, "true")) ||
						    conf->resident_bytes || conf->host_bytes);
	conf->is_movable = read_bool(conf, CONF_RATION_MOVABLE, false) || conf->is_oversubscribed;
	conf->has_signals = read_bool(conf, CONF_RATION_SIGNALS, false);
	read_rdma(conf);
}

static void read_log(struct conf *conf)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	const char *ours = value_of(conf, CONF_RATION_LOG);
	const char *theirs = value_of(conf, CONF_LIBCUDA_LOG_LEVEL);
	char what[128];

	conf->log = LOG_ERROR;
	if (theirs && theirs[0] >= '2' && theirs[0] <= '4' && !theirs[1])
		conf->log = (enum log_level)(theirs[0] - '1');
	if (!ours)
		return;
	for (int i = 0; i < 4; i++) {
		if (!strcmp(ours, names[i])) {
			conf->log = (enum log_level)i;
			return;
		}
	}
	snprintf(what, sizeof(what), "'%.40s' is none of error, warn, info, debug", ours);
	conf_fail(conf, rows[CONF_RATION_LOG].name, what);
}

/* A variable that loosens limits of a kind counts in the file, or where the file sets none. */
static bool may_loosen(const struct conf *conf, enum conf_var var, enum limits_kind kind)
{
	return conf_is_from_file(conf, rows[var].name) ||
	       !(conf->is_limited_by_file[kind] || conf->is_file_unread);
}

/*
 * When the schedulers' limits of GPU time hold: another text than these is the default, as HAMi's.
 */
static void read_policy(struct conf *conf)
{
	const char *text = value_of(conf, CONF_GPU_CORE_UTILIZATION_POLICY);

	if (!text || conf->sm_policy == SM_POLICY_FORCE)
		return;
	if (!strcmp(text, "force") || !strcmp(text, "FORCE"))
		conf->sm_policy = SM_POLICY_FORCE;
	else if ((!strcmp(text, "disable") || !strcmp(text, "DISABLE")) &&
		 may_loosen(conf, CONF_GPU_CORE_UTILIZATION_POLICY, LIMITS_SM))
		conf->sm_policy = SM_POLICY_DISABLE;
}

/* CUDA_DISABLE_CONTROL is the container's own choice, but not below a `ration run`. */
static bool may_disable(const struct conf *conf)
{
	return may_loosen(conf, CONF_CUDA_DISABLE_CONTROL, LIMITS_MEM) &&
	       may_loosen(conf, CONF_CUDA_DISABLE_CONTROL, LIMITS_SM) &&
	       (conf_is_from_file(conf, rows[CONF_CUDA_DISABLE_CONTROL].name) ||
		!value_of(conf, CONF_RATION_REGION));
}

int conf_load(struct conf *conf, const char *file, conf_getenv *getenv_fn)
{
	const char *text;

	memset(conf, 0, sizeof(*conf));
	conf->getenv = getenv_fn;
	conf_file_read(conf, file);
	read_log(conf);
	conf_limits_read(conf, LIMITS_MEM);
	conf_limits_read(conf, LIMITS_SM);
	read_policy(conf);
	conf_path_read(conf);
	text = value_of(conf, CONF_RATION_NAME);
	conf->name = text ? text : "";
	conf->context_free = !read_bool(conf, CONF_RATION_CHARGE_CONTEXT, true) &&
			     may_loosen(conf, CONF_RATION_CHARGE_CONTEXT, LIMITS_MEM);
	read_places(conf);
	conf->disabled = read_bool(conf, CONF_CUDA_DISABLE_CONTROL, false) && may_disable(conf);
	text = value_of(conf, CONF_CUDA_TASK_PRIORITY);
	conf->priority = text && !strcmp(text, "0") ? 0 : 1;
	return conf->error[0] ? -EINVAL : 0;
}
