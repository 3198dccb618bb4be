/* The settings of the machine in use as they were written, beside those of a process that comes. */
#pragma once

#include "machine_file.h"

/* Keeps this process's RATION_SIM in the file, for people. The setup byte is held. */
void machine_settings_write(struct machine_file *file);

/*
 * Says in a line on standard error, once in a process, that this process's settings are not those of
 * the machine at `path`. Before the process has a slot; `pid_namespace` is its own.
 */
void machine_settings_compare(const struct machine_file *file, const struct machine_config *own,
			      uint64_t pid_namespace, const char *path);
