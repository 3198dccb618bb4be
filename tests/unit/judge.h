/*
 * tests/region_check.py, which knows the HAMi layout from elsewhere, looks at a region file.
 */
#pragma once

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/*
 * The judge of another language: 0 when it finds nothing wrong, 1 when it does, 127 without Python.
 */
static inline int judge(const char *path)
{
	char script[512], command[2048];

	snprintf(script, sizeof(script), "%s", __FILE__);
	*strrchr(script, '/') = '\0';
	snprintf(command, sizeof(command),
		 "command -v python3 >/dev/null || exit 127; "
		 "exec python3 %s/../region_check.py %s >&2",
		 script, path);
	return WEXITSTATUS(system(command));
}

static inline void assert_judged(const char *path)
{
	int status = judge(path);

	if (status == 127)
		SKIP("there is no python3");
	assert_int_equal(status, 0);
}
