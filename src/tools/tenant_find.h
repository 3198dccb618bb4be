/* The one tenant that a word on the command line means. */
#pragma once

#include <stddef.h>

/*
 * The path of the region of the tenant with this name, or of the file or directory that the word, with a
 * '/' in it, is. TOOLS_OK; else `command` has complained of what is wrong: no such tenant, or several.
 */
int tenant_find(const char *command, const char *tenant, char *out_path, size_t path_bytes);
