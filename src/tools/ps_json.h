/* `ration ps --json`: the tenants for programs. docs/man/ration-ps.1 describes the members. */
#pragma once

#include "tools/tenant_list.h"

#include <stdio.h>

/* Writes {"tenants": [...]}. 0 or -errno. */
int ps_json_print(const struct tenant_list *list, FILE *out);
