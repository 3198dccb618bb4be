/*
 * Where the region is: at the path that is named, of the pod that is named, or, where nothing names
 * one, what a scheduler has put into this container; else at the default path.
 */
#pragma once

#include "base/conf.h"

/*
 * Fills region_path, and how it came to be. A process that has lost its environment (a login, a
 * job of cron, `env -i`) finds its container's region as the node's monitor does: the first
 * *.cache, by name, of the folder that the scheduler mounts.
 */
void conf_path_read(struct conf *conf);
