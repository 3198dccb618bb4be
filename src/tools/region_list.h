/* Where region files are found here: those of `ration run`, and those of the schedulers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region_list_entry {
	char *path;
	uint64_t st_dev, st_ino;
	bool is_own; /* below a directory of `ration run` */
};

struct region_list {
	size_t count;
	struct region_list_entry *entries; /* each file once, whatever names lead to it */
};

/*
 * Every region file of every tenant that can be seen from here. 0 or -errno; region_list_free() it.
 */
int region_list_all(struct region_list *out_list);

/* Frees what region_list_all() allocated. */
void region_list_free(struct region_list *list);
