/*
 * Who has imported memory that descriptors may keep (machine_export.h), and who did it last.
 *
 * Each import is an entry of a table in the machine's file. It ends when it is given up, or with
 * its process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* This process imports `export`, which something keeps meanwhile; *out_import names it, never 0.
 * 0; -ESTALE when there is no such memory; -ENOSPC when the table is full. */
int machine_import_new(uint64_t export, uint32_t *out_import);

/* The same of memory that nothing else keeps; -ESTALE also when its process has let go of it and
 * nobody has imported it. */
int machine_import_open(uint64_t export, uint32_t *out_import);

/* Whether a living process has imported it. */
bool machine_import_is_any(uint64_t export);

/* Gives it up; 0: there is none. */
void machine_import_end(uint32_t import);

/* All that dead slot `slot` has of device i's. Device i's lock is held. */
void machine_import_end_all(int slot, int i);

/* The slot + 1 of who imported it last, of those that still have it; 0: nobody. The lock of its
 * device is held. */
uint32_t machine_import_last(uint64_t export);
