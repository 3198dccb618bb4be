#include "base/conf.h"

#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const struct {
	const char *name;
	const char *help;
} rows[CONF_COUNT] = {
#define CONF(name, help) { #name, help },
#include "base/conf.def"
#undef CONF
};

enum { INDEXED_LIMITS = 64 };

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

/* The value in the operator's file; of several lines with that name, the last. */
static const char *in_file(const struct conf *conf, const char *name)
{
	const char *value = NULL;
	size_t n = strlen(name);

	for (size_t at = 0; at < conf->file_bytes; at += strlen(conf->file + at) + 1)
		if (!strncmp(conf->file + at, name, n) && conf->file[at + n] == '=')
			value = conf->file + at + n + 1;
	return value;
}

bool conf_is_from_file(const struct conf *conf, const char *name)
{
	return in_file(conf, name) != NULL;
}

const char *conf_value(const struct conf *conf, const char *name)
{
	const char *value = in_file(conf, name);

	return value ? value : conf->getenv(name);
}

static const char *value_of(const struct conf *conf, enum conf_var var)
{
	return conf_value(conf, rows[var].name);
}

static void fail(struct conf *conf, const char *name, const char *text)
{
	if (!conf->error[0])
		snprintf(conf->error, sizeof(conf->error), "%.250s: %s", name, text);
}

/* Reads up to `bytes`: how many, or -errno. */
static ssize_t read_all(int fd, char *to, size_t bytes)
{
	size_t have = 0;
	ssize_t n;

	do {
		n = read(fd, to + have, bytes - have);
		if (n > 0)
			have += (size_t)n;
	} while (have < bytes && (n > 0 || (n < 0 && errno == EINTR)));
	return n < 0 ? -errno : (ssize_t)have;
}

/* Splits the file into NUL-ended lines without their carriage returns. */
static void read_file(struct conf *conf, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = -errno;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return;
	if (fd >= 0) {
		n = read_all(fd, conf->file, sizeof(conf->file));
		close(fd);
	}
	conf->is_file_unread = n < 0 || n == sizeof(conf->file);
	if (conf->is_file_unread) {
		fail(conf, path, n < 0 ? strerror((int)-n) : "the file is too long");
		return;
	}
	for (ssize_t i = 0; i < n; i++)
		if (conf->file[i] == '\n' || conf->file[i] == '\r')
			conf->file[i] = '\0';
	conf->file[n] = '\0';
	conf->file_bytes = (size_t)n;
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
		fail(conf, rows[var].name, what);
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
	fail(conf, rows[var].name, err.text);
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
	fail(conf, rows[CONF_RATION_RDMA].name, what);
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
	fail(conf, rows[CONF_RATION_LOG].name, what);
}

/* Item `index` of a list of UUIDs, NVIDIA_VISIBLE_DEVICES; false when it can name no limit. */
static bool visible_uuid(const char *list, int index, char *out, size_t out_bytes)
{
	char item[128];
	size_t n;

	for (int i = 0; list && i < index; i++) {
		list = strchr(list, ',');
		list = list ? list + 1 : NULL;
	}
	if (!list || (strncmp(list, "GPU-", 4) && strncmp(list, "MIG-", 4)))
		return false;
	n = strcspn(list, ",");
	if (n >= out_bytes)
		return false;
	snprintf(item, sizeof(item), "%.*s:1", (int)n, list);
	if (limits_check(LIMITS_MEM, item, LIMITS_ZERO_IS_ERROR, NULL) < 0)
		return false;
	memcpy(out, list, n);
	out[n] = '\0';
	return true;
}

/* One kind of limit: its variables, and where what they say goes. */
struct target {
	enum limits_kind kind;
	const char *ours, *general; /* names; the second also with "_<i>" */
	const char *what;           /* one amount is called */
	char *spec, *source;
};

static struct target target_of(struct conf *conf, enum limits_kind kind)
{
	return (struct target){
		.kind = kind,
		.ours = rows[conf_ours(kind)].name,
		.general = rows[conf_schedulers(kind)].name,
		.what = kind == LIMITS_MEM ? "size" : "percentage",
		.spec = kind == LIMITS_MEM ? conf->mem_spec : conf->sm_spec,
		.source = kind == LIMITS_MEM ? conf->mem_source : conf->sm_source,
	};
}

/* Appends "who:text" or "text" to the specification; false when it does not fit. */
static bool append(const struct target *t, const char *who, const char *text)
{
	size_t have = strlen(t->spec), room = RATION_SPEC_BYTES - have;
	int n = snprintf(t->spec + have, room, "%s%s%s%s", have ? "," : "", who, *who ? ":" : "",
			 text);

	return n >= 0 && (size_t)n < room;
}

static void name_source(const struct conf *conf, const struct target *t, const char *name)
{
	snprintf(t->source, RATION_SOURCE_BYTES, "%s%s", name,
		 in_file(conf, name) ? " in " CONF_FILE : "");
}

/* A zero of one device that leaves it to the limit of all. */
static bool is_left_to_all(const struct conf *conf, const struct target *t, const char *who,
			   const char *text)
{
	struct limits_item item;

	return *who && conf_value(conf, t->general) &&
	       limits_next(t->kind, &text, LIMITS_ZERO_IS_NONE, &item, NULL) == 1 && !*text &&
	       !item.who[0] && item.amount == 0;
}

static void add_limit(struct conf *conf, const struct target *t, const char *name, const char *who)
{
	const char *text = conf_value(conf, name);
	struct limits_error err;

	if (!text || is_left_to_all(conf, t, who, text))
		return;
	/* One each: a list here would be taken for limits of other devices. */
	if (strpbrk(text, ",:"))
		snprintf(err.text, sizeof(err.text), "'%.40s' is a list; give one %s", text,
			 t->what);
	else if (limits_check(t->kind, text, LIMITS_ZERO_IS_NONE, &err) == 0)
		err.text[0] = '\0';
	if (err.text[0]) {
		fail(conf, name, err.text);
		return;
	}
	if (!append(t, who, text))
		fail(conf, name, "too many limits");
	if (!t->source[0])
		name_source(conf, t, name);
}

static const char *indexed_limit(const struct target *t, int index, char *name, size_t name_bytes)
{
	snprintf(name, name_bytes, "%s_%d", t->general, index);
	return name;
}

/*
 * How long the name of a line NAME=VALUE is that limits one device, whether there can be such an
 * index or not; 0 for other lines.
 */
static size_t indexed_name_bytes(const struct target *t, const char *line)
{
	size_t n = strlen(t->general), digits;

	if (strncmp(line, t->general, n) != 0 || line[n] != '_')
		return 0;
	digits = strspn(line + n + 1, "0123456789");
	return digits && line[n + 1 + digits] == '=' ? n + 1 + digits : 0;
}

/* Complains of a limit that would be passed over, as nobody looks for that name. */
static void check_index(struct conf *conf, const struct target *t, const char *line)
{
	size_t n = indexed_name_bytes(t, line);
	char name[128], known[64], what[128];

	if (n == 0 || n >= sizeof(name))
		return;
	snprintf(name, sizeof(name), "%.*s", (int)n, line);
	for (int i = 0; i < INDEXED_LIMITS; i++)
		if (!strcmp(name, indexed_limit(t, i, known, sizeof(known))))
			return;
	snprintf(what, sizeof(what), "a device is one of 0 to 63; %s limits all of them",
		 t->general);
	if (conf_value(conf, name))
		fail(conf, name, what);
}

/* Only names are taken from `environ`: what conf->getenv does not give is not there. */
static void check_indices(struct conf *conf, const struct target *t, bool has_environment)
{
	for (size_t at = 0; at < conf->file_bytes; at += strlen(conf->file + at) + 1)
		check_index(conf, t, conf->file + at);
	for (char **line = environ; has_environment && line && *line; line++)
		check_index(conf, t, *line);
}

/* The schedulers' variables, as one specification. */
static void read_scheduler_limits(struct conf *conf, const struct target *t)
{
	const char *visible = value_of(conf, CONF_NVIDIA_VISIBLE_DEVICES);

	check_indices(conf, t, !in_file(conf, t->general));
	for (int i = 0; i < INDEXED_LIMITS; i++) {
		char name[64], who[64];

		indexed_limit(t, i, name, sizeof(name));
		/* The operator's limit of every device goes before the environment's of one. */
		if (in_file(conf, t->general) && !in_file(conf, name))
			continue;
		if (!visible_uuid(visible, i, who, sizeof(who)))
			snprintf(who, sizeof(who), "%d", i);
		add_limit(conf, t, name, who);
	}
	add_limit(conf, t, t->general, "");
}

static bool limit_in_file(const struct conf *conf, const struct target *t)
{
	for (size_t at = 0; at < conf->file_bytes; at += strlen(conf->file + at) + 1)
		if (indexed_name_bytes(t, conf->file + at))
			return true;
	return in_file(conf, t->ours) || in_file(conf, t->general);
}

static void read_limits(struct conf *conf, enum limits_kind kind)
{
	const struct target t = target_of(conf, kind);
	const char *text = conf_value(conf, t.ours);
	struct limits_error err;

	conf->is_limited_by_file[kind] = limit_in_file(conf, &t);
	if (!text || (conf->is_limited_by_file[kind] && !in_file(conf, t.ours))) {
		read_scheduler_limits(conf, &t);
		return;
	}
	if (limits_check(kind, text, LIMITS_ZERO_IS_ERROR, &err) < 0) {
		fail(conf, t.ours, err.text);
		return;
	}
	snprintf(t.spec, RATION_SPEC_BYTES, "%s", text);
	name_source(conf, &t, t.ours);
	if (kind == LIMITS_SM)
		conf->sm_policy = SM_POLICY_FORCE;
}

/* A variable that loosens limits of a kind counts in the file, or where the file sets none. */
static bool may_loosen(const struct conf *conf, enum conf_var var, enum limits_kind kind)
{
	return in_file(conf, rows[var].name) ||
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

static void set_path(struct conf *conf, enum conf_var var, const char *path)
{
	if (!*path || strlen(path) >= sizeof(conf->region_path)) {
		fail(conf, rows[var].name, *path ? "the path is too long" : "the path is empty");
		return;
	}
	memcpy(conf->region_path, path, strlen(path) + 1);
}

static void read_region_path(struct conf *conf)
{
	const char *pod = value_of(conf, CONF_POD_UID), *name = value_of(conf, CONF_CONTAINER_NAME);
	const char *mount = value_of(conf, CONF_CONTAINER_VGPU_MOUNT);
	const char *path;
	int n;

	path = value_of(conf, CONF_RATION_REGION);
	if (path) {
		set_path(conf, CONF_RATION_REGION, path);
		return;
	}
	path = value_of(conf, CONF_CUDA_DEVICE_MEMORY_SHARED_CACHE);
	if (path) {
		set_path(conf, CONF_CUDA_DEVICE_MEMORY_SHARED_CACHE, path);
		return;
	}
	if (pod && *pod && name && *name && !strchr(pod, '/') && !strchr(name, '/')) {
		n = snprintf(conf->region_path, sizeof(conf->region_path),
			     "%s/containers/%s_%s/usage.cache",
			     mount && *mount ? mount : "/usr/local/vgpu", pod, name);
		conf->region_is_pod = n > 0 && (size_t)n < sizeof(conf->region_path);
		if (conf->region_is_pod)
			return;
	}
	snprintf(conf->region_path, sizeof(conf->region_path), "%s", CONF_DEFAULT_REGION);
	conf->region_is_default = true;
}

/* CUDA_DISABLE_CONTROL is the container's own choice, but not below a `ration run`. */
static bool may_disable(const struct conf *conf)
{
	return may_loosen(conf, CONF_CUDA_DISABLE_CONTROL, LIMITS_MEM) &&
	       may_loosen(conf, CONF_CUDA_DISABLE_CONTROL, LIMITS_SM) &&
	       (in_file(conf, rows[CONF_CUDA_DISABLE_CONTROL].name) ||
		!value_of(conf, CONF_RATION_REGION));
}

int conf_load(struct conf *conf, const char *file, conf_getenv *getenv_fn)
{
	const char *text;

	memset(conf, 0, sizeof(*conf));
	conf->getenv = getenv_fn;
	read_file(conf, file);
	read_log(conf);
	read_limits(conf, LIMITS_MEM);
	read_limits(conf, LIMITS_SM);
	read_policy(conf);
	read_region_path(conf);
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
