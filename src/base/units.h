/*
 * Sizes as people write them, and as the schedulers write them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* What the units_* parsers find wrong; units_strerror() says it in words. */
enum units_error {
	UNITS_OK = 0,
	UNITS_EMPTY,
	UNITS_NEGATIVE,
	UNITS_NOT_A_NUMBER,
	UNITS_BAD_SUFFIX,
	UNITS_TOO_BIG,
	UNITS_ZERO,
	UNITS_NOT_WHOLE, /* the fraction does not come to whole bytes and has no unit */
	UNITS_FRACTION,  /* a fraction where only whole numbers stand */
};

/*
 * Parses `text` of `len` bytes: digits, optionally a decimal fraction, optionally a unit of
 * k, m, g, t, p or e in either case, optionally followed by "i", "b" or "ib". All units are powers
 * of 1024. "1.5g", "4Gi" and "512 MiB" are sizes; "4x", "-1", "" and "1.5.2g" are not. Zero is
 * returned as 0; the caller decides what it means. Writes *out_bytes only on UNITS_OK.
 */
enum units_error units_parse_size(const char *text, size_t len, uint64_t *out_bytes);

/*
 * Parses whole percents: digits, optionally "%" with a space before it if you like. "30", "30%" and
 * "250" are percents; "30x", "2.5" and "" are not. What is above 100 is the caller's to judge; it
 * saturates at UINT32_MAX. Writes *out_pct only on UNITS_OK.
 */
enum units_error units_parse_percent(const char *text, size_t len, uint64_t *out_pct);

/*
 * Reads decimal digits, saturating at UINT64_MAX; *out_end (may be NULL) is the first character
 * that is none. In the place of strtoul and sscanf: compiled against a new glibc those are symbols
 * that an old one lacks, and a preload with such a reference stops every program.
 */
uint64_t units_parse_digits(const char *text, const char **out_end);

/* What is wrong, and what would be right. A constant string. */
const char *units_strerror(enum units_error err);

/*
 * Writes `bytes` for people, in the largest unit that fits, with one decimal where it is not whole,
 * or in the next one where only that is exact: "1 GiB", "1.5 GiB", "3000 MiB", "0 B". `buf` should
 * have 16 bytes. Returns buf.
 */
char *units_format_size(uint64_t bytes, char *buf, size_t buf_bytes);
