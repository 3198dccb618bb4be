/*
 * Memory of this process of which it has given out descriptors (shm/exported.h). When it ends here
 * while one of them is open somewhere the card holds it on, and nobody's figure shows it: it stays
 * charged until the last of them is closed.
 *
 * Memory has a key while its own life goes on: its address, or what core/handle.h knows it by.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

struct region;
struct loan;

/* Starts, after quota_init(): fork children begin with nothing. */
void lent_init(const struct region *region, unsigned slot);

/* Memory for one entry; NULL when there is none. */
struct loan *lent_prepare(void);
void lent_discard(struct loan *loan);

/* What a descriptor was made of: by a number of this process's own for the memory. */
struct lent {
	struct dev dev;
	uint64_t bytes, number;
};

/* A number for a descriptor of several memories at once. */
uint64_t lent_number(void);

/*
 * A descriptor was made of the memory of `bytes` on `dev` that has this key, and is about to be
 * marked. Takes the loan over. *out has `number`, or with 0 the memory's own, always the same.
 */
void lent_enter(struct loan *loan, uint64_t key, struct dev dev, uint64_t bytes, uint64_t number,
		struct lent *out);

/*
 * Marks the descriptor of what was entered. Where that cannot be done, all that was entered stays
 * charged until the process ends, of which a line is logged once.
 */
void lent_mark(int fd, const struct lent *what);

/*
 * The life of the key's memory ends; nothing where none was entered. Takes no lock of others and
 * looks at nothing: lent_claim() must follow soon.
 */
void lent_end(uint64_t key);

/* As that, of all whose key `is_over` says so of; it may take locks of objects. */
void lent_end_those(bool (*is_over)(uint64_t key));

/*
 * The key of memory at an address that a graph has from its store. Nobody tells when it goes back
 * there; when the store gives some to the card it may be that.
 */
uint64_t lent_stored(uint64_t addr);
void lent_end_stored(void);

/* True while that is to follow. */
bool lent_is_fresh(void);

/*
 * What has ended of the device and has a descriptor is charged: of `bytes`, which the caller was
 * about to take off, and whatever the limit where that is more. Returns what of `bytes` stays.
 */
uint64_t lent_claim(struct dev dev, uint64_t bytes);

/* As that of all devices, where the caller takes nothing off. One load where nothing has ended. */
void lent_claim_all(void);

/* True while something is charged so. */
bool lent_any(struct dev dev);

/*
 * What of it has no descriptor any more: for the caller to take off. What another thread looks for
 * just now is not found.
 */
uint64_t lent_settle(struct dev dev);
