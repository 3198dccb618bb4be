/*
 * Which modules have their code on the device: a driver that loads lazily brings it with the first
 * use of a function, and no call takes it out again but the end of the module.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* What is known of a module. */
struct module_facts {
	struct dev dev;    /* where its context is */
	const void *owner; /* the library whose it is, in `ctx`; NULL: the program loaded it */
	const void *ctx;
	uint64_t code_bytes; /* that its code takes at most; 0: not known */
	bool has_code;       /* it is on the device, and was let in */
	bool is_refused;     /* it is on the device, but passed the limit */
};

/* Starts: fork children begin with nothing. */
void module_init(void);

/*
 * A module was loaded, or is seen for the first time; what was known of its handle is void. Without
 * memory for it, it stays unknown.
 */
void module_enter(const void *module, const struct module_facts *facts);

/* What is known; false of an unknown one. */
bool module_find(const void *module, struct module_facts *out_facts);

/* True when any is on the device. */
bool module_any(struct dev dev);

/* Its code came to the device; or did so, but the question for it was refused. */
void module_came(const void *module);
void module_refuse(const void *module);

/*
 * Takes one, or all of a library, out before the driver unloads it: NULL when nothing is known.
 * Then it is gone, or was not unloaded and what is known of it is known again.
 */
struct module *module_take(const void *module);
struct module *module_take_library(const void *library);
void module_over(struct module *taken, bool is_gone);

/*
 * All of a context that had come by `mark` (context_mark() before it went): what comes later is of
 * another with that handle.
 */
void module_end_context(const void *ctx, uint64_t mark);
