/*
 * dlsym, the way most programs reach the driver. Only names in the tables are redirected; for all
 * others the answer, NULL and dlerror included, is the one without us.
 *
 * The exported dlsym is assembly (dlsym_<machine>.S): it asks dlsym_route() and either returns the
 * pointer or jumps to the real dlsym with registers and stack as they came, so that libc sees the
 * true caller (RTLD_NEXT and RTLD_DEFAULT depend on it).
 */
#pragma once

/* In two registers: done != 0, return pointer; else jump to it. */
struct dlsym_route {
	long done;
	void *pointer;
};

/* Decides for a call dlsym(handle, name) that returns to `caller`. */
struct dlsym_route dlsym_route(void *handle, const char *name, void *caller)
	__attribute__((visibility("hidden")));
