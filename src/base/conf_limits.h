/* The limits of a kind: our variable's, or what the schedulers' variables make together. */
#pragma once

#include "base/conf.h"

/* Fills the specification and the source of the kind, and whether the operator's file limits it. */
void conf_limits_read(struct conf *conf, enum limits_kind kind);
