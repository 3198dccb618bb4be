/*
 * One line to standard error, formatted on the stack and written by one write(2): no allocation,
 * no stdio stream, no lock, errno kept. Per call of the program nothing below LOG_WARN is logged.
 */
#pragma once

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Sets what is written: this level and the ones before it. Before the first call: errors only. */
void log_set_level(enum log_level level);

/* True when `level` is written now. */
bool log_enabled(enum log_level level);

/* Writes "ration: " + the message + newline. errno on entry is what %m means. */
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_at(level, ...)                             \
	do {                                           \
		if (log_enabled(level))                \
			log_write(level, __VA_ARGS__); \
	} while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
