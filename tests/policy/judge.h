/* Runs a program of the simulation and says what came of it. */
#pragma once

#include "tenant.h"

struct judge_result {
	int64_t longest_ns;         /* launch of the program */
	int64_t window_ns;          /* that least and most are taken over */
	double least_pct, most_pct; /* busy in any window after the first second */
	double most_bare_pct;       /* the same without gaps between queued kernels */
	double mean_pct;            /* over all of that time */
	double metered_pct;         /* what the meter made of the whole run */
	double sparse_pct;
	double true_pct,
		bare_pct; /* of the whole run: with and without gaps between queued kernels */
	uint64_t launches;
	uint64_t markers;
	double longest_hold_ms;
};

/* One run of `seconds` under a limit, from a fixed seed. */
struct judge_result judge_run(const struct tenant_program *program, unsigned share_pct,
			      double seconds);

/* Long enough a window for one kernel more or less not to matter: see judge.c. */
int64_t judge_window_ns(const struct tenant_program *program, unsigned share_pct);

/* The longest launch of the program. */
int64_t judge_longest_ns(const struct tenant_program *program);

/* How long to run for two such windows to be judged. */
double judge_seconds(const struct tenant_program *program, unsigned share_pct);
