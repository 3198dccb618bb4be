/*
 * The real driver's functions, typed as the driver declares them.
 *
 * A pointer is NULL until its library was found loaded, and for ever where the driver has no such
 * symbol. They come from the library's own handle, never from RTLD_NEXT: that is redirected, and a
 * chain of interposers would call itself. Kept over fork.
 */
#pragma once

#include "abi/cuda.h"
#include "abi/nvml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct real {
#define HOOK(sym) __typeof__(&sym) sym;
#define USE(sym) __typeof__(&sym) sym;
#include "abi/cuda.def"
#include "abi/nvml.def"
#undef HOOK
#undef USE
};

extern struct real real __attribute__((visibility("hidden")));

enum real_lib { REAL_CUDA, REAL_NVML, REAL_LIBS };

/* One symbol of the tables. */
struct real_row {
	const char *name;
	size_t offset; /* in struct real */
	enum real_lib lib;
};

/* All rows, and how many. */
extern const struct real_row real_rows[] __attribute__((visibility("hidden")));
extern const size_t real_row_count __attribute__((visibility("hidden")));

/* The driver's pointer of a row; NULL when it is not loaded or lacks the symbol. */
void *real_pointer(const struct real_row *row);

/* True when the library is in the process; then its pointers are there. Loads nothing. */
bool real_find(enum real_lib lib);

/* As real_find(), and loads NVML if it must. 0 or -ENOENT. Never loads the driver. */
int real_load_nvml(void);

/*
 * A symbol of libc's that the process has: as the program itself finds it (a sanitizer must see the
 * threads that are made), else by way of the loaded library and what it depends on. NULL when there
 * is none.
 */
void *real_symbol(enum real_lib lib, const char *name);

/* True when `address` lies in one of the driver's libraries. */
bool real_owns(const void *address);
