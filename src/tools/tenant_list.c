#include "tools/tenant_list.h"

#include "tools/region_list.h"
#include "tools/tenant_place.h"
#include "tools/tools_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Takes the view over into the list. */
static int add(struct tenant_list *list, const char *path, const struct view *view)
{
	struct tenant_list_entry *more = realloc(list->entries, (list->count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	list->entries = more;
	more += list->count;
	more->path = strdup(path);
	if (!more->path)
		return -ENOMEM;
	more->view = *view;
	list->count++;
	return 0;
}

static int read_one(const struct region_list_entry *region, bool has_dead,
		    tenant_list_complain *complain, struct tenant_list *list)
{
	static struct view view; /* 12 KiB */
	const char *path = region->path;
	int rc;

	/* What some `ration run` has left. Of a scheduler's file that may be HAMi-core's no lock says. */
	if (!has_dead && region->is_own && tenant_place_lives(path) == 0)
		return 0;
	rc = view_read(path, &view);
	if (rc == -ENOMEM)
		return rc;
	if (rc < 0) {
		complain(path, rc);
		return 0;
	}
	if (view_is_alive(&view) || has_dead)
		rc = add(list, path, &view);
	else
		view_free(&view);
	if (rc < 0)
		view_free(&view);
	return rc;
}

int tenant_list_read(bool has_dead, tenant_list_complain *complain, struct tenant_list *out_list)
{
	struct region_list regions;
	int rc = region_list_all(&regions);

	memset(out_list, 0, sizeof(*out_list));
	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < regions.count; i++)
		rc = read_one(&regions.entries[i], has_dead, complain, out_list);
	region_list_free(&regions);
	if (rc < 0)
		tenant_list_free(out_list);
	return rc;
}

void tenant_list_free(struct tenant_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		view_free(&list->entries[i].view);
		free(list->entries[i].path);
	}
	free(list->entries);
	list->entries = NULL;
	list->count = 0;
}

char *tenant_list_name(const struct tenant_list_entry *entry, char *out, size_t out_bytes)
{
	return tools_printable(entry->view.name[0] ? entry->view.name : entry->path, out,
			       out_bytes);
}
