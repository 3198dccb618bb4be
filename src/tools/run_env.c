#include "tools/run_env.h"

#include "base/conf.h"
#include "base/limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool run_env_is_scheduler(const char *name)
{
	static const char prefix[] = "CUDA_DEVICE_MEMORY_";

	return !strncmp(name, prefix, sizeof(prefix) - 1) ||
	       !strcmp(name, conf_name(CONF_CUDA_DISABLE_CONTROL));
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

int run_env_use_library(const char *library, const struct tenant *tenant, const char *mem_spec)
{
	int rc = prepend("LD_PRELOAD", library);
	struct limits_error ignored;

	if (rc < 0)
		return rc;
	remove_scheduler_variables();
	/* A scheduler's 0 means no limit, which our variable cannot say; the region does. */
	if (limits_check(LIMITS_MEM, mem_spec, LIMITS_ZERO_IS_ERROR, &ignored) == 0)
		rc = setenv(conf_name(CONF_RATION_MEM), mem_spec, 1);
	else
		rc = unsetenv(conf_name(CONF_RATION_MEM));
	if (rc < 0 || setenv(conf_name(CONF_RATION_REGION), tenant->path, 1) < 0 ||
	    setenv(conf_name(CONF_RATION_NAME), tenant->name, 1) < 0 ||
	    setenv(conf_name(CONF_RATION_LOG), "warn", 0) < 0)
		return -errno;
	return 0;
}
