#include "tools/run_env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool run_env_is_scheduler(const char *name)
{
	static const char *const prefixes[] = { "CUDA_DEVICE_MEMORY_", "CUDA_DEVICE_SM_" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return !strcmp(name, conf_name(CONF_CUDA_DISABLE_CONTROL)) ||
	       !strcmp(name, conf_name(CONF_GPU_CORE_UTILIZATION_POLICY));
}

/* Puts `value` before what the list has. An empty rest would mean the current directory. */
static int prepend(const char *variable, const char *value)
{
	const char *old = getenv(variable);
	char *joined;
	int rc;

	if (!old || !*old)
		return setenv(variable, value, 1) < 0 ? -errno : 0;
	if (asprintf(&joined, "%s:%s", value, old) < 0)
		return -ENOMEM;
	rc = setenv(variable, joined, 1) < 0 ? -errno : 0;
	free(joined);
	return rc;
}

int run_env_use_sim(const char *dir, const char *config)
{
	if (config && setenv("RATION_SIM", config, 1) < 0)
		return -errno;
	return prepend("LD_LIBRARY_PATH", dir);
}

/* unsetenv() moves the rest of the list up, so each time the walk begins anew. */
static void remove_scheduler_variables(void)
{
	char name[256];

	for (char **e = environ; *e;) {
		size_t n = strcspn(*e, "=");

		snprintf(name, sizeof(name), "%.*s", (int)n, *e);
		if (n < sizeof(name) && run_env_is_scheduler(name) && unsetenv(name) == 0)
			e = environ;
		else
			e++;
	}
}

const char *run_env_sm_spec(const struct conf *conf)
{
	return conf->sm_policy == SM_POLICY_DISABLE ? "" : conf->sm_spec;
}

/* A scheduler's 0 means no limit, which our variables cannot say; the region does. */
static int use_limits(enum limits_kind kind, const char *spec)
{
	const char *name = conf_name(conf_ours(kind));
	struct limits_error ignored;

	if (limits_check(kind, spec, LIMITS_ZERO_IS_ERROR, &ignored) == 0)
		return setenv(name, spec, 1);
	return unsetenv(name);
}

int run_env_use_library(const char *library, const struct tenant *tenant,
			const char *const specs[LIMITS_KINDS])
{
	int rc = prepend("LD_PRELOAD", library);

	if (rc < 0)
		return rc;
	remove_scheduler_variables();
	for (enum limits_kind kind = 0; rc == 0 && kind < LIMITS_KINDS; kind++)
		rc = use_limits(kind, specs[kind]);
	if (rc < 0 || setenv(conf_name(CONF_RATION_REGION), tenant->path, 1) < 0 ||
	    setenv(conf_name(CONF_RATION_NAME), tenant->name, 1) < 0 ||
	    setenv(conf_name(CONF_RATION_LOG), "warn", 0) < 0)
		return -errno;
	return 0;
}

static int use(enum conf_var var, const char *value)
{
	return setenv(conf_name(var), value, 1) < 0 ? -errno : 0;
}

/* 0 is not said. */
static int use_size(enum conf_var var, uint64_t bytes)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	return bytes ? use(var, text) : 0;
}

int run_env_use_places(const struct conf *conf)
{
	int rc = use_size(CONF_RATION_RESIDENT, conf->resident_bytes);

	if (rc == 0)
		rc = use_size(CONF_RATION_HOST, conf->host_bytes);
	if (rc == 0 && conf->is_movable)
		rc = use(CONF_RATION_MOVABLE, "true");
	if (rc == 0 && conf->is_oversubscribed)
		rc = use(CONF_RATION_OVERSUBSCRIBE, "true");
	return rc;
}
