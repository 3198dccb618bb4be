/*
 * Memory that this process let go of while others may hold it, since it was exported. The card goes
 * on holding it for whoever imported it, in whose figure it is from then on (docs/real-gpu.md). No
 * call of theirs tells, so their workers find it when they look next: until all have that imported
 * anything, it stays charged here, and nobody finds room that is not there.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

struct region;

/* Starts, after quota_init(): fork children begin with nothing. */
void handed_init(struct region *region, unsigned slot);

/*
 * This process is about to import memory; whether it ever did, so that others wait for its worker's
 * looks; and that has looked what it holds of each card. Who cannot look, or does not count what
 * the card says, has not while it has any import.
 */
void handed_import(void);
bool handed_has_imported(void);
void handed_looked(void);

/* This process is about to export memory: what it has when it dies is kept so (shm/heir.h). */
void handed_export(void);

/* Says both anew where our slot was reaped in error, and is ours again. */
void handed_hold(void);

/* So much of the device, which was exported, ended: of what the caller takes off next. */
void handed_note(struct dev dev, uint64_t bytes);

/*
 * `bytes` of QUOTA_DATA ended on the device: keeps the charge of what was noted of them, and of
 * what a descriptor holds (core/lent.h). Returns what is left for the caller to take off.
 */
uint64_t handed_keep(struct dev dev, uint64_t bytes);

/* Releases what was kept, when all have looked, and what no descriptor holds any more. */
void handed_settle(struct dev dev);

/* As that, and waits for who has to look, two seconds at most. True when some was released. */
bool handed_await(struct dev dev);
