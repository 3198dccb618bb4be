/*
 * What this process holds by address: allocations, and the driver's blocks under them.
 *
 * The card gives linear memory in blocks of TRACK_BLOCK_BYTES. The driver puts small requests side
 * by side into one block, also behind the end of a large one, and gives a block back with the last
 * allocation in it (docs/real-gpu.md). So what is held is the number of distinct blocks that
 * allocations touch: the blocks inside a large one are its own, its first and last may be shared.
 *
 * Thread safe; nothing here calls the driver. Nodes are allocated before the driver call, so that
 * what the driver gave can always be entered.
 */
#pragma once

#include "core/lent.h"

#include <stdbool.h>
#include <stdint.h>

#define TRACK_BLOCK_BYTES (UINT64_C(2) << 20)
/* Requests up to this fit into a block with others. */
#define TRACK_SMALL_BYTES (UINT64_C(1) << 20)

struct track_node;

/* One allocation, as its owner sees it. */
struct track {
	uint64_t addr;
	uint64_t bytes;  /* as asked for; of managed memory: as charged */
	const void *ctx; /* the context that frees it with itself; NULL = none */
	struct dev dev;
	bool is_managed; /* no blocks, and not in the driver's figure for the process */
	bool is_object;  /* no blocks: an array or the like, by its handle; `bytes` are charged */
	bool is_small;   /* shares a block with others */
	bool is_exported;
};

/* Starts: fork children begin with nothing. */
void track_init(void);

/* Memory for one allocation's node and its blocks'. NULL when there is none. */
struct track_node *track_prepare(void);

/* Gives a prepared node back unused. NULL is fine. */
void track_discard(struct track_node *node);

/* What is no longer held. */
struct track_gone {
	uint64_t bytes;
	uint64_t shared_bytes; /* of them, in blocks in which something else may be */
};

/* What entering an allocation found. */
struct track_entered {
	uint64_t new_bytes;      /* newly held with it: its blocks that were not there yet */
	struct track_gone stale; /* an allocation that stood at this address, freed unseen */
};

/*
 * Enters an allocation and takes the node over, if what is newly held with it is at most
 * `allowed_bytes`. If it is more, nothing is entered, false comes back with new_bytes, and the node
 * stays the caller's.
 */
bool track_enter(struct track_node *node, const struct track *what, uint64_t allowed_bytes,
		 struct track_entered *out_entered);

/* Takes the allocation at exactly `addr` out: its node, with *out filled; NULL when unknown. */
struct track_node *track_take(uint64_t addr, struct track *out);

/*
 * Puts a node that track_take() gave back in: the driver did not free it. Returns what of it is no
 * longer held, nothing but where another allocation got its address or its context ended.
 */
struct track_gone track_put_back(struct track_node *node);

/*
 * Ends a node that track_take() gave: the driver freed it. Returns what is no longer held: its own,
 * or its block's if it was the last in it.
 */
struct track_gone track_end(struct track_node *node);

/* The allocation at exactly `addr` is about to be exported (core/handed.h). */
void track_note_export(uint64_t addr);

/*
 * A descriptor was made of the allocation at exactly `addr` (core/lent.h): takes the loan over.
 * False, and it stays the caller's, where there is none.
 */
bool track_lend(uint64_t addr, struct loan *loan, struct lent *out);

/* Now, in entered allocations: those entered later are not dropped by track_drop_context(). */
uint64_t track_mark(void);

/*
 * Ends every allocation of the context that was entered before `mark`: the driver freed them with
 * it. Adds the bytes no longer held to freed_bytes[dev].
 */
void track_drop_context(const void *ctx, uint64_t mark, uint64_t freed_bytes[RATION_DEVICES]);

/*
 * True while the device has objects without bytes of their own: imports of memory that is charged
 * elsewhere in this process, or in another.
 */
bool track_has_weightless(struct dev dev);

/* True for a node of such an object. */
bool track_is_weightless(const struct track_node *node);

/* The address of a taken node. */
uint64_t track_address(const struct track_node *node);

/* Which allocation stands at exactly `addr`: its number, 0 for none and for objects. */
uint64_t track_number(uint64_t addr);

/*
 * Ends the allocation at `addr` if it is still the one with that number: it was freed unseen.
 * Returns what is no longer held of *out_dev.
 */
struct track_gone track_end_unseen(uint64_t addr, uint64_t number, struct dev *out_dev);

/* True when the device has a block that may have room for a small allocation. */
bool track_has_block(struct dev dev);

/* True while the device has small allocations, objects too. */
bool track_has_small(struct dev dev);

/* Bytes entered on the device that the driver's figure for the process holds too: not managed. */
uint64_t track_physical(struct dev dev);

/* Adds to (or takes off) track_physical(): memory that is tracked elsewhere, VMM handles. */
void track_physical_add(struct dev dev, int64_t bytes);

/* The same of what is charged on the device and is not in that figure. */
uint64_t track_managed(struct dev dev);
void track_managed_add(struct dev dev, int64_t bytes);
