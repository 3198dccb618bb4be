#include "base/limits.h"

#include "base/units.h"

#include <errno.h>
#include <ration/region.h>
#include <stdio.h>
#include <string.h>

enum { UUID_PREFIX_MIN = 8 };

static int wrong(struct limits_error *err, const char *item, size_t len, const char *what,
		 const char *want)
{
	if (err)
		snprintf(err->text, sizeof(err->text), "'%.*s' %s; %s", (int)(len < 80 ? len : 80),
			 item, what, want);
	return -EINVAL;
}

static bool is_uuid(const char *who)
{
	return !strncmp(who, "GPU-", 4) || !strncmp(who, "MIG-", 4);
}

static bool is_index(const char *who)
{
	return *who && strspn(who, "0123456789") == strlen(who) && strlen(who) <= 3;
}

/* What would be right. */
static const char *want_amount(enum limits_kind kind)
{
	return kind == LIMITS_MEM ? "a size is a number with k, m, g or t, such as 512m or 1.5g" :
				    "GPU time is in whole percents from 1 to 100, such as 30";
}

/* Likewise, where the mistake is known. The largest size is units_parse_size()'s. */
static const char *want_instead(enum limits_kind kind, enum units_error err)
{
	if (kind == LIMITS_MEM && err == UNITS_TOO_BIG)
		return "the largest size is 4e; a size is a number with k, m, g or t, such as "
		       "512m or 1.5g";
	return want_amount(kind);
}

/* Parses the amount of an item; what both kinds refuse alike, zero, is the caller's. */
static enum units_error parse_amount(enum limits_kind kind, const char *text, size_t len,
				     enum limits_zero zero, uint64_t *out_amount)
{
	enum units_error err;

	if (kind == LIMITS_MEM)
		return units_parse_size(text, len, out_amount);
	err = units_parse_percent(text, len, out_amount);
	if (err != UNITS_OK || *out_amount <= LIMITS_SM_NONE_PCT)
		return err;
	if (zero == LIMITS_ZERO_IS_ERROR)
		return UNITS_TOO_BIG;
	*out_amount = LIMITS_SM_NONE_PCT;
	return UNITS_OK;
}

int limits_next(enum limits_kind kind, const char **at, enum limits_zero zero,
		struct limits_item *out_item, struct limits_error *out_error)
{
	static const char want_device[] =
		"a device is an index such as 0, or a UUID or at least 8 characters of it such as "
		"GPU-8f6d3c2a";
	const char *item = *at, *end, *colon, *amount;
	enum units_error units;
	size_t len;

	if (!item || !*item)
		return 0;
	end = item + strcspn(item, ",");
	/* A comma promises another item, so "1g," ends in an empty one that must be seen. */
	*at = *end ? end + 1 : end;
	if (*end && !end[1])
		return wrong(out_error, item, (size_t)(end + 1 - item), "ends in a comma",
			     want_amount(kind));
	len = (size_t)(end - item);
	colon = memchr(item, ':', len);
	amount = colon ? colon + 1 : item;
	memset(out_item->who, 0, sizeof(out_item->who));
	if (colon) {
		size_t who_len = (size_t)(colon - item);

		if (who_len >= sizeof(out_item->who))
			return wrong(out_error, item, len, "names no device", want_device);
		memcpy(out_item->who, item, who_len);
		if (!is_index(out_item->who) &&
		    !(is_uuid(out_item->who) && who_len >= UUID_PREFIX_MIN))
			return wrong(out_error, item, len, "names no device", want_device);
	}
	if (colon && amount == end)
		return wrong(out_error, item, len, "has nothing behind the colon",
			     want_amount(kind));
	units = parse_amount(kind, amount, (size_t)(end - amount), zero, &out_item->amount);
	if (units == UNITS_OK && out_item->amount == 0 && zero == LIMITS_ZERO_IS_ERROR)
		units = UNITS_ZERO;
	if (units != UNITS_OK)
		return wrong(out_error, amount, (size_t)(end - amount), units_strerror(units),
			     want_instead(kind, units));
	return 1;
}

/* True when both texts name the same device, or both name all of them. */
static bool same_device(const char *a, const char *b)
{
	if (is_index(a) && is_index(b))
		return units_parse_digits(a, NULL) == units_parse_digits(b, NULL);
	return !strcmp(a, b);
}

/* True when an item of `spec` before `end` is for the same device as `who`. */
static bool named_before(enum limits_kind kind, const char *spec, const char *end, const char *who)
{
	struct limits_item item;

	while (spec < end && limits_next(kind, &spec, LIMITS_ZERO_IS_NONE, &item, NULL) != 0)
		if (same_device(item.who, who))
			return true;
	return false;
}

int limits_check(enum limits_kind kind, const char *spec, enum limits_zero zero,
		 struct limits_error *out_error)
{
	struct limits_item item;
	const char *at = spec, *start = spec;
	char most[32];
	int rc;

	if (!*spec)
		return wrong(out_error, spec, 0, units_strerror(UNITS_EMPTY), want_amount(kind));
	if (strlen(spec) >= RATION_SPEC_BYTES) {
		snprintf(most, sizeof(most), "at most %d characters", RATION_SPEC_BYTES - 1);
		return wrong(out_error, spec, 40, "is too long", most);
	}
	while ((rc = limits_next(kind, &at, zero, &item, out_error)) > 0) {
		if (named_before(kind, spec, start, item.who))
			return wrong(out_error, start, strcspn(start, ","),
				     "is a limit given twice",
				     kind == LIMITS_MEM ?
					     "name each device once, such as 0:10g,1:4g" :
					     "name each device once, such as 0:30,1:50");
		start = at;
	}
	return rc;
}

bool limits_names(const char *who, int index, const char *uuid)
{
	if (is_index(who))
		return index >= 0 && units_parse_digits(who, NULL) == (uint64_t)index;
	return *who && uuid && !strncmp(who, uuid, strlen(who));
}

uint64_t limits_for_device(enum limits_kind kind, const char *spec, int index, const char *uuid)
{
	uint64_t general = 0, own = 0; /* 0: no limit */
	struct limits_item item;
	bool has_own = false;
	const char *at = spec;
	int rc;

	while ((rc = limits_next(kind, &at, LIMITS_ZERO_IS_NONE, &item, NULL)) != 0) {
		if (rc < 0)
			continue;
		if (!item.who[0]) {
			general = item.amount;
		} else if (limits_names(item.who, index, uuid)) {
			if (item.amount && (!own || item.amount < own))
				own = item.amount;
			has_own = true;
		}
	}
	return has_own ? own : general;
}

bool limits_mentions(enum limits_kind kind, const char *spec, int index, const char *uuid)
{
	struct limits_item item;
	const char *at = spec;
	int rc;

	while ((rc = limits_next(kind, &at, LIMITS_ZERO_IS_NONE, &item, NULL)) != 0)
		if (rc > 0 && (!item.who[0] || limits_names(item.who, index, uuid)))
			return true;
	return false;
}

char *limits_format(enum limits_kind kind, uint64_t amount, char *buf, size_t buf_bytes)
{
	if (kind == LIMITS_MEM)
		return units_format_size(amount, buf, buf_bytes);
	snprintf(buf, buf_bytes, "%llu %%", (unsigned long long)amount);
	return buf;
}
