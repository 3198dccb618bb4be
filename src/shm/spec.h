/*
 * The limits as configured, the text in a region: changed while the tenant lives, and read meanwhile.
 */
#pragma once

#include <ration/region.h>
#include <stdint.h>

/*
 * Begins a change; the caller has the creation lock. What goes with the text, limits of devices or
 * flags, is changed now; then spec_end(). A process that is killed between the two leaves a text that
 * nobody takes for a limit, and the next change puts it right.
 */
void spec_begin(struct ration_region *own);

/* Ends a change: the new text, and where it came from (NULL is ""). */
void spec_end(struct ration_region *own, const char *spec, const char *source);

/*
 * The number of the change that made the text what it is: odd while one is under way. A load, for
 * who keeps what they read.
 */
uint32_t spec_change(const struct ration_region *own);

/*
 * Copies the text, which "" is too, and its change: 0, -EAGAIN while it is being changed, -EBADMSG
 * when it is none that can be understood.
 */
int spec_read(const struct ration_region *own, char out_spec[RATION_SPEC_BYTES],
	      uint32_t *out_change);
