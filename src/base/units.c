#include "base/units.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

uint64_t units_parse_digits(const char *text, const char **out_end)
{
	uint64_t value = 0;

	for (; is_digit(*text); text++) {
		uint64_t digit = (uint64_t)(*text - '0');

		value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
	}
	if (out_end)
		*out_end = text;
	return value;
}

/* The shift of a unit letter, or -1. */
static int unit_shift(char c)
{
	static const char letters[] = "kmgtpe";
	const char *at = c ? strchr(letters, lower(c)) : NULL;

	return at ? 10 * (int)(at - letters + 1) : -1;
}

/* Parses what follows the number: "", "g", "gb", "gi", "gib", with one space before it. */
static enum units_error parse_suffix(const char *s, size_t len, int *out_shift)
{
	int shift = 0;

	if (len > 0 && *s == ' ') {
		s++;
		len--;
	}
	if (len > 0 && unit_shift(*s) >= 0) {
		shift = unit_shift(*s);
		s++;
		len--;
		if (len > 0 && lower(*s) == 'i') {
			s++;
			len--;
		}
	}
	if (len > 0 && lower(*s) == 'b') {
		s++;
		len--;
	}
	if (len > 0)
		return UNITS_BAD_SUFFIX;
	*out_shift = shift;
	return UNITS_OK;
}

/*
 * The decimal fraction `digits` of one unit of 2^shift bytes, rounded down. Eighteen digits tell
 * the bytes of the largest unit but one apart; more would not fit 128 bits.
 */
static uint64_t fraction_bytes(const char *digits, size_t len, int shift)
{
	unsigned __int128 num = 0, den = 1;

	for (size_t i = 0; i < len && i < 18; i++) {
		num = num * 10 + (unsigned)(digits[i] - '0');
		den *= 10;
	}
	return (uint64_t)((num << shift) / den);
}

enum units_error units_parse_size(const char *text, size_t len, uint64_t *out_bytes)
{
	size_t i = 0, frac = 0, frac_len = 0;
	unsigned __int128 value = 0;
	enum units_error err;
	int shift;

	if (len == 0)
		return UNITS_EMPTY;
	if (text[0] == '-')
		return UNITS_NEGATIVE;
	for (; i < len && is_digit(text[i]); i++) {
		value = value * 10 + (unsigned)(text[i] - '0');
		if (value > UINT64_MAX)
			return UNITS_TOO_BIG;
	}
	if (i == 0)
		return UNITS_NOT_A_NUMBER;
	if (i < len && text[i] == '.') {
		frac = ++i;
		while (i < len && is_digit(text[i]))
			i++;
		frac_len = i - frac;
		if (frac_len == 0)
			return UNITS_NOT_A_NUMBER;
	}
	err = parse_suffix(text + i, len - i, &shift);
	if (err != UNITS_OK)
		return err;
	if (frac_len > 0 && shift == 0)
		return UNITS_NOT_WHOLE;
	value <<= shift;
	value += fraction_bytes(text + frac, frac_len, shift);
	/* Above 2^62 no device is; sums of a few such limits still fit 64 bits. */
	if (value > (UINT64_C(1) << 62))
		return UNITS_TOO_BIG;
	*out_bytes = (uint64_t)value;
	return UNITS_OK;
}

enum units_error units_parse_percent(const char *text, size_t len, uint64_t *out_pct)
{
	uint64_t value = 0;
	size_t i = 0;

	if (len == 0)
		return UNITS_EMPTY;
	if (text[0] == '-')
		return UNITS_NEGATIVE;
	for (; i < len && is_digit(text[i]); i++) {
		value = value * 10 + (uint64_t)(text[i] - '0');
		value = value < UINT32_MAX ? value : UINT32_MAX;
	}
	if (i == 0)
		return UNITS_NOT_A_NUMBER;
	if (i < len && text[i] == '.')
		return UNITS_FRACTION;
	if (i + 1 < len && text[i] == ' ')
		i++;
	if (i < len && text[i] == '%')
		i++;
	if (i < len)
		return UNITS_BAD_SUFFIX;
	*out_pct = value;
	return UNITS_OK;
}

const char *units_strerror(enum units_error err)
{
	switch (err) {
	case UNITS_OK:
		return "no error";
	case UNITS_EMPTY:
		return "is empty";
	case UNITS_NEGATIVE:
		return "is negative";
	case UNITS_NOT_A_NUMBER:
		return "is not a number";
	case UNITS_BAD_SUFFIX:
		return "has an unknown unit";
	case UNITS_TOO_BIG:
		return "is too big";
	case UNITS_ZERO:
		return "is zero";
	case UNITS_NOT_WHOLE:
		return "has a fraction but no unit";
	case UNITS_FRACTION:
		return "has a fraction";
	}
	return "is wrong";
}

char *units_format_size(uint64_t bytes, char *buf, size_t buf_bytes)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned unit = 0;
	uint64_t size;

	while (unit < 6 && bytes >> (10 * (unit + 1)) != 0)
		unit++;
	size = UINT64_C(1) << (10 * unit);
	/* 3000 MiB says more than 2.9 GiB; 1.5 GiB as much as 1536 MiB. */
	if (unit > 0 && bytes % size * 10 % size != 0 && bytes % (size >> 10) == 0) {
		unit--;
		size >>= 10;
	}
	if (unit > 0 && bytes % size == 0)
		snprintf(buf, buf_bytes, "%llu %s", (unsigned long long)(bytes / size),
			 names[unit]);
	else if (unit > 0)
		snprintf(buf, buf_bytes, "%.1f %s", (double)bytes / (double)size, names[unit]);
	else
		snprintf(buf, buf_bytes, "%llu B", (unsigned long long)bytes);
	return buf;
}
