/*
 * The environment of a program under `ration run`. These change this process's own, which the
 * program inherits.
 */
#pragma once

#include "tools/tenant.h"

#include <stdbool.h>

/* True for a variable with which a scheduler or user configures the library past `ration run`. */
bool run_env_is_scheduler(const char *name);

/* Puts the software GPU, at `dir`, before the real driver; `config` as in RATION_SIM or NULL. */
int run_env_use_sim(const char *dir, const char *config);

/* Puts the library before the program's own preloads, and says which tenant it belongs to. */
int run_env_use_library(const char *library, const struct tenant *tenant, const char *mem_spec);
