/* The name that a loaded object was linked with. */
#pragma once

#include <link.h>

/* DT_SONAME, or "". It lives as long as the object is loaded. */
const char *soname_of(const struct link_map *map);
