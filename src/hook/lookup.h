/*
 * The tables of names: which symbols we replace, by name and by the driver's pointer.
 */
#pragma once

#include "drv/real.h"

/*
 * Each HOOK row declares hook_<symbol> with the driver's signature and exports it under the
 * driver's name; everything else in the library stays hidden.
 */
#define HOOK(sym) __typeof__(sym) hook_##sym __asm__(#sym) __attribute__((visibility("default")));
#define USE(sym)
#include "abi/cuda.def"
#include "abi/nvml.def"
#undef HOOK
#undef USE

/* A row of the tables, or NULL. Calls nothing outside this library. */
const struct real_row *lookup_name(const char *name);

/* The hook of a row; NULL for one that is only used. */
void *lookup_hook(const struct real_row *row);

/*
 * The hook for what the driver's cuGetProcAddress answered when it was asked for `asked`: that of
 * the very symbol `driver_pointer` is, within the family of the name (cuFoo, cuFoo_v2,
 * cuFoo_v2_ptsz). NULL when we do not replace it. Two symbols may share an address, which is why
 * the pointer alone does not name the row.
 */
void *lookup_pointer(const char *asked, const void *driver_pointer);
