/*
 * Memory by handle that is mapped in sparse arrays and mipmaps, by array and region. The card holds
 * it for that whatever is released meanwhile, and no figure for the process shows it
 * (docs/real-gpu.md). So each mapping is a use of the memory (core/handle.h).
 *
 * A region is unmapped when the stream has come to that, which a stage tells (core/stage.h). What
 * is unsure stays charged until it is unmapped again or its array ends: what is unmapped by
 * another stream than the one that maps it, which has not come to that yet; by a call that another
 * thread makes at the same time, or that maps it too; what there was no mark for; and what of a
 * larger mapping is left when part of it goes.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include "core/handle.h"
#include "core/stage.h"

#include <stdbool.h>
#include <stdint.h>

/* Levels by texels; the tail of small levels, or of each layer, by bytes, as one row. */
enum tiles_kind { TILES_LEVEL, TILES_TAIL, TILES_WHOLE };

enum { TILES_SIDES = 3 };

struct tiles_region {
	enum tiles_kind kind; /* TILES_WHOLE: the rest is 0 */
	uint32_t level, layer;
	uint64_t from[TILES_SIDES], extent[TILES_SIDES]; /* slices, rows, columns */
};

/* One mapping, or all that one is to be. */
struct tiles;

/* One of the steps of a call: to map, or without a mapping to unmap, a region. */
struct tiles_step {
	const void *array; /* or mipmap */
	struct tiles_region region;
	struct tiles *mapping;
};

/* Starts: fork children begin with nothing. */
void tiles_init(void);

/*
 * The array was made in that context, and ends with it (core/context.h). What stood under its
 * handle ended unseen: adds what that frees to freed_bytes[dev]. `is_whole`: it is mapped as one,
 * whatever region a step names. Without memory for that it is as any that was not seen being made.
 */
void tiles_made(const void *array, const void *ctx, bool is_whole,
		uint64_t freed_bytes[RATION_DEVICES]);

/* Memory for one mapping; NULL when there is none. tiles_discard() frees it unused. */
struct tiles *tiles_prepare(void);
void tiles_discard(struct tiles *mapping);

/*
 * Before the call: the mapping is a use of the handle's memory from now on. tiles_map(), or where
 * the driver refused tiles_refused(), must follow.
 */
void tiles_use(struct tiles *mapping, uint64_t handle);
struct handle_freed tiles_refused(struct tiles *mapping);

/* Now, in mappings: before a call, for tiles_call(). */
uint64_t tiles_mark(void);

/*
 * The driver took a call of these steps, of which none or all are made; it began at `mark`. Takes
 * the mappings over. `stage` is behind it in its stream, NULL when that could not be had.
 */
void tiles_call(const struct tiles_step *steps, unsigned count, uint64_t mark, struct stage *stage);

/* A stage has come to its end; and whether something is unmapped with that, perhaps. One load. */
void tiles_note_end(void);
bool tiles_is_due(void);

/* Ends what has been unmapped by now. Adds what is no longer held to freed_bytes[dev]. */
void tiles_settle(uint64_t freed_bytes[RATION_DEVICES]);

/* An array with all that is mapped in it, taken out. Zeros: there is nothing of it. */
struct tiles_array {
	struct tiles *list;
	struct tiles_made *made;
};

/* Before the driver destroys it; then tiles_ended() or tiles_put_back() must follow. */
struct tiles_array tiles_take(const void *array);
void tiles_ended(struct tiles_array array, uint64_t freed_bytes[RATION_DEVICES]);
void tiles_put_back(struct tiles_array array);

/* The context ended, with its arrays; `mark` is context_mark() before that. */
void tiles_end_context(const void *ctx, uint64_t mark, uint64_t freed_bytes[RATION_DEVICES]);
