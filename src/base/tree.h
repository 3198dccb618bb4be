/*
 * Red-black trees: BSD's <sys/tree.h>, as libbsd carries it (header only, nothing is linked).
 */
#pragma once

#ifndef __unused
#define __unused __attribute__((__unused__))
#include <bsd/sys/tree.h>
/* The trees' code is generated where they are used, with this attribute. */
#else
#include <bsd/sys/tree.h>
#endif
