/*
 * Memory that descriptors keep on a device, as a card keeps what was exported or is a DMA buffer
 * until the last copy of its descriptor is closed.
 *
 * Each piece of it has a place in the machine's file, which says whose it is. A descriptor's open
 * file description is marked with that place by a lock, which the kernel drops with the last copy,
 * wherever that is. When the memory's process has ended or gave it back, the place is an orphan:
 * its bytes are in use as long as a lock of it can be found, or a process has imported it
 * (machine_import.h). They are in no process's figure while there is a lock, then in that of the
 * process whose import is the last. Descriptors end without a word, so this is told at each look.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A place for `bytes` of device i that this process holds. 0 when all places are taken; otherwise
 * what the calls below name it by. */
uint64_t machine_export_new(int i, uint64_t bytes);

/* The open file description of `fd` keeps it from now on. 0 or -errno. */
int machine_export_mark(int fd, uint64_t export);

/* As that, of a DMA buffer of what this process has imported: it does not take it from a figure. */
int machine_export_keep(int fd, uint64_t export);

/* Who has imported it has it in no figure. */
void machine_export_hide(uint64_t export);

/* It keeps it no longer, whoever has a copy of it. */
void machine_export_unmark(int fd, uint64_t export);

/* What another description of the same file keeps; 0: nothing. */
uint64_t machine_export_find(int fd);

/* The device that it is memory of; -1 when there is no such memory. */
int machine_export_device(uint64_t export);

/* True when its process has it no longer. The lock of its device is held. */
bool machine_export_is_orphan(uint64_t export);

/* Device i's lock is held: it is an orphan from now on; the same for all of a slot. */
void machine_export_end(uint64_t export);
void machine_export_end_all(int slot, int i);

/* True when there may be orphans. */
bool machine_export_is_any(void);

/* Bytes of device i's orphans that a description or an import keeps. Device i's lock is held. */
uint64_t machine_export_kept(int i);

/* Those of them that are in the figure of `slot`, since the lock is held and they were looked at. */
uint64_t machine_export_inherited(int slot, int i);
