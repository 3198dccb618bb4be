/* Which libraries of interest are loaded into this process. */
#pragma once

#include <link.h>
#include <stdbool.h>

enum { DOCTOR_LOADED_MAX = 8 };

struct doctor_loaded {
	int own_count;                                 /* copies of libration.so */
	const struct link_map *own[DOCTOR_LOADED_MAX]; /* the first one is the one that works */
	int foreign_count;                             /* libraries of others that limit the GPU */
	const struct link_map *foreign[DOCTOR_LOADED_MAX];
};

/* Looks through the list of loaded objects. */
void doctor_loaded_find(struct doctor_loaded *out_loaded);

/* Reports what of it is a fault or a surprise. */
void doctor_loaded_report(const struct doctor_loaded *loaded);

/* True when `function` lies in the copy of libration.so that works. */
bool doctor_loaded_has(const struct doctor_loaded *loaded, void *function);

/*
 * What the dynamic linker gives a program that refers to `name`: that of the first loaded object
 * which defines it. NULL when none does.
 */
void *doctor_loaded_first(const char *name);
