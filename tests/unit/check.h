/*
 * What every unit test includes: cmocka, in the order that it wants, and what this build is.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUILD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BUILD_SANITIZED 1
#endif
#endif
#ifndef BUILD_SANITIZED
#define BUILD_SANITIZED 0
#endif

/* Ends the test as skipped, with the reason. */
#define SKIP(...)                                                 \
	do {                                                      \
		print_message("          skipped: " __VA_ARGS__); \
		print_message("\n");                              \
		skip();                                           \
	} while (0)

/* 0, or what a -errno says, as the text of a failure. */
#define assert_ok(rc)                                                     \
	do {                                                              \
		int assert_ok_rc = (int)(rc);                             \
		if (assert_ok_rc < 0)                                     \
			fail_msg("%s: %s", #rc, strerror(-assert_ok_rc)); \
	} while (0)

/* True of every text that tells the user what is wrong: it has all the parts named. */
#define assert_says(text, part)                                          \
	do {                                                             \
		if (!strstr((text), (part)))                             \
			fail_msg("'%s' is not in '%s'", (part), (text)); \
	} while (0)
