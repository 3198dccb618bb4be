/*
 * A limit specification: which device may use how much.
 *
 *   spec   = item { "," item }
 *   item   = AMOUNT              all devices without an item of their own
 *          | INDEX ":" AMOUNT    the device with that index, as nvidia-smi counts
 *          | UUID ":" AMOUNT     "GPU-..." or "MIG-...", whole or a prefix of at least 8 characters
 *   AMOUNT = of memory: see units_parse_size(); of GPU time: units_parse_percent(), 1 to 100
 *
 * The text itself is what the region keeps: it is read again whenever a device turns up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is limited, and the unit of its amounts. */
enum limits_kind {
	LIMITS_MEM, /* device memory, in bytes; 0 = none */
	LIMITS_SM,  /* GPU time, in percent: 1..99; 100 = none, said openly; 0 = none */
	LIMITS_KINDS,
};

/* 100 percent limit nothing: somebody says so openly. */
enum { LIMITS_SM_NONE_PCT = 100 };

/* Says of `spec` what is wrong and what would be right. */
struct limits_error {
	char text[256];
};

/* How strictly amounts are taken. */
enum limits_zero {
	LIMITS_ZERO_IS_ERROR, /* our own command line and variables; so are more than 100 percent */
	LIMITS_ZERO_IS_NONE,  /* the schedulers' variables: no limit; so are 100 percent and more */
};

/*
 * Checks all of `spec`, and that no two items have the same name. 0, or -EINVAL with *out_error
 * filled.
 */
int limits_check(enum limits_kind kind, const char *spec, enum limits_zero zero,
		 struct limits_error *out_error);

/*
 * The limit that `spec` gives to the device with this index and UUID, as its kind counts; 0 for
 * none. An item that names the device goes before the general one; of several (one by index, one by
 * UUID) the least limit holds. Items that are wrong are passed over: check first.
 */
uint64_t limits_for_device(enum limits_kind kind, const char *spec, int index, const char *uuid);

/* True when some item of `spec` names this device by index or UUID or is general. */
bool limits_mentions(enum limits_kind kind, const char *spec, int index, const char *uuid);

/* True when `who` of an item names the device; "" names none. */
bool limits_names(const char *who, int index, const char *uuid);

/* One item of a spec. `who` is empty for a general one. */
struct limits_item {
	char who[64];
	uint64_t amount; /* in the unit of its kind; percents are never above LIMITS_SM_NONE_PCT */
};

/*
 * Takes the next item off *at. 1 with *out_item filled, 0 at the end, -EINVAL with *out_error
 * filled (may be NULL) for one that is wrong; *at then stands behind it.
 */
int limits_next(enum limits_kind kind, const char **at, enum limits_zero zero,
		struct limits_item *out_item, struct limits_error *out_error);

/* What an amount limits to, as its kind counts: 0 for one that limits nothing. */
static inline uint64_t limits_effective(enum limits_kind kind, uint64_t amount)
{
	return kind == LIMITS_SM && amount >= LIMITS_SM_NONE_PCT ? 0 : amount;
}

/* Writes an amount for people: "1.5 GiB", "30 %". `buf` should have 16 bytes. Returns buf. */
char *limits_format(enum limits_kind kind, uint64_t amount, char *buf, size_t buf_bytes);
