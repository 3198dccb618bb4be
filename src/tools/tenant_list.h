/* The tenants of this machine, each as it was when it was looked at. */
#pragma once

#include "shm/view.h"

#include <stdbool.h>
#include <stddef.h>

struct tenant_list_entry {
	char *path; /* of the region file */
	struct view view;
};

struct tenant_list {
	size_t count;
	struct tenant_list_entry *entries;
};

/* What tenant_list_read() could not read; `error` is negative. */
typedef void tenant_list_complain(const char *path, int error);

/*
 * Reads every region that can be found, without those of which nobody is alive unless has_dead.
 * 0 or -errno; tenant_list_free() it.
 */
int tenant_list_read(bool has_dead, tenant_list_complain *complain, struct tenant_list *out_list);

/* Frees what tenant_list_read() allocated. */
void tenant_list_free(struct tenant_list *list);

/* The tenant's name for people, else its file's path; printable. Returns `out`. */
char *tenant_list_name(const struct tenant_list_entry *entry, char *out, size_t out_bytes);
