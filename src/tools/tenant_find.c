#include "tools/tenant_find.h"

#include "base/sys.h"
#include "tools/tenant_list.h"
#include "tools/tools_common.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAMES_BYTES = 1024 };

/* What cannot be read is no tenant that could be meant. */
static void pass_over(const char *path, int error)
{
	(void)path;
	(void)error;
}

/* Adds a name, or where `has_path` the path, to a list for people. */
static void add_name(char *list, const struct tenant_list_entry *entry, bool has_path)
{
	char name[NAMES_BYTES / 2];
	size_t n = strlen(list);

	if (has_path)
		tools_printable(entry->path, name, sizeof(name));
	else
		tenant_list_name(entry, name, sizeof(name));
	snprintf(list + n, NAMES_BYTES - n, "%s%s", n ? ", " : "", name);
}

static int complain_unknown(const char *command, const char *tenant, const struct tenant_list *list)
{
	char names[NAMES_BYTES] = "", text[128];

	for (size_t i = 0; i < list->count; i++)
		add_name(names, &list->entries[i], false);
	tools_complain(command, "there is no tenant '%s' here; %s%s",
		       tools_printable(tenant, text, sizeof(text)),
		       list->count    ? "there are: " :
		       geteuid() == 0 ? "there is none at all" :
					"there is none that you may see",
		       names);
	return TOOLS_UNHEALTHY;
}

static bool is_called(const struct tenant_list_entry *entry, const char *tenant)
{
	char name[NAMES_BYTES];

	return !strcmp(tenant_list_name(entry, name, sizeof(name)), tenant);
}

/* Finds the one tenant of that name in the list. */
static int choose(const char *command, const char *tenant, const struct tenant_list *list,
		  char *out_path, size_t path_bytes)
{
	const struct tenant_list_entry *found = NULL;
	char paths[NAMES_BYTES] = "", text[128];
	int count = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (!is_called(&list->entries[i], tenant))
			continue;
		found = &list->entries[i];
		add_name(paths, found, true);
		count++;
	}
	if (!found)
		return complain_unknown(command, tenant, list);
	if (count > 1) {
		tools_complain(command, "%d tenants are called '%s'; give the path of one: %s",
			       count, tools_printable(tenant, text, sizeof(text)), paths);
		return TOOLS_UNHEALTHY;
	}
	snprintf(out_path, path_bytes, "%s", found->path);
	return TOOLS_OK;
}

/* The file of the tenant whose directory was given; of another path, the path itself. */
static int find_in_directory(const char *command, const char *path, char *out_path,
			     size_t path_bytes)
{
	glob_t found = { 0 };
	char pattern[4096];
	struct stat st;
	size_t count;

	snprintf(out_path, path_bytes, "%s", path);
	/* A name that glob(3) would take for a pattern is nobody's whom `ration run` made. */
	if (sys_stat(path, &st) < 0 || !S_ISDIR(st.st_mode) || strpbrk(path, "*?[\\"))
		return TOOLS_OK;
	if (access(path, R_OK | X_OK) < 0) {
		tools_complain(command,
			       "%s: the directory belongs to uid %u and uid %u may not read it",
			       path, (unsigned)st.st_uid, (unsigned)geteuid());
		return TOOLS_UNHEALTHY;
	}
	snprintf(pattern, sizeof(pattern), "%s/*.region", path);
	count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
	if (count == 1)
		snprintf(out_path, path_bytes, "%s", found.gl_pathv[0]);
	else
		tools_complain(command, "%s: holds %s", path,
			       count ? "several files of tenants; give the path of one" :
				       "no tenant");
	globfree(&found);
	return count == 1 ? TOOLS_OK : TOOLS_UNHEALTHY;
}

int tenant_find(const char *command, const char *tenant, char *out_path, size_t path_bytes)
{
	struct tenant_list list;
	int rc;

	if (strchr(tenant, '/'))
		return find_in_directory(command, tenant, out_path, path_bytes);
	rc = tenant_list_read(false, pass_over, &list);
	if (rc < 0) {
		tools_complain(command, "%s", strerror(-rc));
		return TOOLS_UNHEALTHY;
	}
	rc = choose(command, tenant, &list, out_path, path_bytes);
	tenant_list_free(&list);
	return rc;
}
