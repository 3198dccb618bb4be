/*
 * The environment of a program under `ration run`. These change this process's own, which the
 * program inherits.
 */
#pragma once

#include "base/conf.h"
#include "tools/tenant.h"

#include <stdbool.h>

/* True for a variable with which a scheduler or user configures the library past `ration run`. */
bool run_env_is_scheduler(const char *name);

/* Puts the software GPU, at `dir`, before the real driver; `config` as in RATION_SIM or NULL. */
int run_env_use_sim(const char *dir, const char *config);

/*
 * Puts the library before the program's own preloads, and says which tenant it belongs to and which
 * limits it has, "" for none. 0 or -errno.
 */
int run_env_use_library(const char *library, const struct tenant *tenant,
			const char *const specs[LIMITS_KINDS]);

/*
 * Says where the tenant's memory may lie: a program that comes when its file has gone makes it
 * again as it was. 0 or -errno.
 */
int run_env_use_places(const struct conf *conf);

/* The limits of GPU time that a tenant of this configuration passes on: "" where none ever holds. */
const char *run_env_sm_spec(const struct conf *conf);
