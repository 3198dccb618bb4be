/*
 * The configuration of a process: the environment, under the operator's file.
 *
 * A line KEY=VALUE of /overrideEnv goes before the variable of that name, and a limit in it before
 * every variable that would loosen it. What cannot be understood is an error with the name
 * and the text in it, never "no limit".
 */
#pragma once

#include "base/limits.h"
#include "base/log.h"

#include <ration/region.h>
#include <stdbool.h>

enum conf_var {
#define CONF(name, help) CONF_##name,
#include "base/conf.def"
#undef CONF
	CONF_COUNT
};

enum { CONF_FILE_BYTES = 16384, CONF_PATH_BYTES = 4096 };

#define CONF_FILE "/overrideEnv"
#define CONF_DEFAULT_REGION "/tmp/cudevshr.cache"

/* Reads a variable: secure_getenv in the library, so that a setuid program follows nobody. */
typedef const char *conf_getenv(const char *name);

struct conf {
	conf_getenv *getenv;
	char file[CONF_FILE_BYTES]; /* the operator's file, lines ended by NUL */
	size_t file_bytes;
	bool is_file_unread; /* it is there and nobody knows what it limits: an error */

	char mem_spec[RATION_SPEC_BYTES];     /* base/limits.h; empty: nothing is configured */
	char mem_source[RATION_SOURCE_BYTES]; /* the variable or file it came from */
	char sm_spec[RATION_SPEC_BYTES];      /* likewise, of GPU time */
	char sm_source[RATION_SOURCE_BYTES];
	enum sm_policy sm_policy; /* SM_POLICY_FORCE of RATION_SM: no monitor switches it off */
	/* The operator's file has limits of the kind: the environment loosens none. */
	bool is_limited_by_file[LIMITS_KINDS];
	char region_path[CONF_PATH_BYTES];
	bool region_is_pod; /* built of POD_UID and CONTAINER_NAME: its directory is ours to make */
	bool region_is_default; /* nobody named it: where there can be none, that is no error */
	const char *name;       /* of the tenant, or "" */
	enum log_level log;
	bool disabled;
	bool context_free;
	bool is_movable, is_oversubscribed;  /* the second only with the first */
	bool has_signals;                    /* a movable one is suspended by them */
	bool may_move_rdma;                  /* what may be registered with a device moves */
	uint64_t resident_bytes, host_bytes; /* 0 = not said */
	int priority;
	char error[512]; /* empty, or what could not be understood: the first such thing */
};

/* Reads everything. 0, or -EINVAL with conf->error filled. `file` is CONF_FILE but for tests. */
int conf_load(struct conf *conf, const char *file, conf_getenv *getenv);

/* The limits of a kind as configured, and where they came from: mem_spec and mem_source or sm_*. */
const char *conf_spec(const struct conf *conf, enum limits_kind kind);
const char *conf_source(const struct conf *conf, enum limits_kind kind);

/* RATION_FLAG_* that a region gets by this configuration. */
uint32_t conf_region_flags(const struct conf *conf);

/* Our variable of a kind of limit, RATION_MEM or RATION_SM, and the schedulers'. */
enum conf_var conf_ours(enum limits_kind kind);
enum conf_var conf_schedulers(enum limits_kind kind);

/* The value of a variable, from the operator's file or the environment; NULL when unset. */
const char *conf_value(const struct conf *conf, const char *name);

/* True when the value comes from the operator's file. */
bool conf_is_from_file(const struct conf *conf, const char *name);

/* For the files of base/conf_*: what could not be understood. Only the first is kept. */
void conf_fail(struct conf *conf, const char *name, const char *text);

/* Name and description of a row of conf.def. Constant strings. */
const char *conf_name(enum conf_var var);
const char *conf_help(enum conf_var var);
