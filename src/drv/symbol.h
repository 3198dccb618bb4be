/*
 * Names in loaded objects, found without calling anything in libc: sanitizers and other
 * interposers call dlsym before their own functions work.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* For the functions on the way of a dlsym call: they run before a sanitizer is ready. */
#define SYMBOL_EARLY \
	__attribute__((no_sanitize("address", "undefined", "thread"), no_stack_protector))

typedef void *symbol_dlsym(void *handle, const char *name);
typedef void *symbol_dlopen(const char *name, int flags);

/* libc's own dlsym and dlopen, past every interposer; NULL when the process has none. */
symbol_dlsym *symbol_real_dlsym(void);
symbol_dlopen *symbol_real_dlopen(void);

/* libc's dlerror text is cleared: what our own lookups left there is not the program's. */
void symbol_clear_error(void);

/* Compares two strings; libc's strcmp may be an interposer's. */
bool symbol_equal(const char *a, const char *b);

/* Lowest and one past the highest address that the object with this dlopen handle is mapped at. */
void symbol_range(void *handle, uintptr_t *out_low, uintptr_t *out_high);
