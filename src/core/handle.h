/*
 * What this process holds by handle: physical memory from cuMemCreate and its mappings.
 *
 * The driver keeps the memory while a handle reference or a mapping is left; so does the charge.
 * Thread safe; nothing here calls the driver. As in core/track.h, a thing is taken out before the
 * driver call that ends it and put back if that call fails: another thread may get the same handle
 * or address as soon as the driver has let it go.
 */
#pragma once

#include "core/lent.h"

#include <stdbool.h>
#include <stdint.h>

/* What ended with an operation: the bytes to take off, 0 when the memory is still held. */
struct handle_freed {
	struct dev dev;
	uint64_t bytes;
};

/* A mapping or handle that was taken out. */
struct handle_node;

/* Starts: fork children begin with nothing. */
void handle_init(void);

/* Memory for one handle or one mapping; NULL when there is none. handle_discard() frees it. */
struct handle_node *handle_prepare(void);
void handle_discard(struct handle_node *node);

/*
 * Enters a created handle of `bytes` on `dev` and takes the node over. A handle of that value that
 * stood there was released unseen: *out_stale says what that freed.
 */
void handle_enter(struct handle_node *node, uint64_t handle, struct dev dev, uint64_t bytes,
		  struct handle_freed *out_stale);

/*
 * Enters a handle on `dev` that the driver gave for memory from elsewhere. It has no bytes of its
 * own: what is held with it, and by whom it is charged, only the driver's figure tells. Where its
 * value is that of a handle we know, it is one reference more.
 */
void handle_import(struct handle_node *node, uint64_t handle, struct dev dev);

/* True while memory of the device that was entered so is held. */
bool handle_has_imports(struct dev dev);

/* True while memory that came from elsewhere is held by that alone which no figure shows. */
bool handle_has_unseen_imports(struct dev dev);

/* True once after memory that was entered so has ended. */
bool handle_take_ended_import(struct dev dev);

/*
 * Memory of the host by handle is not charged; that there is some matters to who wants a
 * checkpoint. It counts from expect, before the driver is asked, until it is no longer held: enter
 * (import for what the driver gave for memory from elsewhere) or, where it gave none, unexpect must
 * follow.
 */
void handle_expect_host(void);
void handle_unexpect_host(void);
void handle_enter_host(struct handle_node *node, uint64_t handle, struct handle_freed *out_stale);
void handle_import_host(struct handle_node *node, uint64_t handle);

/* True while there may be some. */
bool handle_has_host(void);

/*
 * Before the driver maps or retains: the node becomes a use of the memory of `handle`, or of what
 * is mapped at `addr`, so that it stays charged whatever other threads release and unmap meanwhile.
 * A value that is not entered may be before the call is over. handle_map(), handle_retain() or
 * handle_unuse() must follow.
 */
void handle_use(struct handle_node *node, uint64_t handle);
void handle_use_mapped(struct handle_node *node, uint64_t addr);

/*
 * Likewise, of the first mapping that has a byte in [addr, addr + bytes). Returns where that ends,
 * 0 where there is none.
 */
uint64_t handle_use_next(struct handle_node *node, uint64_t addr, uint64_t bytes);

/*
 * A descriptor was made of the memory that is used (core/lent.h): takes the loan over. `number` as
 * lent_enter(). What was made elsewhere is lent as what handle_use_next() found of it. False, and
 * the loan stays the caller's, of memory without bytes.
 */
bool handle_lend(struct handle_node *node, struct loan *loan, uint64_t number, struct lent *out);

/* Others can open the memory that is used by something else than a descriptor. */
void handle_note_export(struct handle_node *node);

/*
 * The driver mapped it at [addr, addr + bytes). Adds what is no longer held to freed_bytes[dev]: a
 * mapping that stood at that address was unmapped unseen.
 */
void handle_map(struct handle_node *node, uint64_t addr, uint64_t bytes,
		uint64_t freed_bytes[RATION_DEVICES]);

/* cuMemRetainAllocationHandle gave what is used as `handle`: one reference more. */
struct handle_freed handle_retain(struct handle_node *node, uint64_t handle);

/* The driver refused: the use ends. */
struct handle_freed handle_unuse(struct handle_node *node);

/*
 * As handle_use(), of a use that goes on until handle_unuse() and that the driver's figure for the
 * process does not show; the bytes of which there is no other.
 */
void handle_use_unseen(struct handle_node *node, uint64_t handle);
uint64_t handle_unseen(struct dev dev);

/*
 * Takes one reference off `handle` before the driver's release; with the last one nobody finds the
 * handle any more. NULL when it is unknown; else handle_released() or handle_release_failed() must
 * follow.
 */
struct handle_node *handle_release(uint64_t handle);
struct handle_freed handle_released(struct handle_node *node);
struct handle_freed handle_release_failed(struct handle_node *node);

/*
 * Takes the mappings that lie whole in [addr, addr + bytes) out, as a list (NULL: none), before the
 * driver unmaps; then handle_unmapped() or handle_unmap_failed() must follow.
 */
struct handle_node *handle_unmap(uint64_t addr, uint64_t bytes);

/* Ends the list. Adds what is no longer held to freed_bytes[dev]. */
void handle_unmapped(struct handle_node *list, uint64_t freed_bytes[RATION_DEVICES]);
void handle_unmap_failed(struct handle_node *list, uint64_t freed_bytes[RATION_DEVICES]);
