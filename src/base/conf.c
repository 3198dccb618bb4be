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
		snprintf(conf->error, sizeof(conf->error), "%.255s: %s", name, text);
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
	if (n < 0) {
		fail(conf, path, strerror((int)-n));
		return;
	}
	if (n == sizeof(conf->file)) {
		fail(conf, path, "the file is too long");
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
	if (limits_check(item, LIMITS_ZERO_IS_ERROR, NULL) < 0)
		return false;
	memcpy(out, list, n);
	out[n] = '\0';
	return true;
}

/* Appends "who:text" or "text" to the specification; false when it does not fit. */
static bool append(struct conf *conf, const char *who, const char *text)
{
	size_t have = strlen(conf->mem_spec), room = sizeof(conf->mem_spec) - have;
	int n = snprintf(conf->mem_spec + have, room, "%s%s%s%s", have ? "," : "", who,
			 *who ? ":" : "", text);

	return n >= 0 && (size_t)n < room;
}

/* A zero of one device that leaves it to the limit of all. */
static bool is_left_to_all(const struct conf *conf, const char *who, const char *text)
{
	uint64_t bytes;

	return *who && value_of(conf, CONF_CUDA_DEVICE_MEMORY_LIMIT) &&
	       units_parse_size(text, strlen(text), &bytes) == UNITS_OK && bytes == 0;
}

static void add_limit(struct conf *conf, const char *name, const char *who)
{
	const char *text = conf_value(conf, name);
	struct limits_error err;

	if (!text || is_left_to_all(conf, who, text))
		return;
	/* One size each: a list here would be taken for limits of other devices. */
	if (strpbrk(text, ",:"))
		snprintf(err.text, sizeof(err.text), "'%.40s' is a list; give one size", text);
	else if (limits_check(text, LIMITS_ZERO_IS_NONE, &err) == 0)
		err.text[0] = '\0';
	if (err.text[0]) {
		fail(conf, name, err.text);
		return;
	}
	if (!append(conf, who, text))
		fail(conf, name, "too many limits");
	if (!conf->mem_source[0])
		snprintf(conf->mem_source, sizeof(conf->mem_source), "%s%s", name,
			 in_file(conf, name) ? " in " CONF_FILE : "");
}

static const char *indexed_limit(int index, char *name, size_t name_bytes)
{
	snprintf(name, name_bytes, "%s_%d", rows[CONF_CUDA_DEVICE_MEMORY_LIMIT].name, index);
	return name;
}

/*
 * How long the name of a line NAME=VALUE is that limits one device, whether there can be such an
 * index or not; 0 for other lines.
 */
static size_t indexed_name_bytes(const char *line)
{
	const char *general = rows[CONF_CUDA_DEVICE_MEMORY_LIMIT].name;
	size_t n = strlen(general), digits;

	if (strncmp(line, general, n) != 0 || line[n] != '_')
		return 0;
	digits = strspn(line + n + 1, "0123456789");
	return digits && line[n + 1 + digits] == '=' ? n + 1 + digits : 0;
}

/* Complains of a limit that would be passed over, as nobody looks for that name. */
static void check_index(struct conf *conf, const char *line)
{
	size_t n = indexed_name_bytes(line);
	char name[128], known[64];

	if (n == 0 || n >= sizeof(name))
		return;
	snprintf(name, sizeof(name), "%.*s", (int)n, line);
	for (int i = 0; i < INDEXED_LIMITS; i++)
		if (!strcmp(name, indexed_limit(i, known, sizeof(known))))
			return;
	if (conf_value(conf, name))
		fail(conf, name,
		     "a device is one of 0 to 63; CUDA_DEVICE_MEMORY_LIMIT limits all of them");
}

/* Only names are taken from `environ`: what conf->getenv does not give is not there. */
static void check_indices(struct conf *conf, bool has_environment)
{
	for (size_t at = 0; at < conf->file_bytes; at += strlen(conf->file + at) + 1)
		check_index(conf, conf->file + at);
	for (char **line = environ; has_environment && line && *line; line++)
		check_index(conf, *line);
}

/* The schedulers' variables, as one specification. */
static void read_scheduler_limits(struct conf *conf)
{
	const char *visible = value_of(conf, CONF_NVIDIA_VISIBLE_DEVICES);
	const char *general = rows[CONF_CUDA_DEVICE_MEMORY_LIMIT].name;

	check_indices(conf, !in_file(conf, general));
	for (int i = 0; i < INDEXED_LIMITS; i++) {
		char name[64], who[64];

		indexed_limit(i, name, sizeof(name));
		/* The operator's limit of every device goes before the environment's of one. */
		if (in_file(conf, general) && !in_file(conf, name))
			continue;
		if (!visible_uuid(visible, i, who, sizeof(who)))
			snprintf(who, sizeof(who), "%d", i);
		add_limit(conf, name, who);
	}
	add_limit(conf, general, "");
}

static bool limit_in_file(const struct conf *conf)
{
	for (size_t at = 0; at < conf->file_bytes; at += strlen(conf->file + at) + 1)
		if (indexed_name_bytes(conf->file + at))
			return true;
	return in_file(conf, rows[CONF_RATION_MEM].name) ||
	       in_file(conf, rows[CONF_CUDA_DEVICE_MEMORY_LIMIT].name);
}

static void read_limits(struct conf *conf)
{
	const char *name = rows[CONF_RATION_MEM].name, *text = conf_value(conf, name);
	struct limits_error err;

	conf->is_limited_by_file = limit_in_file(conf);
	if (!text || (conf->is_limited_by_file && !in_file(conf, name))) {
		read_scheduler_limits(conf);
		return;
	}
	if (limits_check(text, LIMITS_ZERO_IS_ERROR, &err) < 0) {
		fail(conf, name, err.text);
		return;
	}
	snprintf(conf->mem_spec, sizeof(conf->mem_spec), "%s", text);
	snprintf(conf->mem_source, sizeof(conf->mem_source), "%s%s", name,
		 in_file(conf, name) ? " in " CONF_FILE : "");
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

/* A variable that loosens a limit counts in the file, or where the file sets no limit. */
static bool may_loosen(const struct conf *conf, enum conf_var var)
{
	return in_file(conf, rows[var].name) || !conf->is_limited_by_file;
}

/* CUDA_DISABLE_CONTROL is the container's own choice, but not below a `ration run`. */
static bool may_disable(const struct conf *conf)
{
	return may_loosen(conf, CONF_CUDA_DISABLE_CONTROL) &&
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
	read_limits(conf);
	read_region_path(conf);
	text = value_of(conf, CONF_RATION_NAME);
	conf->name = text ? text : "";
	conf->context_free = !read_bool(conf, CONF_RATION_CHARGE_CONTEXT, true) &&
			     may_loosen(conf, CONF_RATION_CHARGE_CONTEXT);
	conf->disabled = read_bool(conf, CONF_CUDA_DISABLE_CONTROL, false) && may_disable(conf);
	text = value_of(conf, CONF_CUDA_TASK_PRIORITY);
	conf->priority = text && !strcmp(text, "0") ? 0 : 1;
	return conf->error[0] ? -EINVAL : 0;
}
