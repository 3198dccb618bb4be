#include "tools/sim_check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Takes `prefix` off the beginning of *text if it is there. */
static bool take(const char **text, const char *prefix)
{
	size_t n = strlen(prefix);

	if (strncmp(*text, prefix, n) != 0)
		return false;
	*text += n;
	return true;
}

int sim_check(const char *path, struct device_list *out_list, char *out_error, size_t error_bytes)
{
	const char *said = out_list->complaint;
	int rc = device_list_read(path, out_list);

	if (rc == 0 || rc == -ENOENT)
		return 0;
	rc = take(&said, "ration-sim: ") && take(&said, "RATION_SIM: ") ? -EINVAL : -EIO;
	snprintf(out_error, error_bytes, "%s", *said ? said : "it gave no answer");
	return rc;
}
