/*
 * The operator's file: lines NAME=VALUE that go before the environment. What is no such line is
 * passed over.
 */
#pragma once

#include "base/conf.h"

/*
 * Reads the file into conf->file, if it is there. What it limits nobody knows where it cannot be
 * read: that is an error.
 */
void conf_file_read(struct conf *conf, const char *path);

/* The value of a name in it, of several lines with that name the last's; NULL without one. */
const char *conf_file_value(const struct conf *conf, const char *name);
