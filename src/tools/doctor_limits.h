/* Which limits are in force, and where each came from. */
#pragma once

#include "base/conf.h"
#include "shm/view.h"
#include "tools/device_list.h"

/* Reports variables that are set but mean nothing, and what could not be understood. */
void doctor_limits_variables(const struct conf *conf);

/* The limits of a kind in the region that is in force, beside what the configuration says. */
void doctor_limits_of_region(enum limits_kind kind, const struct view *view, const char *path,
			     const struct conf *conf, const struct device_list *devices);

/* The limits of a kind that a new region would get, where there is none to look at. */
void doctor_limits_of_conf(enum limits_kind kind, const struct conf *conf,
			   const struct device_list *devices);
