#include "tools/library_check.h"

#include "base/sys.h"
#include "tools/soname.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SONAME "libration.so"
#define ADVICE "name the right one in RATION_LIB"

int library_check(const char *path, char *out_error, size_t error_bytes)
{
	struct link_map *map;
	struct stat st;
	void *handle;
	int rc = 0;

	/* The linker would wait for who writes into a pipe. */
	if (sys_stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		snprintf(out_error, error_bytes, "%s is no file; " ADVICE, path);
		return -ENOEXEC;
	}
	handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!handle) {
		snprintf(out_error, error_bytes, SONAME " cannot be loaded (%s); " ADVICE,
			 dlerror());
		return -ENOEXEC;
	}
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) < 0 || strcmp(soname_of(map), SONAME) != 0) {
		snprintf(out_error, error_bytes, "%s is another library than " SONAME "; " ADVICE,
			 path);
		rc = -ENOEXEC;
	}
	dlclose(handle);
	return rc;
}
