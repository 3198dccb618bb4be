/*
 * The limits as configured, the texts in a region, one a kind: each is changed while the tenant
 * lives, and read meanwhile.
 */
#pragma once

#include "base/limits.h"

#include <ration/region.h>
#include <stdint.h>

/*
 * Begins a change of one text; the caller has the creation lock. What goes with the text, limits of
 * devices, flags or policy, is changed now; then spec_end(). A process that is killed between the
 * two leaves a text that nobody takes for a limit, and the next change puts it right.
 */
void spec_begin(struct ration_region *own, enum limits_kind kind);

/* Ends a change: the new text, and where it came from (NULL is ""). */
void spec_end(struct ration_region *own, enum limits_kind kind, const char *spec,
	      const char *source);

/*
 * The number of the change that made the text what it is: odd while one is under way, 0 of a text
 * that nobody wrote. A load, for who keeps what they read.
 */
uint32_t spec_change(const struct ration_region *own, enum limits_kind kind);

/*
 * Copies the text, which "" is too, and its change: 0, -EAGAIN while it is being changed, -EBADMSG
 * when it is none that can be understood.
 */
int spec_read(const struct ration_region *own, enum limits_kind kind,
	      char out_spec[RATION_SPEC_BYTES], uint32_t *out_change);

/*
 * The text and its source where they stand, which may lack an end; for who has the creation lock.
 */
const char *spec_text(const struct ration_region *own, enum limits_kind kind);
const char *spec_source(const struct ration_region *own, enum limits_kind kind);

/* Whether the text can be understood where it stands; for who has the creation lock. */
bool spec_is_understood(const struct ration_region *own, enum limits_kind kind);
