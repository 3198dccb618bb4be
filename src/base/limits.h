/*
 * A limit specification: which device may use how much.
 *
 *   spec  = item { "," item }
 *   item  = SIZE                all devices without an item of their own
 *         | INDEX ":" SIZE      the device with that index, as nvidia-smi counts
 *         | UUID ":" SIZE       "GPU-..." or "MIG-...", whole or a prefix of at least 8 characters
 *   SIZE  = see units_parse_size()
 *
 * The text itself is what the region keeps: it is read again whenever a device turns up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Says of `spec` what is wrong and what would be right. */
struct limits_error {
	char text[256];
};

enum limits_zero {
	LIMITS_ZERO_IS_ERROR, /* our own command line and variables */
	LIMITS_ZERO_IS_NONE,  /* the schedulers' variables: no limit */
};

/*
 * Checks all of `spec`, and that no two items have the same name. 0, or -EINVAL with *out_error
 * filled.
 */
int limits_check(const char *spec, enum limits_zero zero, struct limits_error *out_error);

/*
 * The limit that `spec` gives to the device with this index and UUID: bytes, 0 for none. An item
 * that names the device goes before the general one; of several (one by index, one by UUID) the
 * least limit holds. Items that are wrong are passed over: check first.
 */
uint64_t limits_for_device(const char *spec, int index, const char *uuid);

/* True when some item of `spec` names this device by index or UUID or is general. */
bool limits_mentions(const char *spec, int index, const char *uuid);

/* One item of a spec. `who` is empty for a general one. */
struct limits_item {
	char who[64];
	uint64_t bytes;
};

/*
 * Takes the next item off *at. 1 with *out_item filled, 0 at the end, -EINVAL with *out_error
 * filled (may be NULL) for one that is wrong; *at then stands behind it.
 */
int limits_next(const char **at, enum limits_zero zero, struct limits_item *out_item,
		struct limits_error *out_error);
