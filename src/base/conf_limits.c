#include "base/conf_limits.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { INDEXED_LIMITS = 64 };

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
		.ours = conf_name(conf_ours(kind)),
		.general = conf_name(conf_schedulers(kind)),
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
		 conf_is_from_file(conf, name) ? " in " CONF_FILE : "");
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
		conf_fail(conf, name, err.text);
		return;
	}
	if (!append(t, who, text))
		conf_fail(conf, name, "too many limits");
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
		conf_fail(conf, name, what);
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
	const char *visible = conf_value(conf, conf_name(CONF_NVIDIA_VISIBLE_DEVICES));

	check_indices(conf, t, !conf_is_from_file(conf, t->general));
	for (int i = 0; i < INDEXED_LIMITS; i++) {
		char name[64], who[64];

		indexed_limit(t, i, name, sizeof(name));
		/* The operator's limit of every device goes before the environment's of one. */
		if (conf_is_from_file(conf, t->general) && !conf_is_from_file(conf, name))
			continue;
		if (!visible_uuid(visible, i, who, sizeof(who)))
			snprintf(who, sizeof(who), "%d", i);
		add_limit(conf, t, name, who);
	}
	add_limit(conf, t, t->general, "");
}

/* True when the word looks like a name of the kind's limits, in either case. */
static bool is_limit(const struct target *t, const char *word, size_t len)
{
	size_t n = strlen(t->general);

	if (len == strlen(t->ours) && !strncasecmp(word, t->ours, len))
		return true;
	return len >= n && !strncasecmp(word, t->general, n) && (len == n || word[n] == '_');
}

/* True when it is one, as it is read. */
static bool is_read(const struct target *t, const char *word, size_t len)
{
	size_t n = strlen(t->general);

	if (!strncmp(word, t->ours, len))
		return true;
	return !strncmp(word, t->general, n) &&
	       (len == n || (len > n + 1 && n + 1 + strspn(word + n + 1, "0123456789") >= len));
}

/*
 * Complains of a line that names a limit before its sign and is none, "export RATION_MEM=4g" say:
 * passed over it would be no limit.
 */
static void check_line(struct conf *conf, const struct target *t, const char *line)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789_";
	const char *sign = line + strcspn(line, "="), *word = line;
	char what[160];
	size_t len;

	if (line[strspn(line, " \t")] == '#')
		return;
	for (; word < sign; word += len ? len : 1) {
		len = strspn(word, letters);
		if (!is_limit(t, word, len))
			continue;
		if (word == line && *sign && word + len == sign && is_read(t, word, len))
			return;
		snprintf(what, sizeof(what), "'%.60s' is no line NAME=value, yet names a limit",
			 line);
		conf_fail(conf, CONF_FILE, what);
		conf->is_file_unread = true;
	}
}

static bool limit_in_file(const struct conf *conf, const struct target *t)
{
	for (size_t at = 0; at < conf->file_bytes; at += strlen(conf->file + at) + 1)
		if (indexed_name_bytes(t, conf->file + at))
			return true;
	return conf_is_from_file(conf, t->ours) || conf_is_from_file(conf, t->general);
}

void conf_limits_read(struct conf *conf, enum limits_kind kind)
{
	const struct target t = target_of(conf, kind);
	const char *text = conf_value(conf, t.ours);
	struct limits_error err;

	for (size_t at = 0; at < conf->file_bytes; at += strlen(conf->file + at) + 1)
		check_line(conf, &t, conf->file + at);
	conf->is_limited_by_file[kind] = limit_in_file(conf, &t);
	if (!text || (conf->is_limited_by_file[kind] && !conf_is_from_file(conf, t.ours))) {
		read_scheduler_limits(conf, &t);
		return;
	}
	if (limits_check(kind, text, LIMITS_ZERO_IS_ERROR, &err) < 0) {
		conf_fail(conf, t.ours, err.text);
		return;
	}
	snprintf(t.spec, RATION_SPEC_BYTES, "%s", text);
	name_source(conf, &t, t.ours);
	if (kind == LIMITS_SM)
		conf->sm_policy = SM_POLICY_FORCE;
}
